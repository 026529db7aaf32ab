"""The table of mistakes: for a terminal, as Markdown that two runs print alike, and as JSON with times."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from math import inf
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from stateful.mistake_table import Row
from stateful.shard import ENGINES

FAST = {"machine": 60, "walk": 200}
"""The engines that every order of whole operations concerns, and the executions to the first catch that are wanted."""
SECONDS_WANTED = 1
SHORTEST = "yes"


def show_table(rows: list[Row], *, as_json: bool = False, as_markdown: bool = False) -> None:
    """Print the table for a terminal, as JSON or as Markdown."""
    if as_json:
        print(json.dumps(to_json(rows), indent=2))  # noqa: T201 - it is the output
    elif as_markdown:
        print("\n".join(markdown(rows)))  # noqa: T201 - it is the output
    else:
        _terminal(rows)


# -- rows -----------------------------------------------------------------------------------------------------


def head(*, searched: bool) -> tuple[str, ...]:
    """The columns; one more where shorter orders were searched."""
    more = ("shortest",) if searched else ()
    return "mistake", "what it does", "breaks", "steps", *more, *(f"{e}: orders" for e in ENGINES)


def cells(row: Row, *, searched: bool) -> list[str]:
    """One row of the table."""
    best = row.caught[0] if row.caught else None
    out = [row.id, row.sentence, best.property_id if best else "NOT CAUGHT", str(best.steps) if best else ""]
    out += [shortest_cell(row)] if searched else []
    for engine in ENGINES:
        found = row.by(engine)
        out.append(str(found.orders) if found else "-" if engine in row.ran else "")
    return out


def shortest_cell(row: Row) -> str:
    """Whether the row's order is the shortest, how long a shorter one is, or how long it is at least."""
    found = row.shortest
    if found is None:
        return ""
    if found.proves(row.caught[0].steps):
        return SHORTEST
    return str(found.steps) if found.order else f"at least {found.steps}"


def markdown(rows: list[Row]) -> list[str]:
    """The table and what it comes to; nothing in it differs from run to run."""
    searched = _was_searched(rows)
    names = head(searched=searched)
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(cells(row, searched=searched))} |" for row in rows]
    return [*lines, "", *(f"- {line}" for line in totals(rows))]


def _terminal(rows: list[Row]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    table = Table(box=None, pad_edge=False)
    searched = _was_searched(rows)
    told = [[*cells(row, searched=searched), _seconds(row)] for row in rows]
    names = (*head(searched=searched), "seconds")
    # An engine that was not tried has no column: the sentences need the width.
    shown = [n for n in range(len(names)) if any(cell[n] for cell in told)]
    for n in shown:
        table.add_column(names[n], ratio=1 if names[n] == "what it does" else None, justify="left")
    for row, cell in zip(rows, told, strict=True):
        table.add_row(*(cell[n] for n in shown), style=None if row.caught else "bold red")
    console.print(table)
    for line in (*totals(rows), *times(rows)):
        console.print(line, markup=False)


def _seconds(row: Row) -> str:
    quickest = _quickest(row)
    return "" if quickest is None else f"{quickest:.2f}"


def _was_searched(rows: list[Row]) -> bool:
    return any(row.shortest is not None for row in rows)


# -- what it comes to -----------------------------------------------------------------------------------------


def totals(rows: list[Row]) -> list[str]:
    """How many are caught, by whom alone, how many orders are the shortest, and after how many executions."""
    caught = sum(bool(r.caught) for r in rows)
    twice = sum(len(r.caught) > 1 for r in rows)
    lines = [f"{caught} of {len(rows)} caught, {twice} by more than one engine."]
    shown = [shortest_cell(r) for r in rows if r.shortest is not None]
    if shown:
        open_ = sum("least" in cell for cell in shown)
        lines.append(
            f"{shown.count(SHORTEST)} of {len(shown)} orders of whole operations are shown to be the shortest, "
            f"{len(shown) - shown.count(SHORTEST) - open_} are not, {open_} are open."
        )
    for engine in ENGINES:
        mine = [r.id for r in rows if engine in r.ran and [c.engine for c in r.caught] == [engine]]
        if any(engine in r.ran for r in rows):
            lines.append(f"Caught by {engine} alone, of those tried: {', '.join(mine) or 'none'} ({len(mine)}).")
    lines += [line for engine, wanted in FAST.items() if (line := _executions(rows, engine, wanted))]
    return lines


def first_catches(rows: Iterable[Row], engine: str) -> list[float]:
    """Executions to the first catch, for each mistake that orders of whole operations show; infinite where missed."""
    ran = [r for r in rows if not r.shown_by and engine in r.ran]
    return [found.orders if (found := r.by(engine)) else inf for r in ran]


def _executions(rows: list[Row], engine: str, wanted: int) -> str:
    orders = first_catches(rows, engine)
    if not orders:
        return ""
    return (
        f"Executions of the {engine} to the first catch: median {median(orders):g} (wanted: {wanted} at most) of "
        f"{len(orders)} mistakes that whole operations show, {orders.count(inf)} of them missed."
    )


def times(rows: list[Row]) -> list[str]:
    """Medians of the wall time from an engine's start to its reduced order; they differ from run to run."""
    by_engine = {e: [c.seconds for r in rows if (c := r.by(e))] for e in ENGINES}
    quickest = [q for r in rows if (q := _quickest(r)) is not None]
    if not quickest:
        return []
    each = ", ".join(f"{e} {median(seconds):.2f} s" for e, seconds in by_engine.items() if seconds)
    wanted = f"(wanted: less than {SECONDS_WANTED} s)"
    return [f"Wall time to a reduced order: median {median(quickest):.2f} s by the quickest engine {wanted}; {each}."]


def _quickest(row: Row) -> float | None:
    return min((c.seconds for c in row.caught), default=None)


# -- JSON -----------------------------------------------------------------------------------------------------


def to_json(rows: list[Row]) -> dict[str, Any]:
    """The table and what it comes to; ``seconds`` and ``timing`` differ from run to run."""
    return {"mistakes": [_row_json(r) for r in rows], "totals": totals(rows), "timing": times(rows)}


def _row_json(row: Row) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": row.id,
        "kind": row.kind,
        "mistake": row.sentence,
        "expected": row.expected,
        "tried": list(row.ran),
        "caught": [
            {
                "engine": c.engine,
                "property": c.property_id,
                "orders": c.orders,
                "steps": c.steps,
                "order": [s.label for s in c.order],
                "seconds": round(c.seconds, 3),
            }
            for c in row.caught
        ],
    }
    if (found := row.shortest) is not None:
        out["shortest"] = {
            "steps": found.steps,
            "order": [s.label for s in found.order],
            "property": found.property_id,
            "exhausted": found.exhausted,
            "states": found.states,
            "steps_executed": found.executed,
        }
    return out
