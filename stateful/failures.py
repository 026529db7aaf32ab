"""Storage faults in every operation of a subject, each part in a process of its own; what ``survives faults`` runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import field, frozen

from model.contracts import Contracts
from stateful.campaign import run_and_explain, running, trace_of
from stateful.shard import Shard, shard_seed
from stateful.subject import Subject
from stateful.trace import Trace
from stateful.verdict import PropertyVerdict, Status, Tally, merged
from stateful.workers import Report

SECONDS_MAX = 86_400
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
class Failures:
    """What storage faults came to."""

    subject: Subject
    contracts: Contracts
    seed: int
    properties: tuple[PropertyVerdict, ...]
    tallies: tuple[Tally, ...] = field(repr=False)
    seconds: float
    cut_short: str = ""

    @property
    def unsupported(self) -> str:
        """Why the engine can do nothing with the subject; empty if it can."""
        return next((t.unsupported for t in self.tallies if t.unsupported), "")

    @property
    def sqlite_note(self) -> str:
        """What has to be said of the SQLite that was recorded; empty where it was that of the module ``sqlite3``."""
        return next((t.sqlite_note for t in self.tallies if t.sqlite_note), "")

    @property
    def left_over(self) -> list[str]:
        """What could not be swept to the end."""
        return sorted(x for t in self.tallies for x in t.left_over)

    @property
    def status(self) -> Status:
        """A violation outweighs doubt, and doubt outweighs survival."""
        if any(p.status is Status.VIOLATED for p in self.properties):
            return Status.VIOLATED
        if self.unsupported:
            return Status.UNSUPPORTED
        failed = self.cut_short or self.left_over or any(t.failed for t in self.tallies)
        return Status.UNKNOWN if failed or not self.calls else Status.SURVIVED

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

    def traces(self) -> dict[str, Trace]:
        """The order that led up to the shortest violation of each promise that broke."""
        found = {p.property_id: p.broken for p in self.properties if p.broken is not None}
        return {id_: trace_of(self.subject, self.contracts, broken) for id_, broken in found.items()}

    def to_json(self) -> dict[str, Any]:
        """For machines. All that depends on the clock is under ``timing``."""
        return {
            "format": "survives-storage-faults",
            "version": 1,
            "subject": self.subject.name,
            "mistake": self.subject.mistake,
            "contracts": self.contracts.to_json(),
            "seed": self.seed,
            "status": str(self.status),
            "calls_failed": self.calls,
            "operations": self.operations,
            "faults": [one.to_json() for one in self.by_kind()],
            "by_operation": self.by_operation(),
            "violated": {p.property_id: p.broken.detail for p in self.properties if p.broken is not None},
            "traces": {property_id: trace.to_json() for property_id, trace in self.traces().items()},
            "left_over": self.left_over,
            "unsupported": self.unsupported,
            "cut_short": self.cut_short,
            "failed_shards": [t.failed for t in self.tallies if t.failed],
            "timing": {"seconds": round(self.seconds, 3)},
        } | ({"sqlite_note": self.sqlite_note} if self.sqlite_note else {})


def fail_everything(
    subject: Subject,
    contracts: Contracts,
    seed: int,
    *,
    workers: int = 2,
    report: Callable[[Report], None] | None = None,
) -> Failures:
    """Fail every call of every operation, ``workers`` processes at a time. Ctrl-C ends it with what was found."""
    started = time.monotonic()
    with running() as scratch:
        shards = [_shard(subject, contracts, seed, part, scratch) for part in range(PARTS)]
        tallies, cut_short = run_and_explain(shards, workers, started + SECONDS_MAX, report, scratch)
    properties = merged(tallies, subject.capabilities)
    return Failures(subject, contracts, seed, properties, tuple(tallies), time.monotonic() - started, cut_short)


def _shard(subject: Subject, contracts: Contracts, seed: int, part: int, scratch: Path) -> Shard:
    return Shard(
        engine="faults",
        index=part,
        seed=shard_seed(seed, "faults", 0),
        size=PARTS,
        part=part,
        subject=subject.name,
        mistake=subject.mistake,
        contracts=contracts,
        folder=Path.cwd(),
        scratch=scratch,
    )
