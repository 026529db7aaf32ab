"""What a campaign looks like on a terminal: live progress, then the verdict, then a story for each broken promise."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from model.attempts import EventKind
from stateful.campaign import Campaign, Verdict, plan
from stateful.findings import Kept, keep
from stateful.story import counted
from stateful.verdict import PropertyVerdict, Status, checked
from stateful.workers import Report, terminating

STYLE = {
    Status.SURVIVED: "green",
    Status.VIOLATED: "bold red",
    Status.UNSUPPORTED: "dim",
    Status.UNKNOWN: "yellow",
    Status.VACUOUS: "yellow",
}
WIDTH = 120
"""Columns where the output is no terminal."""


class _Output(Console):
    """Standard output: whoever reads it may leave, and that is for the caller to know."""

    def on_broken_pipe(self) -> None:
        """Pass it on; rich's own way is to end the process with the status of a violation."""
        raise BrokenPipeError


class Display:
    """Shows one campaign. Progress goes to standard error, the verdict to standard output."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._out = _Output(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDTH)
        self._err = Console(stderr=True, highlight=False, soft_wrap=True)

    @contextmanager
    def progress(self, campaign: Campaign) -> Iterator[Callable[[Report], None] | None]:
        """Show where a campaign stands, while it runs; nothing where nobody watches."""
        if not self._err.is_terminal:
            yield None
            return
        shards = sum(map(len, plan(campaign.subject, campaign.contracts, campaign.budget, folder=campaign.folder)))
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(None), TimeElapsedColumn())
        with Progress(*columns, console=self._err, transient=True) as bar:
            task = bar.add_task("starting", total=shards)
            started = time.monotonic()

            def report(stand: Report) -> None:
                tallies = (*stand.ended, *stand.under_way)
                seconds = max(0.1, time.monotonic() - started)
                orders, steps, kills = (sum(getattr(t, n) for t in tallies) for n in ("orders", "steps", "kills"))
                found = len({p for t in tallies for p in t.broken})
                text = f"{orders:,} orders, {steps / seconds:,.0f} steps/s, {kills / seconds:,.0f} kills/s"
                bar.update(
                    task,
                    completed=len(stand.ended),
                    description=text + (f", [red]{counted(found, 'promise')} broken[/]" if found else ""),
                )

            yield report

    def verdict(self, verdict: Verdict, out: Path) -> Verdict:
        """Keep and tell a verdict's findings, and show it. What did not happen again is unknown in what comes back."""
        findings: list[tuple[PropertyVerdict, Kept]] = []
        interrupted = False
        try:
            with terminating():
                for prop in verdict.properties:
                    if prop.trace is not None and prop.broken is not None:
                        by_death = prop.broken.engine == "kills"
                        findings.append((prop, keep(prop.trace, out, prop.broken.detail, by_death=by_death)))
        except KeyboardInterrupt:
            interrupted = True
        verdict = verdict.without({p.property_id for p, kept in findings if kept.is_doubtful})
        self._show(verdict, findings, interrupted=interrupted)
        return verdict

    def _show(self, verdict: Verdict, findings: list[tuple[PropertyVerdict, Kept]], *, interrupted: bool) -> None:
        if not self._as_json:
            self._table(verdict)
        if self._as_json:
            document = verdict.to_json()
            folders = {p.property_id: str(k.folder) for p, k in findings if k.folder}
            for entry in document["properties"]:
                if entry["id"] in folders:
                    entry["folder"] = folders[entry["id"]]
            self._out.print(json.dumps(document, indent=2), markup=False)
        else:
            for prop, kept in findings:
                self._finding(kept, minimal=bool(prop.broken and prop.broken.minimal))
            self._bound(verdict)
        if interrupted:
            self._err.print("survives: interrupted while telling", markup=False)
        for prop, kept in findings:
            if kept.trouble:
                self._err.print(f"survives: {kept.trouble}", markup=False)
                if not self._as_json and prop.trace is not None:
                    self._out.print(json.dumps(prop.trace.to_json()), markup=False)

    def _table(self, verdict: Verdict) -> None:
        weak = ",".join(f"{n}={c}" for n, c in verdict.contracts.weakened().items())
        mistake = f" with mistake {verdict.mistake}" if verdict.mistake else ""
        self._out.print(f"{verdict.subject}{mistake}, contracts {weak or 'default'}\n", markup=False)
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column()
        width = max(len(p.status) for p in verdict.properties)
        for prop in verdict.properties:
            said = prop.name + (f" ({counted(prop.broken.length, 'step')})" if prop.broken else "")
            if self._out.is_terminal:
                table.add_row(f"[{STYLE[prop.status]}]{prop.status}[/]", escape(said))
            else:
                self._out.print(f"{prop.status:<{width}}  {said}", markup=False)
        if self._out.is_terminal:
            self._out.print(table)

    def _finding(self, kept: Kept, *, minimal: bool) -> None:
        self._out.print()
        self._out.print(kept.story.text(), markup=False)
        if not minimal:
            self._out.print("  (not one-minimal: it could not be reduced further within its bound)")
        if kept.folder:
            self._out.print(f"  kept in  {kept.folder}", markup=False)
            self._out.print(f"  replay:  {kept.replay}", markup=False)

    def _bound(self, verdict: Verdict) -> None:
        totals = verdict.totals()
        words = [
            counted(totals["orders"], "order"),
            counted(totals["steps"], "step"),
            counted(totals["kills"], "death"),
        ]
        operations = len({name.rpartition(":")[0] for name in verdict.boundaries()})
        left = sum(len(t.left_over) for t in verdict.tallies)
        self._out.print()
        self._out.print(
            f"[{STYLE[verdict.status]}]{str(verdict.status).upper()}[/] {checked(verdict.promises())} "
            f"within {', '.join(words)}; seed {verdict.budget.seed}, {verdict.seconds_taken:.1f} s"
        )
        self._out.print(
            f"  {totals['boundaries_killed']:,} real deaths and freezes at every boundary of {operations} operations, "
            f"{left} left over; not exhausted: random orders within these bounds"
        )
        for line in _by_engine(verdict):
            self._out.print(f"  {line}", markup=False)
        for engine, why in verdict.unsupported().items():
            self._out.print(f"  UNSUPPORTED by {engine}: {why}; the other engines judge it", markup=False)
        seen = ", ".join(f"{name} {count:,}" for name, count in verdict.witnesses().items())
        self._out.print(f"  seen: {seen or 'nothing'}", markup=False)
        self._out.print(f"  tried: {verdict.coverage().told()}", markup=False)
        if verdict.status is Status.VACUOUS and not verdict.missing:
            self._out.print("  VACUOUS: too few pairs of actions were tried; give it more --seconds", markup=False)
        elif verdict.status is Status.VACUOUS:
            self._out.print(
                f"  VACUOUS: never seen: {', '.join(verdict.missing)}; give it more --seconds", markup=False
            )
        if verdict.cut_short:
            run = f"{len(verdict.tallies)} of {verdict.planned} shards"
            self._out.print(
                f"  CUT SHORT: {verdict.cut_short} after {run}; this is what was found so far", markup=False
            )
        for tally in verdict.tallies:
            if tally.failed:
                self._out.print(f"  FAILED: {tally.engine}[{tally.shard}]: {tally.failed}", markup=False)


def _by_engine(verdict: Verdict) -> Iterator[str]:
    """What the engines did that count something else than orders."""
    if verdict.schedules():
        yield _scheduled(verdict.schedules())
    if verdict.cuts():
        yield _cut(verdict.cuts())
    if verdict.attempts():
        yield _attempted(verdict.attempts())
    if verdict.faults():
        met = sum(n for name, n in verdict.faults().items() if not name.endswith("| calls"))
        failed = counted(verdict.totals()["calls_failed"], "storage call")
        yield f"{failed} failed in {counted(met, 'operation')}"


def _scheduled(done: dict[str, int]) -> str:
    """What the interleavings came to: ``1,234 schedules of 66 programs (60 exhausted) ...``."""
    deadlocks = f", {counted(done['deadlocks'], 'deadlock')}" if done["deadlocks"] else ""
    cut = f", {done['cut']:,} cut off" if done["cut"] else ""
    return (
        f"{counted(done['schedules'] + done['sampled'], 'schedule')} of {counted(done['programs'], 'program')} side by "
        f"side ({done['exhausted']:,} exhausted), {counted(done['nodes'], 'node')}, "
        f"{counted(done['crash_states'], 'crash state')}{deadlocks}{cut}"
    )


def _cut(done: dict[str, int]) -> str:
    """What the power cuts came to: ``2,919 crash states of 11 orders ...``."""
    return (
        f"{counted(done['states'] + done['second'], 'crash state')} of power cuts in {counted(done['orders'], 'order')}, "
        f"{counted(done['operations'], 'storage operation')}, recovered from {counted(done['recoveries'], 'state')}"
    )


def _attempted(done: dict[str, int]) -> str:
    """What the attempts came to: ``2,181 runs of attempts on a virtual clock ...``."""
    events = sum(done.get(str(kind), 0) for kind in EventKind)
    return (
        f"{counted(done['runs'], 'run')} of attempts on a virtual clock, {counted(done['sends'], 'send')}, "
        f"{counted(events, 'event')} between two of {done['turns']:,} turns"
    )
