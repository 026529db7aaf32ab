"""The interleavings engine: what only it finds, what it must not lose, and what it must not accuse anybody of."""

from __future__ import annotations

import random

import pytest

from impl.mistakes import MISTAKES
from model.contracts import Contracts
from stateful.engines import interleavings, machine
from stateful.engines.walk import Chooser, verbs_of, walk
from stateful.order import Rig
from stateful.schedules import record, system
from stateful.schedules.catalogue import programs
from stateful.schedules.play import play
from stateful.schedules.program import Scheduled, turns_of
from stateful.schedules.reduce import reduced_program
from stateful.schedules.rig import ScheduledRig
from stateful.schedules.search import Bounds, Search
from stateful.schedules.system import ProgramSystem
from stateful.subject import load_subject
from stateful.verdict import Broken, Tally
from tests.stateful.conftest import program_of

APPROVED = "submit k1 p1; approve k1 p1"
LEASED = f"{APPROVED}; claim w1 k1"
SENT = f"{LEASED}; dispatch w1 k1 done"
RACES = {
    "M017": (APPROVED, "claim w1 k1 | claim w2 k1"),
    "M119": (LEASED, "release w1 k1 | claim w2 k1", "advance k1 lease-1"),
    "M123": (LEASED, "renew w1 k1 | claim w2 k1", "advance k1 lease"),
    "M201": (LEASED, "renew w1 k1 | claim w2 k1", "advance k1 lease"),
    "M202": (APPROVED, "claim w1 k1 | claim w2 k1", "advance k1 lease"),
    "M203": ("submit k1 p1; claim w1 k1; advance k1 lease+1", "reap_read w1; reap_apply w1 | claim w2 k1"),
    "M204": (LEASED, "dispatch w1 k1 done | revoke k1"),
    "M205": (APPROVED, "claim w1 k1 | claim w2 k1", "advance k1 lease"),
    "M221": ("submit k1 p1; submit k2 p1", "claim w1 k1 | claim w2 k2"),
}
"""For each mistake that shows only in a race, a program that some schedule makes break the promise."""
SMALL = {
    "claims, one dies": (program_of(APPROVED, "claim w1 k1 | claim w2 k1"), 18),
    "claim and cancel": (program_of(APPROVED, "claim w1 k1 | cancel k1", "advance k1 deadline"), 163),
    "checkpoint and approval": (
        program_of(SENT, "checkpoint w1 k1; renew w1 k1 | approve k1 p1", "advance k1 lease", kills=0),
        563,
    ),
    "renewal and revocation": (program_of(LEASED, "renew w1 k1 | revoke k1", "advance k1 lease", kills=0), 81),
}
"""Small programs, and how many schedules of each there are."""


@pytest.fixture(scope="module", params=RACES)
def race(request):
    """A mistake, the first schedule that breaks its promise, and what the reducer makes of it."""
    one = MISTAKES[request.param]
    with ScheduledRig(load_subject(mistake=one.id), Contracts()) as mistaken:
        found = ProgramSystem(mistaken, program_of(*RACES[one.id], kills=0), until=one.breaks)
        assert found.prepare() is None
        Search(found, Bounds()).run()
        assert found.finding is not None
        seen = Scheduled(found.program.lanes, turns_of(found.turns))
        steps, finding = found.program.setup, found.finding
        broken = Broken(finding.property_id, finding.detail, steps, "interleavings", 0, 1, scheduled=seen)
        yield one, mistaken, broken, reduced_program(mistaken, broken)


def played(rig, broken):
    """What comes of the schedule of a broken promise on a rig."""
    again = ProgramSystem(rig, broken.scheduled.program(broken.steps))
    assert again.prepare() is None
    return play(again, broken.scheduled.turns)


def test_there_is_a_program_for_each_race():
    """Each mistake that shows only in a race has its program here."""
    assert [m.id for m in MISTAKES.values() if m.shown_by == "interleavings"] == list(RACES)


def test_a_race_is_found(race):
    """Some schedule of the mistake's program breaks the promise that it is about."""
    mistake, _, broken, _ = race

    assert mistake.breaks == broken.property_id


def test_a_race_is_told_by_a_short_schedule(race):
    """The reduced program keeps its lanes, is minimal, and has no more calls than it had, each in a lane."""
    _, _, broken, done = race

    assert done.scheduled is not None
    assert (True, True) == (done.minimal, done.length <= min(broken.length, 7))


def test_a_race_breaks_the_same_each_time(race):
    """The reduced schedule breaks the same promise in the same way, ten times of ten."""
    _, mistaken, _, done = race
    again = {played(mistaken, done) for _ in range(10)}

    assert {(done.property_id, done.detail)} == {(f.property_id, f.detail) for f in again}


def test_the_unchanged_dispatcher_survives_the_race(race, lanes, explore):
    """The same schedule breaks nothing without the mistake, nor does any other of the whole program."""
    mistake, _, _, done = race
    plain = lanes()
    whole = explore(plain, program_of(*RACES[mistake.id]))

    assert played(plain, done) is None
    assert ({}, True, 0) == (whole.broken, whole.counts.exhausted, whole.system.undecided)


@pytest.mark.parametrize("name", ["M202", "M203", "M204"])
def test_whole_operations_show_no_race(rig, name):
    """Neither the walk nor the machine, which run operations one after the other, finds a mistake that is a race."""
    walked, machined = Tally("walk"), Tally("machine")
    walk(rig(mistake=name), 0, 300, walked)
    machine.run(rig(mistake=name, in_memory=False), 0, 60, machined)

    assert ({}, {}) == (walked.broken, machined.broken)
    assert (300, True) == (walked.orders, machined.orders >= 60)


def test_a_plain_mistake_is_told_without_lanes(lanes, steps):
    """A mistake that needs no race is found too, and told as a plain order, which breaks the promise on its own."""
    mistaken, tally = lanes(mistake="M002"), Tally("interleavings", stop_at_first=True)
    interleavings.run(mistaken, 0, 0, 10, tally)
    (broken,) = tally.broken.values()
    done = reduced_program(mistaken, broken)
    with Rig(load_subject(mistake="M002"), Contracts()) as fresh:
        again = fresh.run(done.steps, until=done.property_id).finding

    assert (True, None, True) == (broken.scheduled is not None, done.scheduled, done.minimal)
    assert (steps("submit k1 p1", "claim w1 k1"), "no-stale-token") == (done.steps, again.property_id)


def test_an_order_after_a_program_starts_on_empty_stores(lanes, program):
    """What a program's setup led to is gone when an order is run on the same rig, which the reducer does."""
    one = lanes()
    ProgramSystem(one, program(LEASED, "claim w1 k1 | claim w2 k1")).prepare()
    one.start()

    assert one.model.first().stores == one.look().read()


FAST = ("claim | claim", "claim | dispatch", "renew | dispatch", "acknowledge | acknowledge", "cancel | approve")


@pytest.mark.parametrize(
    ("keys", "name"), [*((1, name) for name in FAST), (1, "same wish"), (1, "release in time"), (2, "claim | reap")]
)
def test_the_dispatcher_survives_standard_programs(lanes, explore, keys, name):
    """Every schedule of a standard program, with a death anywhere, keeps every promise, and each is explained."""
    plain = lanes()
    done = explore(plain, programs(plain.model.alphabet, keys, plain.subject.capabilities)[name])

    assert ({}, True, 0) == (done.broken, done.counts.exhausted, done.system.undecided)


@pytest.mark.parametrize("choice", ["fencing=none", "approval=advisory", "idempotency=client"])
@pytest.mark.parametrize(
    "written",
    [
        (APPROVED, "claim w1 k1 | claim w2 k1", "advance k1 lease"),
        (LEASED, "dispatch w1 k1 done | revoke k1; approve k1 p1"),
    ],
    ids=["claims", "approvals"],
)
def test_a_weaker_contract_is_what_the_model_says(lanes, explore, written, choice):
    """Under a weaker contract promises break, and the model explains every history all the same."""
    name, _, value = choice.partition("=")
    done = explore(lanes(**{name: value}), program_of(*written))

    assert (True, False) == (done.counts.exhausted, "conforms" in done.broken), done.broken


@pytest.mark.parametrize("name", SMALL)
def test_sleep_sets_lose_nothing(lanes, explore, name):
    """The reduced search comes to every ending and every crash state of the whole one, in fewer schedules."""
    program, most = SMALL[name]
    some, whole = explore(lanes(), program), explore(lanes(), program, reduce=False)

    assert (True, most) == (whole.counts.exhausted, whole.counts.schedules)
    assert some.counts.schedules < most
    assert set(whole.system.endings) == set(some.system.endings)
    assert whole.system.crash_states == some.system.crash_states


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("preemptions", [0, 1])
def test_a_bound_on_preemptions_loses_nothing_within_it(lanes, explore, name, preemptions):
    """Under a bound the reduced search comes to every ending that the whole one comes to under the same bound."""
    program, _ = SMALL[name]
    some = explore(lanes(), program, preemptions=preemptions)
    whole = explore(lanes(), program, preemptions=preemptions, reduce=False)

    assert set() == set(whole.system.endings) - set(some.system.endings)
    assert set() == whole.system.crash_states - some.system.crash_states


@pytest.mark.parametrize("name", [n for n in RACES if n not in {"M123", "M204"}])
def test_sleep_sets_lose_no_broken_promise(lanes, explore, name):
    """The reduced search breaks every promise that the whole one breaks; the two left out have long whole ones."""
    program = program_of(*RACES[name])
    some, whole = (explore(lanes(mistake=name), program, reduce=reduce) for reduce in (True, False))

    assert set(whole.broken) == set(some.broken)


def test_sleep_sets_keep_apart_what_began_before_time_moved(lanes, explore):
    """A claim that looks at no clock is still judged as one that began after the lease had ended."""
    program = program_of(LEASED, "renew w1 k1 | claim w2 k1", "advance k1 lease", kills=0)
    some, whole = (explore(lanes("LooksAtTheClockOnce"), program, reduce=reduce) for reduce in (True, False))

    assert "conforms" in whole.broken
    assert set(whole.broken) == set(some.broken)


def test_a_swallowed_death_is_a_death(lanes, explore):
    """What a lane's code does or says after its death is nothing."""
    done = explore(lanes("SwallowsCrash"), program_of(APPROVED, "claim w1 k1; dispatch w1 k1 done | cancel k1"))

    assert ({}, True) == (done.broken, done.counts.exhausted)


def test_waits_that_end_are_refusals(lanes, explore):
    """Whoever is told BUSY may say so, and changes nothing; no history is called wrong for it."""
    program = program_of(LEASED, "dispatch w1 k1 done | claim w2 k1", "advance k1 lease", waits_end=True)
    done = explore(lanes(), program)
    said = {outcome.reason for answers, _, _ in done.system.endings for _, outcome in answers}

    assert ({}, True, 0) == (done.broken, done.counts.exhausted, done.system.undecided)
    assert {"busy", "no answer"} & said


def test_a_deadlock_is_no_violation(lanes, explore):
    """Of two that wait for each other one is told BUSY, and may say so, although no wait may end otherwise."""
    done = explore(lanes("Deferred"), program_of(APPROVED, "claim w1 k1 | cancel k1"))

    assert ({}, True) == (done.broken, done.system.deadlocks > 0)


class Deaf:
    """An attribute that nobody can set."""

    def __get__(self, lane, owner):
        return False

    def __set__(self, lane, value):
        pass


def test_nobody_is_busy_who_was_not_told(lanes, explore, monkeypatch):
    """A refusal for BUSY where nobody was told BUSY is explained by nothing."""
    monkeypatch.setattr(system.Lane, "heard_busy", Deaf(), raising=False)
    done = explore(lanes("Deferred"), program_of(APPROVED, "claim w1 k1 | cancel k1", kills=0))

    assert {"conforms": "no order of the model explains cancel k1 -> refused, after claim w1 k1 -> ok 1"} == (
        done.broken
    )


def test_the_history_judge_has_teeth(lanes, explore, monkeypatch):
    """Where no stored state is as the model says, each complete run is a difference from the model."""
    monkeypatch.setattr(record, "same_slots", lambda read: lambda group, world: False)
    done = explore(lanes(), program_of(APPROVED, "claim w1 k1 | claim w2 k1", kills=0))

    assert (["conforms"], True) == (list(done.broken), "what is stored in the end" in done.broken["conforms"])


def test_a_call_without_a_boundary_is_judged(lanes, explore):
    """A lane whose only call touches nothing is over before any choice is made, and its answer is judged all the same."""
    done = explore(lanes("RefusesRenewal"), program_of(LEASED, "renew w1 k1 | claim w2 k1", kills=0))

    assert ["conforms"] == list(done.broken)
    assert "renew w1 k1 -> refused" in done.broken["conforms"]


def test_a_promise_breaks_at_its_node(lanes, program):
    """Two grants of one token are found when the second is stored, before both lanes have come to their end."""
    found = ProgramSystem(
        lanes(mistake="M017"), program(APPROVED, "claim w1 k1; renew w1 k1 | claim w2 k1; renew w2 k1", kills=0)
    )
    found.prepare()
    Search(found, Bounds()).run()

    assert "no-stale-token" == found.finding.property_id
    assert 2 > sum(turn.is_at_end for turn in found.turns)


def test_a_death_at_each_node(lanes, explore):
    """A send beside a claim, with a move of time, leaves so many different states when one of them dies."""
    plain = lanes()
    done = explore(plain, programs(plain.model.alphabet, 1, plain.subject.capabilities)["claim | dispatch"])

    assert (18, True) == (len(done.system.crash_states), done.counts.exhausted)


@pytest.mark.parametrize(("kills", "broken"), [(0, []), (1, ["conforms"])])
def test_a_death_in_a_race_shows_what_nothing_else_does(lanes, explore, kills, broken):
    """A claim that grants in two transactions is found beside a send only if somebody dies between them."""
    done = explore(
        lanes(mistake="M201"),
        program_of(LEASED, "dispatch w1 k1 done | claim w2 k1", "advance k1 lease", kills=kills),
    )

    assert (broken, True) == (list(done.broken), done.counts.exhausted)


# -- programs that Hypothesis generates -----------------------------------------------------------------------


def test_draws_mean_one_program(lanes):
    """What draws are decoded to depends on nothing else, not on what was decoded before."""
    plain = lanes()
    drawn = ([3, 1 << 12, 77, 900], [[5, 1803], [64, 2]], 0x123)
    other = ([9] * 6, [[1], [2]], 7)

    def decoded(*draws):
        guide = Chooser(plain.model, verbs_of(plain), random.Random(0))  # noqa: S311 - it only follows
        return [interleavings.decoded(one, plain.model, guide) for one in draws]

    assert decoded(drawn) * 2 == decoded(other, drawn, other, drawn)[1::2]


@pytest.fixture
def generated(lanes, monkeypatch):
    """The programs that an engine with a seed would search."""

    def go(seed):
        seen = []
        monkeypatch.setattr(interleavings, "explore", lambda rig, program, *_: seen.append(program))
        interleavings.run(lanes(), seed, 0, 500, Tally("interleavings"))
        return seen

    return go


def test_a_seed_gives_its_programs(generated):
    """One seed gives the same programs each time; another gives others, after the same standard ones."""
    one, again, other = generated(1), generated(1), generated(2)
    standard = next(n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)

    assert one == again
    assert (True, True) == (standard > 0, len(one) > standard)


def test_a_shard_is_the_same_each_time(lanes):
    """A shard run twice has the same tally, whatever ran on its rig before."""
    tallies = [Tally("interleavings"), Tally("interleavings")]
    for tally in tallies:
        interleavings.run(lanes(), 3, 0, 50, tally)

    assert tallies[0] == tallies[1]
    assert (True, True) == (tallies[0].schedules["programs"] > 1, tallies[0].schedules["nodes"] > 100)
