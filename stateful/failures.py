"""Storage faults in every operation of a subject; what ``survives faults`` runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from attrs import frozen

from model.contracts import Contracts
from stateful.subject import Subject
from stateful.swept import Piece, Swept, sweep
from stateful.workers import Report

PARTS = 8
"""Of the catalogue; the first has what is done once for each store too."""
CALLS = "calls"


@frozen
class Failed:
    """What came of one kind of fault in one store."""

    kind: str
    store: str
    calls: int
    """How many calls have failed; 0 where nothing is called, such as for a file that is damaged."""
    came_to: dict[str, int]
    """How many operations met it, by what they answered."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {"kind": self.kind, "store": self.store, "calls_failed": self.calls, "operations": self.came_to}


@frozen
class Failures(Swept):
    """What storage faults came to."""

    FORMAT: ClassVar[str] = "survives-storage-faults"

    @property
    def left_over(self) -> list[str]:
        """What could not be swept to the end."""
        return sorted(x for t in self.tallies for x in t.left_over)

    @property
    def is_complete(self) -> bool:
        """Whether something failed, and each sweep came to its end."""
        return self.calls > 0 and not self.left_over

    @property
    def calls(self) -> int:
        """How many calls have failed."""
        return sum(one.calls for one in self.by_kind())

    @property
    def operations(self) -> int:
        """How many times an operation met a fault."""
        return sum(sum(one.came_to.values()) for one in self.by_kind())

    def by_kind(self) -> list[Failed]:
        """What came of each kind in each store."""
        total: Counter[str] = Counter()
        for tally in self.tallies:
            total.update(tally.faults)
        found: dict[tuple[str, str], dict[str, int]] = {}
        for name, count in sorted(total.items()):
            kind, store, what = name.split(" | ")
            found.setdefault((kind, store), {})[what] = count
        return [Failed(kind, store, came.pop(CALLS, 0), came) for (kind, store), came in found.items()]

    def by_operation(self) -> dict[str, int]:
        """How many calls have failed in each operation, by kind."""
        total: Counter[str] = Counter()
        for tally in self.tallies:
            total.update(tally.boundaries)
        return dict(sorted(total.items()))

    def bound(self) -> dict[str, Any]:
        """What failed, how often, and what came of it."""
        return {
            "calls_failed": self.calls,
            "operations": self.operations,
            "faults": [one.to_json() for one in self.by_kind()],
            "by_operation": self.by_operation(),
            "left_over": self.left_over,
        }


def fail_everything(
    subject: Subject,
    contracts: Contracts,
    seed: int,
    *,
    workers: int = 2,
    report: Callable[[Report], None] | None = None,
) -> Failures:
    """Fail every call of every operation, ``workers`` processes at a time. Ctrl-C ends it with what was found."""
    pieces = [Piece(PARTS, part) for part in range(PARTS)]
    done = sweep("faults", subject, contracts, seed, pieces, workers=workers, report=report, same_seed=True)
    return Failures(subject, contracts, seed, done.properties, done.tallies, done.seconds, done.cut_short)
