"""The power of the engines: which of them catches which seeded mistake, after how many orders, in how few steps."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen
from rich.console import Console
from rich.table import Table

from impl.mistakes import MISTAKES, UnknownMistakeError
from model.contracts import Contracts
from model.properties import CONFORMS
from stateful.medium import fast_folder
from stateful.shard import ENGINES, Shard, shard_seed
from stateful.subject import DEFAULT_SUBJECT
from stateful.verdict import Broken, Tally
from stateful.workers import Interrupted, run_shards

ORDERS = {"walk": 3_000, "machine": 400, "kills": 1, "interleavings": 100, "faults": 8, "power": 1, "attempts": 2}
"""The most that an engine tries: orders; for kills one whole catalogue; for interleavings schedules of a program; for
faults one of so many parts of its catalogue, or all of it for what only faults show."""
ALONE = {"faults": 1, "interleavings": 1_000}
"""The same where no other engine shows it."""
SECONDS_MAX = 3_600


@frozen
class Caught:
    """How one engine caught a mistake: the promise that broke, after how many orders, in how many steps."""

    engine: str
    property_id: str
    orders: int
    steps: int


@frozen
class Row:
    """One mistake and the engines that caught it, the one with the shortest trace first."""

    id: str
    kind: str
    sentence: str
    expected: str
    caught: tuple[Caught, ...]
    ran: tuple[str, ...] = ()
    """The engines that were tried."""

    def by(self, engine: str) -> Caught | None:
        """How ``engine`` caught it, if it did."""
        return next((c for c in self.caught if c.engine == engine), None)


def engines_for(mistake_id: str, asked: Iterable[str]) -> tuple[str, ...]:
    """The engines that were asked for; if none, the two that are fast, and the one that alone shows the mistake.

    Of a runner the fast ones know nothing: its mistakes are left to the engine that runs it.
    """
    alone = MISTAKES[mistake_id].shown_by
    chosen = set(asked) or ({alone} if alone == "attempts" else {"walk", "machine", alone})
    return tuple(e for e in ENGINES if e in chosen)


def mistake_table(ids: Iterable[str], seed: int, engines: Iterable[str], workers: int) -> list[Row]:
    """Run engines on every mistake (or on those of ``ids``) until it is caught or the engine's bound is reached.

    Raises UnknownMistakeError for an id that does not exist.
    """
    chosen = tuple(ids) or tuple(MISTAKES)
    for one in chosen:
        if one not in MISTAKES:
            raise UnknownMistakeError(one)
    names = {one: engines_for(one, engines) for one in chosen}
    scratch = fast_folder("survives-run-")
    import shutil

    try:
        shards = [_shard(one, engine, seed, scratch) for one in chosen for engine in names[one]]
        try:
            tallies = run_shards(shards, workers, time.monotonic() + SECONDS_MAX, None, [])
        except Interrupted as stop:
            tallies = [*stop.tallies, *(Tally(s.engine) for s in shards[len(stop.tallies) :])]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    left = iter(tallies)
    return [_row(one, [next(left) for _ in names[one]]) for one in chosen]


def _shard(mistake: str, engine: str, seed: int, scratch: Path) -> Shard:
    return Shard(
        engine=engine,
        index=0,
        seed=shard_seed(seed, engine, 0),
        size=_size(engine, alone=MISTAKES[mistake].shown_by == engine),
        part=-1 if engine == "interleavings" else 0,
        subject=DEFAULT_SUBJECT,
        mistake=mistake,
        contracts=Contracts(),
        folder=Path.cwd(),
        scratch=scratch,
        stop_at_first=True,
    )


def _size(engine: str, *, alone: bool) -> int:
    """How much an engine tries: more where it alone shows the mistake."""
    return ALONE.get(engine, ORDERS[engine]) if alone else ORDERS[engine]


def _row(one: str, tallies: list[Tally]) -> Row:
    mistake = MISTAKES[one]
    caught = [_caught(t, min(t.broken.values(), key=_worth)) for t in tallies if t.broken]
    best = tuple(sorted(caught, key=lambda c: (c.property_id == CONFORMS.id, c.steps, c.orders, c.engine)))
    return Row(one, mistake.kind, mistake.sentence, mistake.breaks, best, tuple(t.engine for t in tallies))


def _worth(broken: Broken) -> tuple[bool, int]:
    """A named promise says more than a difference from the model, and a short order more than a long one."""
    return broken.property_id == CONFORMS.id, broken.length


def _caught(tally: Tally, broken: Broken) -> Caught:
    return Caught(tally.engine, broken.property_id, broken.found_after, broken.length)


def show_table(rows: list[Row], *, as_json: bool = False, as_markdown: bool = False) -> None:
    """Print the table for a terminal, as JSON or as Markdown."""
    if as_json:
        print(json.dumps([_row_json(r) for r in rows], indent=2))  # noqa: T201 - it is the output
    elif as_markdown:
        print("\n".join(_markdown(rows)))  # noqa: T201 - it is the output
    else:
        _terminal(rows)


def _row_json(row: Row) -> dict[str, object]:
    return {
        "id": row.id,
        "kind": row.kind,
        "mistake": row.sentence,
        "expected": row.expected,
        "caught": [
            {"engine": c.engine, "property": c.property_id, "orders": c.orders, "steps": c.steps} for c in row.caught
        ],
    }


def _cells(row: Row) -> list[str]:
    best = row.caught[0] if row.caught else None
    cells = [row.id, row.sentence, best.property_id if best else "NOT CAUGHT", str(best.steps) if best else ""]
    for engine in ENGINES:
        found = row.by(engine)
        cells.append(str(found.orders) if found else "-" if engine in row.ran else "")
    return cells


_HEAD = ("mistake", "what it does", "breaks", "steps", *(f"{e}: orders" for e in ENGINES))


def _markdown(rows: list[Row]) -> list[str]:
    lines = [f"| {' | '.join(_HEAD)} |", f"|{'---|' * len(_HEAD)}"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in rows]
    return [*lines, "", _total(rows)]


def _terminal(rows: list[Row]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    table = Table(box=None, pad_edge=False)
    for name in _HEAD:
        table.add_column(name, ratio=1 if name == "what it does" else None, justify="left")
    for row in rows:
        cells = _cells(row)
        table.add_row(*cells, style=None if row.caught else "bold red")
    console.print(table)
    console.print(_total(rows), markup=False)


def _total(rows: list[Row]) -> str:
    caught = sum(bool(r.caught) for r in rows)
    twice = sum(len(r.caught) > 1 for r in rows)
    return f"{caught} of {len(rows)} caught, {twice} by more than one engine."
