"""Power cuts of many orders, each batch in a process of its own; what ``survives power`` runs."""

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
BATCH = 10
"""Generated orders in a shard."""


@frozen
class Cuts:
    """What the power cuts of some orders came to."""

    subject: Subject
    contracts: Contracts
    orders: int
    seed: int
    properties: tuple[PropertyVerdict, ...]
    tallies: tuple[Tally, ...] = field(repr=False)
    seconds: float
    cut_short: str = ""

    @property
    def totals(self) -> Counter[str]:
        """Orders, storage operations, points, crash states, recoveries."""
        total: Counter[str] = Counter()
        for tally in self.tallies:
            total.update(tally.cuts)
        return total

    @property
    def unsupported(self) -> str:
        """Why the engine can do nothing with the subject; empty if it can."""
        return next((t.unsupported for t in self.tallies if t.unsupported), "")

    @property
    def sqlite_note(self) -> str:
        """What has to be said of the SQLite that was recorded; empty where it was that of the module ``sqlite3``."""
        return next((t.sqlite_note for t in self.tallies if t.sqlite_note), "")

    @property
    def status(self) -> Status:
        """A violation outweighs doubt, and doubt outweighs survival."""
        if any(p.status is Status.VIOLATED for p in self.properties):
            return Status.VIOLATED
        if self.unsupported:
            return Status.UNSUPPORTED
        failed = self.cut_short or any(t.failed for t in self.tallies) or not self.totals["states"]
        return Status.UNKNOWN if failed else Status.SURVIVED

    def traces(self) -> dict[str, Trace]:
        """The shortest trace of each promise that broke."""
        found = {p.property_id: p.broken for p in self.properties if p.broken is not None}
        return {id_: trace_of(self.subject, self.contracts, broken) for id_, broken in found.items()}

    def to_json(self) -> dict[str, Any]:
        """For machines. All that depends on the clock is under ``timing``."""
        return {
            "format": "survives-power-cuts",
            "version": 1,
            "subject": self.subject.name,
            "mistake": self.subject.mistake,
            "contracts": self.contracts.to_json(),
            "orders": self.orders,
            "seed": self.seed,
            "status": str(self.status),
            "totals": dict(sorted(self.totals.items())),
            "exhaustive": not self.totals["sampled"] and not self.totals["passed"],
            "violated": {p.property_id: p.broken.detail for p in self.properties if p.broken is not None},
            "traces": {property_id: trace.to_json() for property_id, trace in self.traces().items()},
            "unsupported": self.unsupported,
            "cut_short": self.cut_short,
            "failed_shards": [t.failed for t in self.tallies if t.failed],
            "timing": {"seconds": round(self.seconds, 3)},
        } | ({"sqlite_note": self.sqlite_note} if self.sqlite_note else {})


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
    started = time.monotonic()
    with running() as scratch:
        sizes = [0, *(min(BATCH, orders - done) for done in range(0, orders, BATCH))]
        shards = [_shard(subject, contracts, seed, number, size, scratch) for number, size in enumerate(sizes)]
        tallies, cut_short = run_and_explain(shards, workers, started + SECONDS_MAX, report, scratch)
    properties = merged(tallies, subject.capabilities)
    seconds = time.monotonic() - started
    return Cuts(subject, contracts, orders, seed, properties, tuple(tallies), seconds, cut_short)


def _shard(subject: Subject, contracts: Contracts, seed: int, number: int, size: int, scratch: Path) -> Shard:
    return Shard(
        engine="power",
        index=number,
        seed=shard_seed(seed, "power", number),
        size=size,
        part=number,
        subject=subject.name,
        mistake=subject.mistake,
        contracts=contracts,
        folder=Path.cwd(),
        scratch=scratch,
    )
