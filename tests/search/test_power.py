"""Power cuts in the model: exhausted where durability keeps, a shortest order for each loss where it does not."""

from __future__ import annotations

from collections import deque

import pytest
from attrs import evolve

from model import CHOICES, Limits, Model, Moment, Reply, Verb, contracts_from
from model.contracts import Durability
from model.properties import ACK_DURABLE, PROPERTIES, Sort
from model.search import Bounds, ModelBounds, ModelSpace, PowerSpace, Symmetric, Verdict, search, unsound
from model.search.local import KILLED
from model.search.normal import Normal
from model.search.power import LAG
from model.step import dead

WORK = frozenset({Verb.SUBMIT, Verb.APPROVE, Verb.CLAIM, Verb.DISPATCH, Verb.ACKNOWLEDGE, Verb.CHECKPOINT})
RECOVERY = frozenset({Verb.RESTART, Verb.ADVANCE, Verb.RECONCILE, Verb.REAP_READ, Verb.REAP_APPLY})
BOUNDS = ModelBounds(
    kills=0,
    policy_bumps=0,
    payload_changes=False,
    repeats=False,
    blind=False,
    verbs=WORK | RECOVERY,
    replies=frozenset({Reply.DONE}),
    limits=Limits(lease_ms=1, other_lease_ms=2, approval_ms=1, deadline_ms=2, max_attempts=2),
)
SMALL = evolve(BOUNDS, verbs=WORK | {Verb.RESTART, Verb.RECONCILE, Verb.ADVANCE})
STATES = {0: 749, 1: 8_120, 2: 17_009}
"""The states of the default contracts, by the number of power cuts."""
ORDER = ("submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 done", "acknowledge w1 k1")
LEDGER, SINK = "power cut: the ledger loses 1", "power cut: the sink loses 1"
SHORTEST = {
    "intent-kept": (*ORDER[:1], LEDGER),
    "ack-durable": (*ORDER[:1], LEDGER),
    "grant-kept": (*ORDER[:2], LEDGER),
    "no-stale-token": ("submit k1 p1", "claim w1 k1", LEDGER),
    "lease-kept": ("submit k1 p1", "claim w1 k1", LEDGER),
    "unknown-kept": (*ORDER[:4], LEDGER),
    "true-completion": (*ORDER, SINK),
    "terminal-stays": (*ORDER, LEDGER),
}
"""All that a lost tail breaks, and the shortest order to each."""


def space(cuts: int, bounds: ModelBounds = BOUNDS, **contracts: str) -> PowerSpace:
    return PowerSpace(Model(contracts_from(contracts)), bounds, cuts)


def by_class(system: PowerSpace) -> Symmetric:
    return Symmetric(system, system.canonical())


@pytest.mark.parametrize("cuts", STATES)
def test_what_is_durable_survives_every_power_cut(cuts):
    """Under the default contracts no order with so many power cuts breaks a promise: exhausted, and counted."""
    found = search(space(cuts), all_properties=True)

    assert (Verdict.EXHAUSTED, STATES[cuts]) == (found.verdict, found.states)


@pytest.mark.parametrize("choice", [c for c in Durability if c.keeps], ids=str)
def test_every_choice_that_keeps_survives(choice):
    """The model asks of a durability choice only whether it keeps: all that do have the same states."""
    found = search(by_class(space(1, durability=str(choice))), all_properties=True)

    assert (Verdict.EXHAUSTED, 4_386) == (found.verdict, found.states)


@pytest.mark.parametrize("choice", [c for c in Durability if not c.keeps], ids=str)
def test_a_choice_that_does_not_keep_loses_the_first_intent(choice):
    """The shortest order is a submission and a power cut."""
    found = search(space(2, durability=str(choice)))

    assert ("intent-kept", SHORTEST["intent-kept"]) == (found.property_id, found.trace)


def test_each_promise_that_a_lost_tail_breaks_has_its_shortest_order():
    """Ledger and sink lose by themselves: a completed intent without its effect is among what is left."""
    found = search(by_class(space(1, SMALL, durability="wal-normal")), all_properties=True)

    assert SHORTEST == dict(found.traces)


def test_the_losses_are_losses_in_whole_worlds_too():
    """Played on the model itself, rows and all, each shortest order breaks its promise when the tail is put back."""
    model = Model(limits=BOUNDS.limits, keys=1)
    for property_id, trace in SHORTEST.items():
        stores, sinks = [model.first().stores], [model.first().stores]
        world = model.first()
        for label in trace[:-1]:
            world, _ = model.step(world, model.alphabet.by_label[label])
            is_sink = world.stores.slots[0].effects != sinks[-1].slots[0].effects
            (sinks if is_sink else stores).append(world.stores)
        now = world.stores.slots[0]
        old = (sinks if trace[-1] == SINK else stores)[-2].slots[0]
        left = evolve(now, effects=()) if trace[-1] == SINK else evolve(old, effects=now.effects, fence=now.fence)
        after = evolve(world.stores, slots=(left,))
        tick = model.alphabet.by_label["advance tick"]
        moment = Moment(world.stores, after, world.now_ms, tick, KILLED, -1, 0, model.limits)
        assert property_id == ACK_DURABLE.id or not PROPERTIES[property_id].holds(moment, now, left, False)


def test_a_database_falls_back_by_so_many_transactions_and_no_more():
    """After four steps the ledger may be two transactions behind, and the sink by its only one."""
    system = space(1, durability="off")
    state = system.initial
    for label in ORDER[:4]:
        state = next(edge.target for edge in system.edges(state) if edge.label == label)
    ledger = [f"the ledger loses {n}" for n in range(1, LAG + 1)]
    both = [f"{lost} and the sink loses 1" for lost in ledger]

    assert {*ledger, "the sink loses 1", *both} == {
        edge.label.removeprefix("power cut: ") for edge in system.edges(state) if "loses" in edge.label
    }


def test_without_a_power_cut_it_is_the_space_of_the_model():
    """No cuts, no deaths: the states are those of the model's own space."""
    assert search(ModelSpace(Model(), BOUNDS)).states == search(space(0)).states


def naive_states(model: Model, bounds: ModelBounds, cuts: int) -> int:
    """How many normal forms there are, by a search of whole worlds that shares nothing with the packed one."""
    normal = Normal(model.contracts, model.limits)
    first = (normal.world(model.first()), cuts)
    seen, waiting = {first}, deque([(model.first(), cuts)])

    def push(world, left):
        form = (normal.world(world), left)
        if form not in seen:
            seen.add(form)
            waiting.append((world, left))

    while waiting:
        world, left = waiting.popleft()
        stages = [world]
        for verb in bounds.verbs:
            for action in model.enabled(world, verb):
                if is_asked_for(action, world, bounds):
                    taken = model.take(world, action).stages
                    push(taken[-1] if taken else world, left)
                    stages += taken
        for stage in stages if left else ():
            for index in range(model.workers):
                stage = dead(stage, index)  # noqa: PLW2901 - one after the other
            push(stage, left - 1)
    return len(seen)


def is_asked_for(action, world, bounds: ModelBounds) -> bool:
    if action.choice not in {"", "p1", "tick", "done", "same-name", "other-settings"}:
        return False
    if action.verb is Verb.CLAIM:
        return world.stores.slots[0].token_high < bounds.grants
    if action.verb is Verb.DISPATCH:
        worker, approval = world.workers[action.worker], world.stores.slots[0].approval
        return approval is not None and worker.results[0] is None and not worker.receipts[0]
    return True


@pytest.mark.parametrize("cuts", [1, 2])
def test_the_states_are_those_of_a_search_of_whole_worlds(cuts):
    """A death of everybody after any stage of anything, told straight from the model, gives the same states."""
    bounds = evolve(SMALL, verbs=SMALL.verbs - {Verb.ADVANCE})
    model = Model(limits=bounds.limits, keys=1)

    assert naive_states(model, bounds, cuts) == search(space(cuts, bounds)).states


@pytest.mark.parametrize("choice", ["delete-extra", "off"])
def test_workers_are_interchangeable(choice):
    """Joining states that differ in the workers' names alone hides nothing."""
    system = space(1, SMALL, durability=choice)

    assert "" == unsound(system, system.canonical(), Bounds(states=1_500))


def test_the_check_can_fail():
    """Teeth: contracts that break a promise at a death break it at a power cut, in as many steps."""
    weak = {"idempotency": "client"}
    bounds = evolve(BOUNDS, kills=2, verbs=BOUNDS.verbs | {Verb.KILL})
    by_kill = search(ModelSpace(Model(contracts_from(weak)), bounds), all_properties=True)
    by_cut = search(by_class(space(2, **weak)), all_properties=True)

    assert {"one-effect": 8} == {id_: len(trace) for id_, trace in by_cut.traces.items()}
    assert by_kill.traces.keys() == by_cut.traces.keys()


@pytest.mark.parametrize(
    ("bounds", "cuts", "message"),
    [
        (evolve(BOUNDS, kills=1), 1, "a power cut is the only death here"),
        (evolve(BOUNDS, keys=2), 1, "is searched for one key; give 1"),
        (BOUNDS, -1, "cuts=-1 is negative"),
    ],
)
def test_bounds_that_contradict_it_are_refused(bounds, cuts, message):
    """The message says the value, the reason and the remedy."""
    with pytest.raises(ValueError, match=message):
        space(cuts, bounds)


def test_every_property_that_a_cut_may_break_is_known():
    """A property is told by an identifier that the reports know."""
    assert SHORTEST.keys() <= {p.id for p in PROPERTIES.values() if p.sort is Sort.ALWAYS}
    assert {str(c) for c in Durability} == {str(c) for c in CHOICES["durability"]}
