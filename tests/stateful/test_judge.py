"""The judge: possible worlds after a death, differences from the model, and named promises all the same."""

from __future__ import annotations

import itertools

import pytest
from attrs import evolve

from model.actions import ALPHABET, Step, Verb
from model.words import Approval, Effect, Grant, Intent, Kind, Lease, Outcome, Progress, Slot, State, Stores

TO_DISPATCH = ("submit k1 p1", "approve k1 p1", "claim w1 k1")


@pytest.mark.parametrize("last", ["submit k2 p1", "approve k1 p2", "deny k1", "claim w2 k1", "dispatch w1 k1 silent"])
@pytest.mark.parametrize("boundary", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14])
def test_a_death_anywhere_leaves_a_possible_world(rig, steps, last, boundary):
    """Wherever a correct dispatcher dies, what it leaves is the end of one of the operation's stages."""
    played = rig()
    played.start()
    findings = [played.do(step) for step in steps(*TO_DISPATCH, f"{last}!{boundary}")]

    assert [None] * 4 == findings
    assert None is played.judge.divergence
    assert {played.judge.stores} == {world.stores for world in played.judge.worlds}


def test_rows_between_two_stages_are_a_difference(rig, steps):
    """A death that leaves rows which are neither before nor after is seen, and said so."""
    ran = rig("StoresInTwoGoes").run(steps("submit k1 p1!6"))
    says = (
        "submit k1 p1 killed at boundary 6: the subject answered killed; no prefix of the operation leaves such rows"
    )

    assert ("conforms", says) == (ran.finding.property_id, ran.finding.detail)


def test_a_named_promise_outlives_a_difference(rig, steps):
    """A run goes on after a difference, so that the promise which breaks later is the one that is told."""
    ran = rig("MovesDeadlineAndForgets").run(steps(*TO_DISPATCH))

    assert ("intent-kept", 3) == (ran.finding.property_id, ran.own)


def test_a_search_for_a_difference_stops_at_it(rig, steps):
    """A run that is to show a difference ends with the step that made it."""
    ran = rig("MovesDeadlineAndForgets").run(steps(*TO_DISPATCH), until="conforms")

    assert ("conforms", 1) == (ran.finding.property_id, ran.own)


def test_a_difference_comes_last(rig, steps):
    """A difference that breaks no named promise is told when the order has run to rest."""
    ran = rig("MovesDeadline").run(steps("submit k1 p1"))

    assert ("conforms", 1, True) == (ran.finding.property_id, ran.own, len(ran.told) > ran.own)


def test_what_lies_still_is_stuck(rig, steps):
    """What has not ended after quiesce is named, with where it stands."""
    ran = rig("RefusesRenewal").run(steps("submit k1 p1"))

    assert None is ran.finding

    played = rig()
    played.start()
    played.do(*steps("submit k1 p1"))
    stuck = played.judge.at_rest()

    assert ("progress", "after quiesce k1 is pending") == (stuck.property_id, stuck.detail)


@pytest.mark.parametrize("boundary", [1, 2, 3])
def test_an_answer_tells_what_a_death_left(rig, steps, boundary):
    """Where rows cannot be read, the next answer tells whether the dead submission was stored."""
    order = steps(f"submit k1 p2!{boundary}", "submit k1 p1", "submit k1 p2", "claim w1 k1", "dispatch w1 k1 done")
    ran = rig("examples.toy_dispatcher:ToyDispatcher").run(order)

    assert None is ran.finding


def test_two_deaths_leave_three_worlds(rig, steps):
    """Where rows cannot be read, each death adds the worlds that it may have left."""
    played = rig("examples.toy_dispatcher:ToyDispatcher")
    played.start()
    for step in steps("submit k1 p1!1", "submit k1 p2!2"):
        played.do(step)
    intents = {world.stores.slots[0].intent for world in played.judge.worlds}

    assert {None, "p1", "p2"} == {intent and intent.digest for intent in intents}


def test_a_step_that_the_subject_has_no_part_for_is_left_out(rig, steps):
    """A trace of a subject with more parts runs on one with fewer."""
    labels = ("submit k1 p1", "approve k1 p1", "claim w1 k1", "stall w1 k1", "wake w1 done", "dispatch w1 k1 done")
    ran = rig("examples.toy_dispatcher:ToyDispatcher").run(steps(*labels))

    assert ["submit k1 p1", "claim w1 k1", "dispatch w1 k1 done"] == [s.label for s in ran.steps[: ran.own]]


EFFECT, LEASE = Effect("p1", 1, 0), Lease("w1", 1, 0)
GRANT = Approval("p1", "alice", 1, 1, Grant.GRANTED)
ODD_SLOTS = (
    Slot(),
    Slot(effects=(EFFECT,), lease=LEASE, token_high=1, approval=GRANT, progress=Progress(1, 9)),
    Slot(Intent("p2", State.COMPLETED, 0, receipt=3), effects=(EFFECT, EFFECT), lease=LEASE, token_high=-1),
    Slot(Intent("nonsense", State.UNKNOWN, 0, attempts=99), approval=GRANT, lease=LEASE),
)
"""What no correct dispatcher leaves behind."""


@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("name", ["", "examples.toy_dispatcher:ToyDispatcher"])
def test_nothing_that_a_subject_does_makes_the_judge_raise(rig, steps, verb, name):
    """Whatever it leaves behind, whatever it then answers to whichever action: the judge goes on judging."""
    played = rig(name)
    judge, judged = played.judge, 0
    played.start()
    for step in steps(*TO_DISPATCH, "dispatch w1 k1 done", "stall w2 k1", "reap_read w1"):
        if played.can(step):
            played.do(step)
    worker = evolve(judge.world.workers[0], view=((1, 0), (0, 0)))
    lead = evolve(judge.world, workers=(worker, evolve(judge.world.workers[1], stalled=0)))
    kinds = [Kind.KILLED, Kind.OK, Kind.REPLAYED, Kind.REFUSED]
    for action, was, now, kind in itertools.product(judge.model.alphabet.by_verb[verb], ODD_SLOTS, ODD_SLOTS, kinds):
        before, after = Stores(1, (was, Slot())), Stores(1, (now, was))
        judge.worlds, judge.stores = (evolve(lead, stores=before), evolve(judge.model.first(), stores=before)), before
        step = Step(action, 1 if kind is Kind.KILLED and ALPHABET[verb].stores else 0)
        (judge.observe if not name else judge.observe_sink)(step, Outcome(kind, value=7), after)
        judged += bool(judge.worlds)

    assert len(judge.model.alphabet.by_verb[verb]) * len(ODD_SLOTS) ** 2 * len(kinds) == judged


def test_an_effect_before_its_intent_is_a_finding(hunt):
    """A dispatcher that sends before it stores is found by the promise that it breaks, and its shard goes on."""
    assert ["effect-has-intent"] == list(hunt("SendsFirst", orders=200).broken)
