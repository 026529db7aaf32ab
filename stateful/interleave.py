"""Standard programs under every schedule, each in a process of its own; what ``survives interleave`` runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from model.actions import Alphabet
from model.contracts import Contracts
from model.properties import WITNESSES
from stateful.campaign import run_and_explain, running, trace_of
from stateful.schedules.catalogue import programs
from stateful.shard import NamedProgram, Shard
from stateful.subject import Subject
from stateful.trace import Trace
from stateful.verdict import Status, Tally
from stateful.workers import Report

SECONDS_MAX = 86_400
COUNTED = ("schedules", "sampled", "nodes", "crash_states", "endings", "deadlocks")


@frozen
class Size:
    """How many workers run on how many keys, and how far the schedules are searched."""

    workers: int = 2
    keys: int = 1
    kills: int = 1
    preemptions: int | None = None
    schedules: int | None = None

    @property
    def label(self) -> str:
        """The bound in words."""
        preemptions = "no bound on preemptions" if self.preemptions is None else f"{self.preemptions} preemptions"
        most = "" if self.schedules is None else f", at most {self.schedules:,} schedules of a program"
        at = f"{self.workers} workers, {self.keys} {'key' if self.keys == 1 else 'keys'}"
        return f"{at}, {self.kills} {'death' if self.kills == 1 else 'deaths'} in a schedule, {preemptions}{most}"


@frozen
class Row:
    """One program: what was done, and what broke."""

    name: str
    program: str
    tally: Tally = field(repr=False)

    @property
    def is_exhausted(self) -> bool:
        """Whether every schedule within the bound was run, or one that stands for it."""
        return bool(self.tally.schedules["exhausted"]) and not self.tally.schedules["undecided"]

    @property
    def status(self) -> Status:
        """What became of it. A program whose schedules were cut off is unknown, unless something broke."""
        if self.tally.broken:
            return Status.VIOLATED
        if self.tally.unsupported:
            return Status.UNSUPPORTED
        return Status.SURVIVED if self.is_exhausted and not self.tally.failed else Status.UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        done = self.tally.schedules
        out: dict[str, Any] = {"name": self.name, "program": self.program, "status": str(self.status)}
        out |= {name: done[name] for name in COUNTED} | {"exhausted": self.is_exhausted}
        out["violated"] = {b.property_id: b.detail for b in self.tally.broken.values()}
        why = self.tally.failed or self.tally.unsupported
        return out | ({"why": why} if why else {})


@frozen
class Interleaved:
    """All programs, and the bound."""

    subject: Subject
    contracts: Contracts
    size: Size
    rows: tuple[Row, ...]
    seconds: float
    cut_short: str = ""

    @property
    def status(self) -> Status:
        """A violation outweighs doubt, and doubt outweighs survival."""
        seen = {row.status for row in self.rows}
        for status in (Status.VIOLATED, Status.UNSUPPORTED):
            if status in seen:
                return status
        return Status.UNKNOWN if self.cut_short or Status.UNKNOWN in seen or not seen else Status.SURVIVED

    def total(self, what: str) -> int:
        """One count over all programs."""
        return sum(row.tally.schedules[what] for row in self.rows)

    def witnesses(self) -> tuple[str, ...]:
        """What was seen at least once."""
        return tuple(w for w in WITNESSES if any(row.tally.witnesses[w] for row in self.rows))

    def traces(self) -> dict[str, Trace]:
        """The shortest trace of each promise that broke."""
        out = {}
        for property_id in sorted({p for row in self.rows for p in row.tally.broken}):
            found = [row.tally.broken[property_id] for row in self.rows if property_id in row.tally.broken]
            shortest = trace_of(self.subject, self.contracts, min(found, key=lambda b: b.rank))
            out[property_id] = evolve(shortest, workers=max(2, self.size.workers), keys=max(2, self.size.keys))
        return out

    def to_json(self) -> dict[str, Any]:
        """For machines. All that depends on the clock is under ``timing``."""
        return {
            "format": "survives-interleavings",
            "version": 1,
            "subject": self.subject.name,
            "mistake": self.subject.mistake,
            "contracts": self.contracts.to_json(),
            "bound": {
                "workers": self.size.workers,
                "keys": self.size.keys,
                "kills": self.size.kills,
                "preemptions": self.size.preemptions,
                "schedules": self.size.schedules,
            },
            "status": str(self.status),
            "totals": {"programs": len(self.rows), **{name: self.total(name) for name in COUNTED}},
            "programs": [row.to_json() for row in self.rows],
            "traces": {property_id: trace.to_json() for property_id, trace in self.traces().items()},
            "cut_short": self.cut_short,
            "timing": {"seconds": round(self.seconds, 3)},
        }


def standard(subject: Subject, size: Size) -> dict[str, str]:
    """The names of the standard programs of a size, and what each does."""
    alphabet = Alphabet(size.workers, size.keys)
    return {name: p.label for name, p in programs(alphabet, size.keys, subject.capabilities).items()}


def interleave(
    subject: Subject,
    contracts: Contracts,
    size: Size,
    *,
    names: Iterable[str] = (),
    workers: int = 2,
    report: Callable[[Report], None] | None = None,
) -> Interleaved:
    """Run standard programs, those of ``names`` or all, ``workers`` at a time. Ctrl-C ends it with what was found."""
    started = time.monotonic()
    every = standard(subject, size)
    chosen = list(names) or list(every)
    with running() as scratch:
        shards = [_shard(subject, contracts, size, name, number, scratch) for number, name in enumerate(chosen)]
        tallies, cut_short = run_and_explain(shards, workers, started + SECONDS_MAX, report, scratch)
    rows = tuple(Row(chosen[t.shard], every[chosen[t.shard]], t) for t in tallies)
    return Interleaved(subject, contracts, size, rows, time.monotonic() - started, cut_short)


def _shard(subject: Subject, contracts: Contracts, size: Size, name: str, number: int, scratch: Path) -> Shard:
    return Shard(
        engine="interleavings",
        index=number,
        seed=0,
        size=0,
        part=0,
        subject=subject.name,
        mistake=subject.mistake,
        contracts=contracts,
        folder=Path.cwd(),
        scratch=scratch,
        program=NamedProgram(name, size.workers, size.keys, size.kills, size.preemptions, size.schedules),
    )
