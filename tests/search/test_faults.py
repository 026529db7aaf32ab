"""Storage faults in the model: an operation ends after any of its stages, and whoever asked lives on."""

from __future__ import annotations

from collections import deque

import pytest
from attrs import evolve, frozen

from model import Kind, Limits, Model, Reply, Verb, contracts_from
from model.search import Bounds, FaultSpace, ModelBounds, ModelSpace, Symmetric, Verdict, search, unsound
from model.search.faults import NO_ANSWER
from model.search.normal import Normal
from model.step import put
from model.words import Result

WORK = frozenset({Verb.SUBMIT, Verb.APPROVE, Verb.CLAIM, Verb.DISPATCH, Verb.ACKNOWLEDGE, Verb.CHECKPOINT})
RECOVERY = frozenset({Verb.ADVANCE, Verb.RECONCILE, Verb.REAP_READ, Verb.REAP_APPLY})
BOUNDS = ModelBounds(
    kills=0,
    policy_bumps=0,
    payload_changes=False,
    blind=False,
    verbs=WORK | RECOVERY,
    replies=frozenset({Reply.DONE}),
    limits=Limits(lease_ms=1, other_lease_ms=2, approval_ms=1, deadline_ms=2, max_attempts=2),
)
STATES = {0: 615, 1: 3_110, 2: 8_045}
"""The states of the default contracts, workers joined, by the number of faults."""


def space(faults: int, bounds: ModelBounds = BOUNDS, **contracts: str) -> FaultSpace:
    return FaultSpace(Model(contracts_from(contracts)), bounds, faults)


def by_class(system: FaultSpace) -> Symmetric:
    return Symmetric(system, system.canonical())


@pytest.mark.parametrize("faults", STATES)
def test_the_default_survives_every_fault(faults):
    """No order with so many operations that fail in the middle breaks a promise: exhausted, and counted."""
    found = search(by_class(space(faults)), all_properties=True)

    assert (Verdict.EXHAUSTED, STATES[faults]) == (found.verdict, found.states)


def test_without_a_fault_it_is_the_space_of_the_model():
    """No faults, no deaths: the states are those of the model's own space."""
    assert search(ModelSpace(Model(), BOUNDS)).states == search(space(0)).states


def naive_states(model: Model, bounds: ModelBounds, faults: int) -> int:
    """How many normal forms there are, by a search of whole worlds that shares nothing with the packed one."""
    normal = Normal(model.contracts, model.limits)
    seen, waiting = {(normal.world(model.first()), faults)}, deque([(model.first(), faults)])

    def push(world, left):
        form = (normal.world(world), left)
        if form not in seen:
            seen.add(form)
            waiting.append((world, left))

    while waiting:
        world, left = waiting.popleft()
        for verb in bounds.verbs:
            for action in model.enabled(world, verb):
                if not is_asked_for(action, world, bounds):
                    continue
                stages = model.take(world, action).stages
                push(stages[-1] if stages else world, left)
                for stage in (world, *stages) if left and action.worker >= 0 else ():
                    after = alive_at(stage, world, action)
                    if normal.world(after) != normal.world(world):  # a fault that leaves no trace is none
                        push(after, left - 1)
    return len(seen)


def alive_at(stage, world, action):
    """A stage's rows, and a worker that knows what it knew, and of a dispatch that it got no answer."""
    worker = world.workers[action.worker]
    if action.verb is Verb.DISPATCH:
        worker = evolve(worker, results=put(worker.results, action.key, NO_ANSWER))
    return evolve(stage, workers=put(stage.workers, action.worker, worker))


def is_asked_for(action, world, bounds: ModelBounds) -> bool:
    if action.choice not in {"", "p1", "tick", "done"}:
        return False
    return action.verb is not Verb.CLAIM or world.stores.slots[0].token_high < bounds.grants


@pytest.mark.parametrize("faults", [0, 1, 2])
def test_the_states_are_those_of_a_search_of_whole_worlds(faults):
    """Any prefix of any worker's operation, told straight from the model, gives the same states."""
    bounds = evolve(BOUNDS, verbs=WORK | {Verb.RECONCILE}, blind=True)

    assert naive_states(Model(limits=bounds.limits, keys=1), bounds, faults) == search(space(faults, bounds)).states


def test_workers_are_interchangeable():
    """Joining states that differ in the workers' names alone hides nothing."""
    system = space(1)

    assert "" == unsound(system, system.canonical(), Bounds(states=1_000))


@frozen
class Hasty(Model):
    """A model that calls an outcome failure because no answer came."""

    def _acknowledge(self, world, action):
        worker = world.workers[action.worker]
        if worker.results[action.key].kind is Kind.UNKNOWN:
            failed = put(worker.results, action.key, Result(Kind.ERROR, "permanent"))
            worker = evolve(worker, results=failed)
            world = evolve(world, workers=put(world.workers, action.worker, worker))
        return super()._acknowledge(world, action)


def test_the_check_can_fail():
    """Teeth: who calls an open outcome failure breaks no promise until storage fails once, and then does."""
    calm = search(by_class(FaultSpace(Hasty(), BOUNDS, 0)), all_properties=True)
    found = search(by_class(FaultSpace(Hasty(), BOUNDS, 1)))

    assert {} == dict(calm.traces)
    assert ("unknown-kept", ("dispatch w1 k1 done failed after stage 2", "acknowledge w1 k1")) == (
        found.property_id,
        found.trace[-2:],
    )


@pytest.mark.parametrize(
    ("bounds", "faults", "message"),
    [(evolve(BOUNDS, kills=1), 1, "nobody dies here"), (BOUNDS, -1, "faults=-1 is negative")],
)
def test_bounds_that_contradict_it_are_refused(bounds, faults, message):
    """The message says the value, the reason and the remedy."""
    with pytest.raises(ValueError, match=message):
        space(faults, bounds)
