"""Standard programs: each is well formed, fits what a subject has, and can be made smaller."""

from __future__ import annotations

from itertools import chain, permutations

import pytest
from attrs import evolve

from model.actions import ALPHABET, Alphabet, Verb
from model.contracts import Contracts
from model.words import Capability
from stateful.order import Rig
from stateful.schedules import reduce
from stateful.schedules.calls import can_call
from stateful.schedules.catalogue import PAIRED, fitting, lives, pairs
from stateful.schedules.program import LANE_VERBS, RUN, TIME, Program, Scheduled, Turn, lane_name, turns_of
from stateful.schedules.rig import ScheduledRig
from stateful.schedules.system import ProgramSystem
from stateful.subject import load_subject
from tests.stateful.conftest import program_of

SIZES = {(2, 1): 28 + 7, (2, 2): 28 + 3, (3, 1): 2}
"""By workers and keys: how many standard programs there are."""


def catalogue(workers, keys):
    """All standard programs of a size."""
    alphabet = Alphabet(workers, 2)
    return {**(pairs(alphabet, keys) if workers < 3 else {}), **lives(alphabet, workers, keys)}


EVERY = {(size, name): program for size in SIZES for name, program in catalogue(*size).items()}
by_name = pytest.mark.parametrize("place", EVERY, ids=lambda p: f"{p[0][0]}x{p[0][1]} {p[1]}")


@pytest.mark.parametrize("size", SIZES)
def test_so_many_programs(size):
    """Every two of the paired operations are a pair, and each size has its lives."""
    assert SIZES[size] == len(catalogue(*size))
    assert 28 == len(PAIRED) * (len(PAIRED) + 1) // 2


def test_each_lane_makes_its_own_calls():
    """A call of a worker stands in that worker's lane, and each is one that a lane makes."""
    calls = [(n, a) for p in EVERY.values() for n, lane in enumerate(p.lanes) for a in lane]

    assert [] == [a.label for n, a in calls if a.worker not in {-1, n} or a.verb not in LANE_VERBS]


def test_every_size_has_its_lanes_and_keys():
    """A program has a lane for each worker, uses each key, and moves time by nothing but an advance."""
    for ((workers, keys), name), program in EVERY.items():
        steps = [*(s.action for s in program.setup), *chain(*program.lanes)]

        assert workers == len(program.lanes), name
        assert set(range(keys)) == {a.key for a in steps} - {-1}, name
        assert {Verb.ADVANCE} >= {a.verb for a in program.moves}, name


@pytest.fixture(scope="module")
def rigs():
    """A rig a number of workers, opened when it is first needed."""
    opened = {workers: ScheduledRig(load_subject(), Contracts(), workers=workers) for workers in (2, 3)}
    yield opened
    for rig in opened.values():
        rig.close()


@by_name
def test_every_call_can_happen(rigs, place):
    """The setup runs to its end, and one lane after the other, time moving between them, makes every call it has."""
    (workers, _), program = place[0], EVERY[place]
    rig = rigs[workers]
    system = ProgramSystem(rig, program, keep_story=True)
    assert system.prepare() is None
    made = set()
    for first, *rest in permutations((*(lane_name(n) for n in range(workers)), TIME)):
        system.begin()
        while options := system.options():
            system.take(next(name for name in (first, *rest) if name in options))
        made |= {(said.lane, said.call) for said in system.story if said.outcome is not None}
        system.finish(complete=True)

    assert [s.action for s in program.setup] == [t.step.action for t in rig.told[: len(program.setup)]]
    assert {(n, c) for n, lane in enumerate(program.lanes) for c in range(len(lane))} == made


def test_nobody_acknowledges_what_it_was_not_told(rig, steps):
    """A call that its worker has no answer, receipt, token or look for is not made."""
    one = rig()
    one.run(())
    (process, *_) = one.bench.processes
    labels = ("claim w1 k1", "acknowledge w1 k1", "checkpoint w1 k1", "reap_apply w1", "dispatch w1 k1 done")
    can = {s.action.label for s in steps(*labels) if can_call(process, s.action)}

    assert {"claim w1 k1"} == can


@pytest.mark.parametrize("missing", list(Capability))
def test_what_a_subject_has_no_part_for_is_left_out(missing):
    """Without a capability no call that needs it is left, and every other call is."""
    for place, program in EVERY.items():
        fitted = fitting(program, frozenset(Capability) - {missing})
        needs = {a: ALPHABET[a.verb].needs for a in chain(*program.lanes)}
        left = [[a for a in lane if needs[a] != missing] for lane in program.lanes]
        if sum(map(bool, left)) < 2:
            assert fitted is None, place
        else:
            assert left == [list(lane) for lane in fitted.lanes], place
            assert missing not in {ALPHABET[s.action.verb].needs for s in fitted.setup}, place


def test_a_whole_subject_has_every_program():
    """Nothing is left out for a subject with every part."""
    assert list(EVERY.values()) == [fitting(p, frozenset(Capability)) for p in EVERY.values()]


def weight(program: Program) -> tuple[int, int]:
    """How large a program is, and how far its choices are from the first ones."""
    actions = [*(s.action for s in program.setup), *chain(*program.lanes)]
    size = len(actions) + len(program.moves) + program.kills + program.waits_end
    choices = [ALPHABET[a.verb].choices for a in actions]
    return size, sum(c.index(a.choice) for a, c in zip(actions, choices, strict=True) if a.choice)


@by_name
def test_every_candidate_is_smaller_or_simpler(place):
    """What the reducer tries next has one thing less, or as many and one that is simpler; so it comes to an end."""
    program = evolve(EVERY[place], waits_end=True)
    weights = [weight(candidate) for candidate in reduce._candidates(program)]

    assert len(weights) > program.calls
    assert [] == [w for w in weights if w >= weight(program)]
    assert weight(program)[0] - 1 == weights[0][0]


def test_a_program_is_told_in_one_line():
    """Its label has the lanes and the moves of time, as they are written."""
    program = program_of("submit k1 p1", "claim w1 k1; renew w1 k1 | cancel k1", "advance k1 lease")

    assert ("claim w1 k1; renew w1 k1 | cancel k1 | time: advance k1 lease", 3) == (program.label, program.calls)


def test_turns_of_one_lane_are_one():
    """A lane that was chosen again and again stands where it stood last; deaths and moves stay as they are."""
    move = Turn(TIME, move=program_of("", "", "advance k1 lease").moves[0])
    places = [Turn(RUN, 0, 1, 1), Turn(RUN, 0, 1, 2), move, Turn(RUN, 0, 2, 1), Turn(RUN, 1, 1, 1), Turn(RUN, 1)]

    assert (places[1], move, places[3], places[5]) == turns_of(places)


def test_a_schedule_tells_its_program():
    """The program of a schedule has the moves, the deaths and the waits that end that its turns have."""
    program = program_of("submit k1 p1", "claim w1 k1 | claim w2 k1", "advance k1 lease", waits_end=True)
    turns = (Turn("busy", 1), Turn(TIME, move=program.moves[0]), Turn("kill", 0), Turn(RUN, 1))
    scheduled = Scheduled(program.lanes, turns)

    assert program == scheduled.program(program.setup)
    assert (4, 2) == (scheduled.length, scheduled.switches)


def test_a_plain_rig_has_the_same_setup():
    """The setup of each standard program is an order that every step of makes sense."""
    left_out = {}
    for workers in (2, 3):
        with Rig(load_subject(), Contracts(), workers=workers) as plain:
            for place, program in EVERY.items():
                if place[0][0] == workers:
                    ran = plain.run(program.setup)
                    left_out[place] = len(program.setup) - ran.own
                    assert ran.finding is None, place

    assert {0} == set(left_out.values())
