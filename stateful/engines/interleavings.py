"""The interleavings engine: every schedule of two or three workers at their statements, a crash at each node.

A shard runs its part of the standard programs, and programs that Hypothesis generates: the machine's rules lead up to
them, and each lane makes a few calls. Within a program the schedules are searched to the end, or to the bound on them.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from attrs import evolve
from hypothesis import given, seed
from hypothesis import strategies as st

from model.actions import DEATHS, TICKS, Action, Step, Verb
from model.properties import ANSWERS
from model.step import Model
from model.words import World
from stateful.engines.machine import settings_for
from stateful.engines.walk import Chooser, verbs_of
from stateful.schedules import guard
from stateful.schedules.catalogue import fitting, programs
from stateful.schedules.lanes import UnsupportedByEngine
from stateful.schedules.program import Program, Scheduled, turns_of
from stateful.schedules.rig import ScheduledRig
from stateful.schedules.sampling import priority_runs
from stateful.schedules.search import Bounds, ChangedMindError, Search
from stateful.schedules.system import ProgramSystem
from stateful.verdict import Tally

NAME = "interleavings"
PARTS = 10
"""The standard programs are dealt out to so many shards."""
FEW_PROGRAMS = 30
"""Where there are fewer, each shard has them all."""
GENERATE_ONE_IN = 50
"""A shard that may run so many schedules of a program generates one program more."""
SAMPLES, DEPTH = 40, 3
"""So many more of its schedules are then sampled by priority; a fault of depth three needs three orderings."""
SETUP_MAX = 10
CALLS_MAX = 3
DRAW_MAX = (1 << 16) - 1
_OFTEN = (
    "claim {w} {k}",
    "dispatch {w} {k} done",
    "acknowledge {w} {k}",
    "dispatch {w} {k} silent",
    "reconcile {w} {k}",
    "cancel {k}",
    "reap_read {w}",
    "reap_apply {w}",
    "revoke {k}",
    "approve {k} p1",
    "renew {w} {k}",
    "checkpoint {w} {k}",
    "release {w} {k}",
    "submit {k} p1",
    "submit {k} p2",
    "deny {k}",
    "approve {k} p2",
    "dispatch {w} {k} lost",
    "dispatch {w} {k} transient",
    "dispatch {w} {k} permanent",
    "bump_policy",
    "forge {k} signature",
)
"""What a lane may call, what matters most first: Hypothesis shrinks towards it."""
_NEVER_IN_SETUP = frozenset({Verb.STALL, Verb.WAKE, Verb.RESTART, Verb.JUMP_WALL}) | DEATHS


class Enough(Exception):  # noqa: N818 - an event, not an error
    """A promise broke: Hypothesis need not go on."""


def run(rig: ScheduledRig, first_seed: int, part: int, size: int, tally: Tally) -> None:
    """Run a part of the standard programs (-1: all), then generated ones; what is found goes into ``tally``.

    ``size`` is the most schedules of one program: one that has more is sampled beyond that, and not exhausted.
    """
    guard.watch(rig.scheduler)
    bounds = Bounds(schedules=size)
    try:
        for program in _standard(rig, part):
            if explore(rig, program, bounds, tally, first_seed):
                return
        _generated(rig, first_seed, size // GENERATE_ONE_IN, bounds, tally)
    except (UnsupportedByEngine, ChangedMindError) as error:
        tally.unsupported = str(error)


def run_one(rig: ScheduledRig, name: str, keys: int, bounds: Bounds, kills: int, tally: Tally) -> None:
    """Run one standard program, by its name, within bounds of its own."""
    guard.watch(rig.scheduler)
    program = programs(rig.model.alphabet, keys, rig.subject.capabilities)[name]
    try:
        explore(rig, evolve(program, kills=kills), bounds, tally)
    except (UnsupportedByEngine, ChangedMindError) as error:
        tally.unsupported = str(error)


def _standard(rig: ScheduledRig, part: int) -> Iterator[Program]:
    """The part's standard programs; where permits are limited, of those alone in which somebody claims one of two."""
    have, limited = rig.subject.capabilities, rig.model.limits.permits is not None
    every = [
        p
        for keys in (1, 2)
        for p in programs(rig.model.alphabet, keys, have).values()
        if not limited or (keys > 1 and any(a.verb is Verb.CLAIM for a in chain(*p.lanes)))
    ]
    few = len(every) < FEW_PROGRAMS and not limited  # a small subject's programs, of which few pass a boundary
    return iter(every) if part < 0 or few else itertools.islice(every, part % PARTS, None, PARTS)


def explore(rig: ScheduledRig, program: Program, bounds: Bounds, tally: Tally, first_seed: int = 0) -> bool:
    """Search one program's schedules, and sample those beyond the bound. True if the shard should stop."""
    system = ProgramSystem(rig, program)
    finding = system.prepare()
    if finding is not None:
        return tally.take(rig, rig.ran(finding))
    calls = len(program.setup) + program.calls

    def count() -> None:
        guard.check()
        tally.count(calls, system.deaths)
        if system.finding is not None:
            scheduled = Scheduled(program.lanes, turns_of(system.turns))
            tally.found(system.finding.property_id, system.finding.detail, program.setup, scheduled)

    system.on_complete = count
    counts = Search(system, bounds).run()
    sampled = 0
    if not counts.exhausted and system.finding is None:
        sampled = priority_runs(system, first_seed, SAMPLES, DEPTH, bounds).schedules
    tally.schedules.update(
        programs=1,
        exhausted=int(counts.exhausted),
        schedules=counts.schedules,
        sampled=sampled,
        redundant=counts.redundant,
        nodes=counts.nodes,
        crash_states=len(system.crash_states),
        endings=len(system.endings),
        deadlocks=system.deadlocks,
        cut=counts.cut_by_transitions,
        beyond=counts.cut_by_preemptions,
        undecided=system.undecided,
    )
    return tally.enough or _hangs(tally)


def _hangs(tally: Tally) -> bool:
    """Whether the subject does not answer: each further program would wait for it again."""
    broken = tally.broken.get(ANSWERS.id)
    return broken is not None and "no answer" in broken.detail


# -- programs that Hypothesis generates -----------------------------------------------------------------------


DRAWS = st.integers(0, DRAW_MAX)
DRAWN = st.tuples(
    st.lists(DRAWS, max_size=SETUP_MAX),
    st.lists(st.lists(DRAWS, min_size=1, max_size=CALLS_MAX), min_size=2, max_size=2),
    DRAWS,
)
"""What a program is decoded from: draws that lead up to it, draws for each lane, and one for time and deaths."""
Drawn = tuple[list[int], list[list[int]], int]


def decoded(drawn: Drawn, model: Model, guide: Chooser) -> Program:
    """The program that some draws mean. A pure function."""
    lead, lanes, rest = drawn
    by_label = model.alphabet.by_label
    move = rest % (2 * len(TICKS))
    moves = (by_label[f"advance k1 {TICKS[move]}"],) if move < len(TICKS) else ()
    calls = tuple(tuple(_call(draw, lane, model) for draw in draws) for lane, draws in enumerate(lanes))
    return Program(
        tuple(_setup(lead, model, guide)),
        _one_bump(calls),
        moves,
        kills=rest >> 8 & 1,
        waits_end=rest >> 9 & 3 == 3,
    )


def _setup(draws: list[int], model: Model, guide: Chooser) -> Iterator[Step]:
    world: World = model.first()
    for draw in draws:
        action = guide.follow(world, draw)
        if action is not None and action.verb not in _NEVER_IN_SETUP:
            yield Step(action)
            world, _ = model.step(world, action)


def _call(draw: int, lane: int, model: Model) -> Action:
    what = draw % (2 * len(_OFTEN)) % len(_OFTEN) if draw & 1 else draw % 8
    key = 1 if draw >> 8 & 7 == 7 and model.keys > 1 else 0
    return model.alphabet.by_label[_OFTEN[what].format(w=f"w{lane + 1}", k=f"k{key + 1}")]


def _one_bump(lanes: tuple[tuple[Action, ...], ...]) -> tuple[tuple[Action, ...], ...]:
    """At most one lane moves the policy: whoever does says to which revision, by what it read before."""
    seen = False
    out = []
    for calls in lanes:
        kept = []
        for action in calls:
            if action.verb is Verb.BUMP_POLICY and seen:
                continue
            seen = seen or action.verb is Verb.BUMP_POLICY
            kept.append(action)
        out.append(tuple(kept))
    return tuple(out)


def _generated(rig: ScheduledRig, first_seed: int, size: int, bounds: Bounds, tally: Tally) -> None:
    if size < 1:
        return
    verbs = verbs_of(rig) - _NEVER_IN_SETUP
    guide = Chooser(rig.model, verbs, random.Random(0))  # noqa: S311 - it only follows
    troubles: list[BaseException] = []
    begun = tally.schedules["programs"]

    def one(drawn: Drawn) -> None:
        program = fitting(decoded(drawn, rig.model, guide), rig.subject.capabilities)
        if program is None or tally.schedules["programs"] - begun >= size:
            return
        try:
            stop = explore(rig, program, bounds, tally, first_seed)
        except BaseException as error:
            troubles.append(error)
            raise
        if stop:
            raise Enough

    test = seed(first_seed)(settings_for(size)(given(DRAWN)(one)))
    try:
        with suppress(Enough):
            test()
    except BaseException:
        if troubles:
            raise troubles[0] from None
        raise
