"""What ``check``, ``table`` and ``replay`` do with a system that is out of process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from attrs import frozen

from stateful.commands.options import UNKNOWN, progress
from stateful.foreign.adapter import Adapter
from stateful.foreign.channel import AdapterError
from stateful.foreign.dispatcher import words_of
from stateful.foreign.examine import Examination, Examined, replay
from stateful.foreign.facts import Facts
from stateful.foreign.keeping import keep
from stateful.foreign.naming import adapter_named, named
from stateful.foreign.order import Order
from stateful.foreign.shim import built
from stateful.foreign.trace import read_foreign
from stateful.medium import run_scratch
from stateful.report.foreign import Shown, console, show, to_json
from stateful.verdict import EXIT_STATUS, Status
from stateful.workers import terminating

PATIENCE = 60


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for all that one run's systems store, removed in the end."""
    with terminating(), run_scratch() as folder:
        yield folder


@frozen
class How:
    """How much is done with an adapter: see the options of ``survives check``."""

    workers: int
    slow: bool
    sweep: bool
    files: bool
    patience: float = PATIENCE


def examined(words: tuple[str, ...], out: Path, how: How) -> Shown:
    """Examine one adapter and keep what was found. An adapter that cannot even be started is told as such."""
    shim = built() if how.files else None
    try:
        adapter = adapter_named(words, how.patience)
    except AdapterError as error:
        return Shown(Examined(" ".join(words), None, (), troubles=(str(error),)), {})
    with scratch() as folder, progress(f"examining {adapter.name}") as told:

        def report(name: str, done: int, planned: int) -> None:
            told(f"{done} of {planned} orders, {name}")

        result = Examination(
            adapter, folder, how.workers, slow=how.slow, sweep=how.sweep, shim=shim, report=report
        ).run()
    try:
        return Shown(result, keep(result, words, out))
    except OSError as error:
        click.echo(f"survives: {error.filename or out}: {error.strerror}; no trace was kept", err=True)
        return Shown(result, {})


def step_driven(words: tuple[str, ...], patience: float) -> str:
    """The name of the subject that an adapter is, if it is driven step by step; empty if by calls, or if it is broken."""
    try:
        adapter = adapter_named(words, patience)
        with scratch() as folder:
            return named(words) if adapter.ask(folder).style == "step" else ""
    except AdapterError:
        return ""  # the examination tells why


def check_adapter(words: tuple[str, ...], out: Path, how: How, *, as_json: bool) -> int:
    """``survives check`` on an adapter; the exit status."""
    try:
        shown = examined(words, out, how)
    except KeyboardInterrupt:
        click.echo("survives: interrupted, and so nothing was judged", err=True)
        raise SystemExit(UNKNOWN) from None
    if as_json:
        click.echo(json.dumps(to_json(shown), indent=2))
    else:
        show(shown)
    return EXIT_STATUS[shown.examined.status]


def replay_foreign(path: Path, other: str, times: int, *, as_json: bool) -> int:
    """``survives replay`` of a trace of version 6; the exit status."""
    trace = read_foreign(path)
    words = words_of(other) if other else trace.adapter
    adapter = adapter_named(words, PATIENCE)
    with scratch() as folder:
        told = [_once(adapter, folder / str(n), trace.order, trace.claim) for n in range(times)]
    broken = sum(bool(w) for _, w in told)
    facts, wrong = next((one for one in told if one[1]), told[0])
    found = "it was not at stake" if wrong is None else wrong or "it held"
    if as_json:
        lines = [{"step": x.label, "outcome": x.outcome, "at_rest": x.is_rest} for x in facts.lines]
        document = {
            "trace": trace.to_json(),
            "detail": wrong or "",
            "times": times,
            "violated": broken,
            "steps": lines,
        }
        click.echo(json.dumps(document, indent=2))
    else:
        out = console()
        system = f"{trace.system} {trace.system_version}".strip()
        out.print(f"{system}, {trace.claim}: {found}", markup=False)
        for number, line in enumerate(facts.lines, start=1):
            rest = "  at rest, " if line.is_rest else "  "
            out.print(f"{rest}{number}  {line.label}: {line.outcome}", markup=False)
        came = "vacuous" if wrong is None else "violated" if wrong else "holds"
        came = f"violated {broken} times of {times}" if times > 1 and broken else came
        out.print(f"  expected {trace.expect}, and it came out as {came}", markup=False)
    return EXIT_STATUS[Status.VIOLATED if broken else Status.VACUOUS if wrong is None else Status.SURVIVED]


def _once(adapter: Adapter, folder: Path, order: Order, claim: str) -> tuple[Facts, str | None]:
    folder.mkdir(parents=True, exist_ok=True)
    return replay(adapter, folder, order, claim)
