"""Power cuts of many orders; what ``survives power`` runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from attrs import frozen

from model.contracts import Contracts
from stateful.subject import Subject
from stateful.swept import Piece, Swept, sweep
from stateful.workers import Report

BATCH = 10
"""Generated orders in a shard."""


@frozen
class Cuts(Swept):
    """What the power cuts of some orders came to."""

    FORMAT: ClassVar[str] = "survives-power-cuts"

    orders: int = 0

    @property
    def totals(self) -> Counter[str]:
        """Orders, storage operations, points, crash states, recoveries."""
        total: Counter[str] = Counter()
        for tally in self.tallies:
            total.update(tally.cuts)
        return total

    @property
    def is_complete(self) -> bool:
        """Whether there was anything to cut."""
        return self.totals["states"] > 0

    def bound(self) -> dict[str, Any]:
        """Orders, and what was enumerated."""
        totals = self.totals
        return {
            "orders": self.orders,
            "totals": dict(sorted(totals.items())),
            "exhaustive": not totals["sampled"] and not totals["passed"],
        }


def cut_orders(
    subject: Subject,
    contracts: Contracts,
    orders: int,
    seed: int,
    *,
    workers: int = 2,
    report: Callable[[Report], None] | None = None,
) -> Cuts:
    """Cut the standard order and so many generated ones, ``workers`` processes at a time. Ctrl-C ends it early."""
    sizes = [0, *(min(BATCH, orders - done) for done in range(0, orders, BATCH))]
    pieces = [Piece(size, part) for part, size in enumerate(sizes)]
    done = sweep("power", subject, contracts, seed, pieces, workers=workers, report=report)
    return Cuts(subject, contracts, seed, done.properties, done.tallies, done.seconds, done.cut_short, orders)
