"""What one engine alone came to, each shard in a process of its own: what the commands of single engines share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

from attrs import field, frozen

from model.contracts import Contracts
from stateful.campaign import run_and_explain, running, trace_of
from stateful.shard import NamedScripts, Shard, shard_seed
from stateful.subject import Subject
from stateful.trace import Trace
from stateful.verdict import PropertyVerdict, Status, Tally, merged
from stateful.workers import Report

SECONDS_MAX = 86_400


@frozen
class Swept:
    """What became of each promise, and how much was tried."""

    FORMAT: ClassVar[str] = ""

    subject: Subject
    contracts: Contracts
    seed: int
    properties: tuple[PropertyVerdict, ...]
    tallies: tuple[Tally, ...] = field(repr=False)
    seconds: float
    cut_short: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether something was tried, and nothing was left over."""
        raise NotImplementedError

    def bound(self) -> dict[str, Any]:
        """What was tried, and how much of it, for machines."""
        raise NotImplementedError

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
        failed = self.cut_short or any(t.failed for t in self.tallies) or not self.is_complete
        return Status.UNKNOWN if failed else Status.SURVIVED

    def ends(self) -> dict[Status, int]:
        """How many promises came to which end."""
        out: dict[Status, int] = {}
        for prop in self.properties:
            out[prop.status] = out.get(prop.status, 0) + 1
        return out

    def traces(self) -> dict[str, Trace]:
        """The shortest trace of each promise that broke; where storage failed, of what led up to it."""
        found = {p.property_id: p.broken for p in self.properties if p.broken is not None}
        return {id_: trace_of(self.subject, self.contracts, broken) for id_, broken in found.items()}

    def to_json(self) -> dict[str, Any]:
        """For machines. All that depends on the clock is under ``timing``."""
        return {
            "format": self.FORMAT,
            "version": 1,
            "subject": self.subject.name,
            "mistake": self.subject.mistake,
            "contracts": self.contracts.to_json(),
            "seed": self.seed,
            "status": str(self.status),
            **self.bound(),
            "violated": {p.property_id: p.broken.detail for p in self.properties if p.broken is not None},
            "traces": {property_id: trace.to_json() for property_id, trace in self.traces().items()},
            "unsupported": self.unsupported,
            "cut_short": self.cut_short,
            "failed_shards": [t.failed for t in self.tallies if t.failed],
            "timing": {"seconds": round(self.seconds, 3)},
        } | ({"sqlite_note": self.sqlite_note} if self.sqlite_note else {})


@frozen
class Piece:
    """What one shard of a sweep does; see ``Shard``."""

    size: int = 0
    part: int = 0
    scripts: NamedScripts | None = None


@frozen
class Sweep:
    """What came of a sweep's shards, before anybody counts it."""

    properties: tuple[PropertyVerdict, ...]
    tallies: tuple[Tally, ...]
    seconds: float
    cut_short: str


def sweep(
    engine: str,
    subject: Subject,
    contracts: Contracts,
    seed: int,
    pieces: Iterable[Piece],
    *,
    workers: int = 2,
    report: Callable[[Report], None] | None = None,
    same_seed: bool = False,
) -> Sweep:
    """Run an engine's shards, ``workers`` processes at a time. Ctrl-C ends it with what was found so far."""
    started = time.monotonic()
    with running() as scratch:
        shards = [
            Shard(
                engine=engine,
                index=number,
                seed=shard_seed(seed, engine, 0 if same_seed else number),
                size=piece.size,
                part=piece.part,
                subject=subject.name,
                mistake=subject.mistake,
                contracts=contracts,
                folder=Path.cwd(),
                scratch=scratch,
                scripts=piece.scripts,
            )
            for number, piece in enumerate(pieces)
        ]
        tallies, cut_short = run_and_explain(shards, workers, started + SECONDS_MAX, report, scratch)
    properties = merged(tallies, subject.capabilities)
    return Sweep(properties, tuple(tallies), time.monotonic() - started, cut_short)
