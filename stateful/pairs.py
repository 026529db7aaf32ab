"""Contracts that protect each other: two weak choices break together what either alone keeps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from attrs import evolve, frozen

from model.contracts import Contracts, contracts_from
from model.properties import PROPERTIES
from stateful.cells import Cell, Mark
from stateful.columns import COLUMNS, EXECUTED_ELSEWHERE, LIMITS, rows
from stateful.matrix import executed, searched
from stateful.order import Rig
from stateful.subject import Subject, load_subject


@frozen
class Pair:
    """Two contracts that protect each other: either alone keeps a promise that breaks when both are weak."""

    names: tuple[str, str]
    column: str
    cell: Cell

    @property
    def agrees(self) -> bool:
        """Whether SQLite agrees: it keeps the promise with either contract, and breaks it with neither."""
        return self.cell.agrees

    def text(self) -> str:
        """The pair and its order in a few lines."""
        first, second = self.names
        prop = PROPERTIES[self.cell.property_id]
        lines = [
            f"{first} and {second}, under {self.column}:",
            f"  {prop.name}",
            f"  either weakness alone keeps it; both together break it in {len(self.cell.labels)} steps"
            + ("" if self.agrees else f"  DISAGREE: {self.cell.note}"),
            *(f"    {n}  {label}" for n, label in enumerate(self.cell.labels, start=1)),
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {"weakened": list(self.names), **self.cell.to_json()}


PAIRED_IN = ("retry", "cancellation", "payload change")
"""The columns that are searched for pairs: small ones, without the passing of time."""


def protecting_pairs(report: Callable[[tuple[str, str]], None] = lambda _: None) -> list[Pair]:
    """Every pair of weak choices that breaks a promise, in a small column, which neither breaks alone.

    The order is run on SQLite three times: with both weak it must break the promise, with either alone it must not.
    """
    subject = load_subject()
    weak = {n: c for n, c in rows().items() if c.weakened() and n.partition("=")[0] not in EXECUTED_ELSEWHERE}
    alone = {
        (name, column): frozenset(searched(contracts, COLUMNS[column])[1].traces)
        for name, contracts in weak.items()
        for column in PAIRED_IN
    }
    out = []
    for names in combinations(weak, 2):
        choices = weak[names[0]].weakened() | weak[names[1]].weakened()
        if len(choices) < 2:
            continue
        report(names)
        pair = _pair(names, contracts_from(choices), alone, weak, subject)
        if pair is not None:
            out.append(pair)
    return out


def _pair(
    names: tuple[str, str],
    contracts: Contracts,
    alone: dict[tuple[str, str], frozenset[str]],
    weak: dict[str, Contracts],
    subject: Subject,
) -> Pair | None:
    for column in PAIRED_IN:
        space, result = searched(contracts, COLUMNS[column])
        new = {p: t for p, t in result.traces.items() if not any(p in alone[n, column] for n in names)}
        if not new:
            continue
        property_id = min(new, key=lambda p: (len(new[p]), list(PROPERTIES).index(p)))
        cell = Cell(
            " + ".join(names),
            column,
            Mark.VIOLATED,
            result.states,
            result.transitions,
            property_id=property_id,
            labels=new[property_id],
        )
        cell = executed(cell, space, subject)
        for name in names:
            if _breaks_on_sqlite(cell, weak[name], subject):
                cell = evolve(cell, agrees=False, note=f"SQLite breaks it with {name} alone")
        return Pair(names, column, cell)
    return None


def _breaks_on_sqlite(cell: Cell, contracts: Contracts, subject: Subject) -> bool:
    with Rig(subject, contracts, LIMITS, workers=2, keys=1) as rig:
        ran = rig.run(cell.steps)
    return ran.finding is not None and ran.finding.property_id == cell.property_id
