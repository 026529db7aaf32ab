"""The attempts engine: an operation is run on a virtual clock with every script of answers, and an event before any turn.

Exhaustive for few attempts and one event; random for more of both. What each run came to is held against the promises
and against the rule of ``model.attempts``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import evolve

from model.attempts import EventKind, Said
from stateful.attempts.course import HANGS
from stateful.attempts.judge import broken
from stateful.attempts.ran import Ran
from stateful.attempts.reduce import reduced_plan
from stateful.attempts.search import every_run, random_runs
from stateful.attempts.system import AttemptSystem
from stateful.subject import Subject
from stateful.verdict import Tally

if TYPE_CHECKING:
    from stateful.shard import NamedScripts, Shard

NAME = "attempts"
PARTS = len(Said)
"""A campaign's shard has one first answer."""
PATIENCE = 500
"""So many runs more are looked at after the first that breaks something, to see what else does."""
RANDOM_RUNS = 300
RANDOM_ATTEMPTS, RANDOM_EVENTS = 4, 3


def run(subject: Subject, shard: Shard, tally: Tally) -> None:
    """Run a shard; what is found goes into ``tally``. Raises UnsupportedByEngine for a subject without a runner."""
    with AttemptSystem(subject, shard.contracts) as system:
        for ran in _runs(system, shard):
            _take(system, ran, tally)
            if shard.scripts is not None and shard.scripts.random:
                tally.attempts["random"] += 1
            if tally.enough or ran.is_endless or _is_patient_no_more(tally):
                break
        for property_id, one in list(tally.broken.items()):
            assert one.attempts is not None
            if one.detail.startswith(HANGS):
                continue  # each run would take as long again
            done = reduced_plan(system, one.attempts, property_id, one.detail)
            tally.broken[property_id] = evolve(
                one, attempts=done.plan, detail=done.detail, minimal=done.minimal, runs=done.runs
            )


def _runs(system: AttemptSystem, shard: Shard) -> Iterator[Ran]:
    """The runs of a shard: what it names, or else its part of those of few attempts (with -1 all), and random ones."""
    if shard.scripts is not None:
        yield from _named(system, shard.scripts, shard.seed)
        return
    firsts = tuple(Said) if shard.part < 0 else (tuple(Said)[shard.part % PARTS],)
    if shard.size == 1:
        for first in firsts:
            yield from every_run(system, 1, 1, first)
        yield from random_runs(system, RANDOM_ATTEMPTS, RANDOM_EVENTS, shard.seed, RANDOM_RUNS // 3)
        return
    if shard.part <= 0:
        yield from every_run(system, 1, 1)
    for first in firsts:
        yield from every_run(system, 2, 1, first)
    yield from random_runs(system, RANDOM_ATTEMPTS, RANDOM_EVENTS, shard.seed, RANDOM_RUNS)


def _is_patient_no_more(tally: Tally) -> bool:
    return bool(tally.broken) and tally.orders - min(b.found_after for b in tally.broken.values()) >= PATIENCE


def _named(system: AttemptSystem, scripts: NamedScripts, seed: int) -> Iterator[Ran]:
    if scripts.random:
        yield from random_runs(system, scripts.attempts, scripts.events, seed, scripts.random)
    else:
        first = Said(scripts.first) if scripts.first else None
        yield from every_run(system, scripts.attempts, scripts.events, first, kinds=scripts.kinds)


def _take(system: AttemptSystem, ran: Ran, tally: Tally) -> None:
    tally.attempts["runs"] += 1
    tally.attempts["turns"] += ran.turns
    tally.attempts["sends"] += len(ran.told.sends_ms)
    for event in ran.plan.events:
        tally.attempts[str(event.kind)] += 1
    for finding in broken(ran, system.setup):
        if finding.property_id not in tally.broken:
            tally.found(finding.property_id, finding.detail, (), after=tally.orders + 1, attempts=ran.plan)
    kills = sum(event.kind is EventKind.KILL for event in ran.plan.events)
    tally.count(len(ran.plan.answers) + len(ran.plan.events), kills)
