"""Campaigns: a budget is planned into waves of shards, the shards run in worker processes, the tallies add up.

The plan depends on the budget and the seed alone, never on the clock or on the number of workers, so that a seed gives
the same verdict everywhere. A budget in seconds is therefore nominal: it is turned into work at the rates below, which
are those of two slow cores. A wave in which a promise broke is the last.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from model.actions import Alphabet
from model.contracts import Contracts
from model.properties import ACK_DURABLE, ANSWERS, WITNESSES
from model.words import Capability
from stateful.attempts.plan import Plan
from stateful.coverage import Coverage, Summary
from stateful.medium import no_room, run_folder
from stateful.shard import Shard, recorded, reduced, run_shard, shard_seed
from stateful.subject import Subject
from stateful.trace import Trace
from stateful.trouble import NoRoomError
from stateful.verdict import Broken, PropertyVerdict, Status, Tally, merged, overall, unseen
from stateful.workers import Interrupted, Report, run_shards, terminating

WAVE_SECONDS = 9
"""A wave takes two slow cores about this long."""
MACHINE_ORDERS = 100
WALK_ORDERS = 450
SCHEDULES = 100
"""The most of one program."""
KILL_PARTS = 2
FAULT_PARTS = 12
REMOTE_WALKS, REMOTE_ORDERS = 2, 8
"""Of a subject whose processes have to be started: walks a wave, and orders of each."""
PERMITTED_WALK_ORDERS = 150
"""The walk's with one permit for two keys."""
PERMITTED_WAVES = 3
"""In every third wave the machine and the kills have one permit too."""
LITTLE = 0.5
"""A campaign with a smaller share of a wave does not take on what cannot be made smaller."""
SECONDS_MIN, SECONDS_MAX = 1, 86_400
NOT_STARTED = (126, 127, 255)
"""What a process ends with whose program cannot be run, is not found, or could not be executed."""
HARD_STOP = 8
"""A campaign that takes this many times its budget is stopped, and says so."""


@frozen
class Budget:
    """How much work: nominal seconds on two slow cores, the seed, how many processes at a time."""

    seconds: int = 60
    seed: int = 0
    workers: int = 2


@frozen
class Verdict:
    """What a campaign found, and within which bound. ``to_json`` is the same for the same seed but for ``timing``."""

    subject: str
    mistake: str
    contracts: Contracts
    budget: Budget
    status: Status
    properties: tuple[PropertyVerdict, ...]
    tallies: tuple[Tally, ...] = field(repr=False)
    missing: tuple[str, ...] = ()
    planned: int = 0
    cut_short: str = ""
    capabilities: frozenset[Capability] = frozenset()
    seconds_taken: float = 0.0

    def totals(self) -> dict[str, int]:
        """Orders, steps and kills of all shards."""
        return {
            "orders": sum(t.orders for t in self.tallies),
            "steps": sum(t.steps for t in self.tallies),
            "kills": sum(t.kills for t in self.tallies),
            "boundaries_killed": sum(sum(t.boundaries.values()) for t in self.tallies if not t.faults),
            "calls_failed": sum(sum(t.boundaries.values()) for t in self.tallies if t.faults),
        }

    def schedules(self) -> dict[str, int]:
        """Programs, schedules, nodes, crash states and so on of the engine that schedules."""
        total: Counter[str] = Counter()
        for t in self.tallies:
            total.update(t.schedules)
        return dict(sorted(total.items()))

    def cuts(self) -> dict[str, int]:
        """Orders, storage operations, crash states and so on of the engine that cuts the power."""
        total: Counter[str] = Counter()
        for t in self.tallies:
            total.update(t.cuts)
        return dict(sorted(total.items()))

    def coverage(self) -> Summary:
        """What of all orders was tried."""
        total = Coverage()
        for t in self.tallies:
            total.add(t.coverage)
        return total.summary(self.capabilities)

    def attempts(self) -> dict[str, int]:
        """Runs, turns, sends and events of the engine that attempts on a virtual clock."""
        total: Counter[str] = Counter()
        for t in self.tallies:
            total.update(t.attempts)
        return dict(sorted(total.items()))

    def unsupported(self) -> dict[str, str]:
        """The engines that can do nothing with the subject, and why."""
        return {t.engine: t.unsupported for t in self.tallies if t.unsupported}

    def engines(self) -> dict[str, dict[str, int]]:
        """The same by engine."""
        out: dict[str, Counter[str]] = {}
        for t in self.tallies:
            one = Counter(shards=1, orders=t.orders, steps=t.steps, kills=t.kills)
            out.setdefault(t.engine, Counter()).update(one)
        return {engine: dict(out[engine]) for engine in sorted(out)}

    def boundaries(self) -> dict[str, int]:
        """How often a boundary of each operation was killed or frozen, by operation and ending."""
        total: Counter[str] = Counter()
        for t in self.tallies:
            if not t.faults:
                total.update(t.boundaries)
        return dict(sorted(total.items()))

    def faults(self) -> dict[str, int]:
        """What came of storage faults, by kind, store and answer, and how many calls failed."""
        total: Counter[str] = Counter()
        for t in self.tallies:
            total.update(t.faults)
        return dict(sorted(total.items()))

    def witnesses(self) -> dict[str, int]:
        """How often each witness was seen that the subject has the parts for: of others only the model speaks."""
        total: Counter[str] = Counter()
        for t in self.tallies:
            total.update(t.witnesses)
        return {name: n for name, n in sorted(total.items()) if WITNESSES[name].needs <= self.capabilities}

    def promises(self) -> dict[Status, int]:
        """How many promises came to which end."""
        return Counter(p.status for p in self.properties)

    @property
    def ran_nothing(self) -> bool:
        """Whether it was cut short before a single order had ended."""
        return bool(self.cut_short) and not any(t.orders for t in self.tallies)

    def without(self, doubtful: set[str]) -> Verdict:
        """The verdict if these promises did not break again when their orders were replayed: nobody knows."""
        if not doubtful:
            return self
        properties = tuple(
            evolve(p, status=Status.UNKNOWN) if p.property_id in doubtful else p for p in self.properties
        )
        return evolve(self, properties=properties, status=overall(properties, (), failed=True))

    def to_json(self) -> dict[str, Any]:
        """For machines. All that depends on the clock or the machine is under ``timing``."""
        return {
            "format": "survives-verdict",
            "version": 1,
            "subject": self.subject,
            "mistake": self.mistake,
            "contracts": self.contracts.to_json(),
            "seed": self.budget.seed,
            "budget_seconds": self.budget.seconds,
            "status": str(self.status),
            "properties": [p.to_json() for p in self.properties],
            "bound": {
                **self.totals(),
                "exhausted": False,
                "shards_run": len(self.tallies),
                "shards_planned": self.planned,
                "cut_short": self.cut_short,
                "engines": self.engines(),
                "interleavings": self.schedules(),
                "power_cuts": self.cuts(),
                "attempts": self.attempts(),
                "storage_faults": self.faults(),
                "unsupported_engines": self.unsupported(),
                "coverage": self.coverage().to_json(),
                "boundaries": self.boundaries(),
                "boundaries_left_over": sorted(x for t in self.tallies for x in t.left_over),
                "failed_shards": sorted(f"{t.engine}[{t.shard}]: {t.failed}" for t in self.tallies if t.failed),
            },
            "witnesses": self.witnesses(),
            "missing_witnesses": list(self.missing),
            "timing": {"seconds": round(self.seconds_taken, 3), "workers": self.budget.workers},
        }


def plan(
    subject: Subject, contracts: Contracts, budget: Budget, *, folder: Path, scratch: Path | None = None
) -> list[list[Shard]]:
    """The waves of a campaign, each a list of shards. The same for the same subject, contracts, seconds and seed."""
    waves = max(1, round(budget.seconds / WAVE_SECONDS))
    share = min(1.0, budget.seconds / WAVE_SECONDS)
    if subject.is_remote:
        size = max(1, round(REMOTE_ORDERS * share))
        indices = [range(wave * REMOTE_WALKS, (wave + 1) * REMOTE_WALKS) for wave in range(waves)]
        return [
            [_remote(subject, contracts, budget, index, size, folder, scratch) for index in wave] for wave in indices
        ]
    out = []
    for wave in range(waves):
        limited = subject.is_limited and wave % PERMITTED_WAVES == PERMITTED_WAVES - 1
        pieces = [
            ("machine", max(5, round(MACHINE_ORDERS * share)), 0),
            ("kills", KILL_PARTS, 0),
            ("kills", KILL_PARTS, 1),
            ("walk", max(20, round(WALK_ORDERS * share)), 0),
            ("interleavings", max(10, round(SCHEDULES * share)), wave),
            ("power", 1, wave if share > LITTLE else wave + 1),  # part 0 has the standard order too
            ("faults", max(FAULT_PARTS, round(FAULT_PARTS / share)), wave % FAULT_PARTS),
            ("attempts", 2 if share > LITTLE else 1, wave),
        ]
        shards = [
            Shard(
                engine=engine,
                index=wave * KILL_PARTS + part if engine == "kills" else wave,
                seed=shard_seed(budget.seed, engine, wave),
                size=size,
                part=part,
                subject=subject.name,
                mistake=subject.mistake,
                contracts=contracts,
                folder=folder,
                scratch=scratch,
                permits=1 if limited and engine in {"machine", "kills"} else None,
            )
            for engine, size, part in pieces
        ]
        out.append(shards + (_with_one_permit(shards, share) if subject.is_limited else []))
    return out


def _remote(
    subject: Subject, contracts: Contracts, budget: Budget, index: int, size: int, folder: Path, scratch: Path | None
) -> Shard:
    """A walk: the other engines fork, or put their own SQLite under the subject, and a program of its own has neither."""
    return Shard(
        engine="walk",
        index=index,
        seed=shard_seed(budget.seed, "walk", index),
        size=size,
        part=0,
        subject=subject.name,
        mistake="",
        contracts=contracts,
        folder=folder,
        scratch=scratch,
    )


def _with_one_permit(shards: list[Shard], share: float) -> list[Shard]:
    """What a wave has besides for a subject that can be limited: its two keys compete for one permit."""
    sizes = {
        "walk": max(20, round(PERMITTED_WALK_ORDERS * share)),
        "interleavings": max(10, round(SCHEDULES * share)),
    }
    return [
        evolve(
            shard,
            seed=shard_seed(shard.seed, "permits", shard.index),
            size=sizes[shard.engine],
            permits=1,
        )
        for shard in shards
        if shard.engine in sizes
    ]


@frozen
class Campaign:
    """A subject, its contracts and a budget; ``run`` gives the verdict."""

    subject: Subject
    contracts: Contracts
    budget: Budget
    folder: Path = field(factory=Path.cwd)

    def run(self, report: Callable[[Report], None] | None = None) -> Verdict:
        """Run the campaign. Ctrl-C ends it with what was found so far: ``cut_short`` says so."""
        started = time.monotonic()
        tallies: list[Tally] = []
        planned, cut_short = 0, ""
        try:
            with terminating(), running() as scratch:
                waves = plan(self.subject, self.contracts, self.budget, folder=self.folder, scratch=scratch)
                planned = sum(map(len, waves))
                for wave in waves:
                    limit = started + HARD_STOP * max(self.budget.seconds, WAVE_SECONDS) + WAVE_SECONDS
                    done = run_shards(wave, self.budget.workers, limit, report, tallies)
                    for shard, tally in zip(wave, done, strict=True):
                        tallies.append(tally)
                        tallies[-1] = explained(shard, tally, scratch)
                    if any(t.broken or t.failed for t in tallies):
                        break
        except Interrupted as stop:
            tallies += stop.tallies
            cut_short = stop.why
        except KeyboardInterrupt:
            cut_short = "it was interrupted"
        except NoRoomError as error:
            cut_short = str(error)
        return self._verdict(tallies, planned, cut_short, time.monotonic() - started)

    def _verdict(self, tallies: list[Tally], planned: int, cut_short: str, seconds: float) -> Verdict:
        capabilities = self.subject.capabilities
        cut_short = cut_short or _not_started(tallies)
        properties = tuple(self._traced(self._within_reach(p)) for p in merged(tallies, capabilities))
        missing = () if any(t.broken for t in tallies) else unseen(tallies, capabilities)
        failed = bool(cut_short) or any(t.failed or t.left_over for t in tallies)
        verdict = Verdict(
            subject=self.subject.name,
            mistake=self.subject.mistake,
            contracts=self.contracts,
            budget=self.budget,
            status=overall(properties, missing, failed=failed),
            properties=properties,
            tallies=tuple(tallies),
            missing=missing,
            planned=planned,
            cut_short=cut_short,
            capabilities=capabilities,
            seconds_taken=seconds,
        )
        tried_little = verdict.status is Status.SURVIVED and verdict.coverage().is_little
        return evolve(verdict, status=Status.VACUOUS) if tried_little else verdict

    def _within_reach(self, verdict: PropertyVerdict) -> PropertyVerdict:
        """Nobody cuts the power of a program whose storage is its own: of that promise nothing can be said."""
        if self.subject.is_remote and verdict.property_id == ACK_DURABLE.id and verdict.status is Status.SURVIVED:
            return evolve(verdict, status=Status.UNSUPPORTED)
        return verdict

    def _traced(self, verdict: PropertyVerdict) -> PropertyVerdict:
        if verdict.broken is None:
            return verdict
        trace = trace_of(self.subject, self.contracts, verdict.broken)
        return PropertyVerdict(verdict.property_id, verdict.status, verdict.broken, trace)


def _not_started(tallies: list[Tally]) -> str:
    """Why no shard ran at all, if they all ended as a process does that cannot be started."""
    ends = {t.failed for t in tallies}
    if len(ends) != 1 or not ends < {f"ended with status {status}" for status in NOT_STARTED}:
        return ""
    return f"no shard could be started: each {ends.pop()}; see whether {sys.executable} can be run, and is Python"


@contextmanager
def running() -> Iterator[Path]:
    """A folder for all that one run writes, removed in the end. Raises NoRoomError."""
    folder, lock = run_folder()
    try:
        why = no_room(folder)
        if why:
            raise NoRoomError(why)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def explained(shard: Shard, tally: Tally, scratch: Path) -> Tally:
    """If the subject ended the shard's process, run it again with a recorder and find out in which order."""
    if not tally.failed.startswith("ended"):
        return tally
    if shard.engine == "attempts":
        detail = f"the process ended while its runner was at work ({tally.failed})"
        tally.broken[ANSWERS.id] = Broken(
            ANSWERS.id, detail, (), shard.engine, shard.index, tally.orders, attempts=Plan(1)
        )
        tally.failed = ""
        return tally
    record = scratch / f"{shard.engine}-{shard.index}.record"
    (again,) = run_shards([evolve(shard, record=record)], 1, time.monotonic() + 60, None, [])
    size = shard.program
    steps = recorded(record, Alphabet(size.workers, size.keys) if size is not None else Alphabet(2, 2))
    if steps and again.failed:
        detail = f"{steps[-1].label}: the process ended ({tally.failed})"
        where = shard.engine, shard.index, tally.orders
        tally.broken[ANSWERS.id] = Broken(ANSWERS.id, detail, steps, *where, permits=shard.permits)
        tally.failed = ""
    return tally


def run_and_explain(
    shards: list[Shard], workers: int, limit: float, report: Callable[[Report], None] | None, scratch: Path
) -> tuple[list[Tally], str]:
    """Run shards, and find out in which order a subject ended the first process that it ended.

    The tallies, and what cut it short: Ctrl-C, SIGTERM, the limit; empty if nothing did.
    """
    tallies: list[Tally] = []
    try:
        with terminating():
            tallies = run_shards(shards, workers, limit, report, [])
            first = next((n for n, t in enumerate(tallies) if t.failed.startswith("ended")), None)
            if first is not None:
                tallies[first] = explained(shards[tallies[first].shard], tallies[first], scratch)
    except Interrupted as stop:
        return tallies or stop.tallies, stop.why
    except KeyboardInterrupt:
        return tallies, "it was interrupted"
    return tallies, ""


def trace_of(subject: Subject, contracts: Contracts, broken: Broken) -> Trace:
    """The trace of a broken promise."""
    return Trace(
        subject.name,
        subject.chosen(contracts),
        broken.steps,
        broken.property_id,
        subject.mistake,
        scheduled=broken.scheduled,
        cut=broken.cut,
        attempts=broken.attempts,
        permits=broken.permits,
    )


__all__ = ["Budget", "Campaign", "Verdict", "explained", "plan", "reduced", "run_shard", "trace_of"]
