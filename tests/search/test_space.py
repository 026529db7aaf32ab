"""The packed space says what the model says: held against it step by step, and against a search of whole worlds."""

from __future__ import annotations

import tracemalloc
from collections import deque
from random import Random

import pytest
from attrs import evolve

from model import (
    CHOICES,
    PROPERTIES,
    Kind,
    Limits,
    Model,
    Moment,
    Outcome,
    Reply,
    Sort,
    UnknownActionError,
    Verb,
    World,
    contracts_from,
)
from model.search import Bounds, ModelBounds, ModelSpace, Verdict, concrete, search
from model.step import dead
from model.words import PAYLOADS

UNSEEN = {"attempt_timeout", "durability"}
"""Contracts that the model does not read."""
CONTRACTS = [{}] + [
    {name: str(choice)} for name, choices in CHOICES.items() if name not in UNSEEN for choice in choices[1:]
]
PAIRS = [
    {"fencing": "none", "idempotency": "none"},
    {"fencing": "claim-only", "idempotency": "client", "approval": "caller"},
    {"cancellation": "forceful", "approval": "advisory", "deadline": "per-attempt"},
    {"idempotency": "none", "deadline": "per-attempt", "retry": "every-error", "fencing": "none"},
]
STATES = 48_102
"""The states of the default contracts within the small bound, one kill, a sink that answers."""
WALKS, STEPS = 3, 40


def _spelled(choices: dict[str, str]) -> str:
    return " ".join(f"{k}={v}" for k, v in choices.items()) or "defaults"


def broken_by(model: Model, world: World, action, outcome: Outcome, after: World) -> tuple[str, ...]:
    """Every property that a step breaks, asked of the list of properties itself."""
    worker = world.workers[action.worker] if action.worker >= 0 else None
    key = worker.stalled if worker and action.verb is Verb.WAKE else action.key
    token = worker.tokens[key] if worker and key >= 0 else 0
    moment = Moment(world.stores, after.stores, world.now_ms, action, outcome, key, token, model.limits)
    pairs = list(enumerate(zip(world.stores.slots, after.stores.slots, strict=True)))
    return tuple(
        p.id
        for p in PROPERTIES.values()
        if p.sort is Sort.ALWAYS
        and not all(p.holds(moment, was, now, n == key) for n, (was, now) in pairs if was is not now or n == key)
    )


def moves_of(model: Model, bounds: ModelBounds, world: World, kills: int):
    """Every move within bounds, straight from the model: (label, action, outcome, world after it, kills left)."""
    for verb in Verb:
        for action in model.enabled(world, verb) if verb in bounds.verbs else ():
            if not _is_within(bounds, action, world):
                continue
            if verb is Verb.KILL and not kills:
                continue
            taken = model.take(world, action)
            after = taken.stages[-1] if taken.stages else world
            yield action.label, action, taken.outcome, after, kills - (verb is Verb.KILL)
            if not kills or verb in {Verb.KILL, Verb.RESTART, Verb.ADVANCE, Verb.JUMP_WALL, Verb.BUMP_POLICY}:
                continue
            left = [dead(stage, action.worker) if action.worker >= 0 else stage for stage in (world, *taken.stages)]
            for number, after in enumerate(left):
                if after in left[:number]:
                    continue
                yield f"{action.label} killed after stage {number}", action, Outcome(Kind.KILLED), after, kills - 1


def _is_within(bounds: ModelBounds, action, world: World) -> bool:
    slot = world.stores.slots[action.key] if action.key >= 0 else None
    if action.verb is Verb.ADVANCE:
        return action.choice == "tick"
    if action.verb is Verb.BUMP_POLICY:
        return world.stores.revision <= bounds.policy_bumps
    if action.verb is Verb.CLAIM and slot:
        return slot.token_high < bounds.grants
    if action.verb in {Verb.DISPATCH, Verb.WAKE}:
        return action.choice in bounds.replies
    if action.verb in {Verb.SUBMIT, Verb.APPROVE} and action.choice == PAYLOADS[1]:
        return bounds.payload_changes and not (action.verb is Verb.SUBMIT and slot and slot.intent is None)
    return True


def _walk(space: ModelSpace, rng: Random) -> list[str]:
    """Walk at random on whole worlds, and say where the packed space differs from them."""
    model, bounds = space.model, space.bounds
    world, state = model.first(), space.initial
    for _ in range(STEPS):
        if space.normal.world(world) != space.world(state):
            return [f"at {world}: decoded {space.world(state)}"]
        kills = space.kills_left(state)
        edges = {edge.label: edge for edge in space.edges(state, all_labels=True)}
        moves = list(moves_of(model, bounds, world, kills))
        deaths = {(edge.action, edge.target) for edge in edges.values() if edge.died_after >= 0}
        differences = []
        for label, action, outcome, after, left in moves:
            edge = edges.pop(label, None)
            target = space.encode(after, left)
            if edge is None:
                is_told = (action, target) in deaths  # two deaths that leave one normal form are one edge
                if not is_told and not _is_idle(action, outcome, target, state):
                    differences.append(f"{label}: not offered")
                continue
            if edge.outcome != outcome:
                differences.append(f"{label}: answers {edge.outcome}, not {outcome}")
            if edge.broken != broken_by(model, world, action, outcome, after):
                differences.append(f"{label}: breaks {edge.broken}")
            if edge.target != target:
                differences.append(f"{label}: leads to {space.world(edge.target)}, not {space.world(target)}")
        differences += [f"{label}: offered, and not enabled" for label in edges]
        if differences:
            return differences
        assert {t for *_, after, left in moves if (t := space.encode(after, left)) != state} >= set(
            space.successors(state)
        )
        label, action, outcome, after, left = rng.choice(_eager(moves, world, rng))
        world, state = after, space.encode(after, left)
    return []


def _eager(moves, world: World, rng: Random):
    """Mostly the moves that change something, and seldom those that end the story early."""
    moves = [m for m in moves if m[1].verb is not Verb.JUMP_WALL]  # its labels depend on a clock that is forgotten
    changing = [m for m in moves if m[3] != world]
    calm = [
        m for m in changing if m[1].verb not in {Verb.DENY, Verb.CANCEL, Verb.KILL} and m[2].kind is not Kind.KILLED
    ]
    return calm if calm and rng.random() < 0.8 else (changing or moves)


def _is_idle(action, outcome: Outcome, target: int, state: int) -> bool:
    """What the normal form need not offer: a grant handed in again after the end, a reaper that clears nothing."""
    again = action.choice == "again" and outcome.kind in {Kind.REFUSED, Kind.KILLED}
    reaps = action.verb is Verb.REAP_APPLY and outcome.kind in {Kind.OK, Kind.KILLED}
    return again or (reaps and (target == state or outcome.kind is Kind.KILLED)) or action.verb is Verb.JUMP_WALL


@pytest.mark.parametrize(
    ("choices", "keys"),
    [(c, 1) for c in CONTRACTS + PAIRS] + [(c, 2) for c in [{}, *PAIRS]],
    ids=lambda value: _spelled(value) if isinstance(value, dict) else str(value),
)
def test_packed_and_whole_worlds_agree(choices: dict[str, str], keys: int) -> None:
    """On random walks each move's answer, broken promises and target are those of the model, for every contract."""
    bounds = ModelBounds(keys=keys, kills=2, grants=3)
    space = ModelSpace(Model(contracts_from(choices)), bounds)

    rngs = [Random(seed) for seed in range(WALKS)]  # noqa: S311 - a seeded choice, no secret
    assert [] == [difference for rng in rngs for difference in _walk(space, rng)][:3]


SMALL = ModelBounds(
    kills=0, policy_bumps=0, grants=2, payload_changes=False, replies=frozenset({Reply.DONE, Reply.PERMANENT})
)
DEPTH = 5
"""Steps of the counterexamples that brute force is asked for; one more is needed where the deadline has to pass."""


def shortest_of_all(model: Model, bounds: ModelBounds, depth: int) -> dict[str, int]:
    """For each promise the length of a shortest way to break it, by brute force over whole worlds."""
    found: dict[str, int] = {}
    seen = {(model.first(), bounds.kills)}
    layer = deque(seen)
    for length in range(1, depth + 1):
        following: deque[tuple[World, int]] = deque()
        for world, kills in layer:
            for _, action, outcome, after, left in moves_of(model, bounds, world, kills):
                for id_ in broken_by(model, world, action, outcome, after):
                    found.setdefault(id_, length)
                if (after, left) not in seen:
                    seen.add((after, left))
                    following.append((after, left))
        layer = following
    return found


@pytest.mark.parametrize("choices", CONTRACTS[1:], ids=_spelled)
def test_counterexamples_are_as_short_as_by_brute_force(choices: dict[str, str]) -> None:
    """Under each weaker contract each promise is broken in as few steps as a search of whole worlds needs."""
    depth = DEPTH + ("deadline" in choices)
    bounds = evolve(SMALL, verbs=SMALL.verbs - {Verb.JUMP_WALL, Verb.DENY, Verb.KILL, Verb.RESTART})
    if depth > DEPTH:
        bounds = evolve(bounds, workers=1, verbs=bounds.verbs - {Verb.CANCEL, Verb.REVOKE, Verb.STALL, Verb.WAKE})
    space = ModelSpace(Model(contracts_from(choices)), bounds)

    result = search(space, Bounds(depth=depth), all_properties=True)

    assert Verdict.VIOLATED is result.verdict
    assert shortest_of_all(space.model, bounds, depth) == {id_: len(trace) for id_, trace in result.traces.items()}


def test_a_worker_that_is_frozen_at_one_key_does_nothing_at_another() -> None:
    """Frozen between authorising and sending, a worker wakes or dies, whatever the other keys are like."""
    space = ModelSpace(Model(), ModelBounds(keys=2, kills=1, replies={Reply.DONE}))
    state = space.initial
    for label in ("submit k2 p1", "approve k2 p1", "claim w1 k2", "stall w1 k2"):
        state = next(edge.target for edge in space.edges(state) if edge.label == label)

    labels = {edge.label for edge in space.edges(state) if edge.action.worker == 0}

    assert {"kill w1", "wake w1 done"} | {f"wake w1 done killed after stage {n}" for n in (0, 1)} == labels


def test_the_default_contracts_survive_a_small_bound() -> None:
    """Within a small bound every state is seen and no promise is broken; the size is pinned."""
    result = search(ModelSpace(Model(), evolve(SMALL, kills=1, replies=frozenset({Reply.DONE}))))

    assert (Verdict.EXHAUSTED, "", 0) == (result.verdict, result.property_id, result.frontier)
    assert STATES == result.states


@pytest.mark.parametrize("choices", CONTRACTS[1:], ids=_spelled)
def test_a_trace_runs_under_ordinary_limits(choices: dict[str, str]) -> None:
    """A counterexample found in ticks is told in jumps to pending instants, and breaks the same promise there."""
    model = Model(contracts_from(choices))
    result = search(ModelSpace(model, SMALL))
    world, broken = model.first(), ()

    steps = concrete(result.trace, model)

    assert "advance tick" not in {step.label for step in steps}
    for step in steps:
        assert model.is_enabled(step.action, world)
        after, outcome = model.step(world, step.action)
        broken = broken_by(model, world, step.action, outcome, after)
        world = after
    assert result.property_id in broken


def test_a_death_inside_is_told_by_its_boundary() -> None:
    """A death after a stage becomes a death at the boundary that the caller says it is."""
    labels = ["submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 done killed after stage 2"]

    steps = concrete(labels, Model(), boundary=lambda action, stage: 10 * stage)

    assert "dispatch w1 k1 done killed at boundary 20" == steps[-1].label


def test_ticks_stay_where_no_jump_will_do() -> None:
    """Where ordinary limits put the pending instants in another order, the ticks are kept."""
    order = ["submit k1 p1", "claim w1 k1", "advance tick", "renew w1 k1"]
    short = Limits(deadline_ms=10)

    assert "advance k1 lease" == concrete(order, Model())[2].label
    assert order == [step.label for step in concrete(order, Model(limits=short))]


def test_a_label_of_another_system_is_refused() -> None:
    """A trace that was found with more workers than the model has is refused."""
    with pytest.raises(UnknownActionError, match="'claim w3 k1' is no action of 2 workers"):
        concrete(["claim w3 k1"], Model())


@pytest.mark.parametrize(("keys", "depth"), [(1, 5), (2, 3)])
def test_the_quotient_loses_no_world(keys: int, depth: int) -> None:
    """The states within a depth are the normal forms of the worlds within it, not one more and not one less.

    What a search leaves out on purpose, a client that dies, is left out on both sides.
    """
    bounds = ModelBounds(keys=keys, kills=1)
    space = ModelSpace(Model(), bounds)
    worlds = {(space.model.first(), bounds.kills)}
    states, layer, packed = {space.initial}, worlds, {space.initial}
    for _ in range(depth):
        layer = {
            (after, left)
            for world, kills in layer
            for _, action, outcome, after, left in moves_of(space.model, bounds, world, kills)
            if action.worker >= 0 or outcome.kind is not Kind.KILLED
        } - worlds
        worlds |= layer
        states |= {space.encode(world, kills) for world, kills in layer}
        packed |= {target for state in packed for target in space.successors(state)}

    assert states == packed


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"kills": -1}, ("kills=-1", "give 0 or more")),
        ({"policy_bumps": -1}, ("policy_bumps=-1", "give 0 or more")),
        ({"grants": -1}, ("grants=-1", "give 0 or more")),
        ({"workers": 0}, ("workers=0", "give 1 or more")),
        ({"keys": 0}, ("keys=0", "give 1 or more")),
        ({"policy_bumps": 3}, ("policy_bumps=3", "revision 3", "give 2 or fewer")),
        ({"replies": frozenset()}, ("replies", "without an answer", "give a reply")),
        ({"replies": (), "verbs": {Verb.DISPATCH}}, ("replies", "without an answer", "give a reply")),
        ({"verbs": frozenset({Verb.STALL})}, ("stall without wake", "give both or neither")),
        ({"limits": Limits(lease_ms=0)}, ("limits.lease_ms=0", "give 1 tick or more")),
        ({"limits": Limits(other_lease_ms=0)}, ("limits.other_lease_ms=0", "give 1 tick or more")),
        ({"limits": Limits(approval_ms=0)}, ("limits.approval_ms=0", "give 1 tick or more")),
        ({"limits": Limits(deadline_ms=0)}, ("limits.deadline_ms=0", "give 1 tick or more")),
        ({"limits": Limits(permits=1)}, ("limits.permits=1", "ties keys together", "give None")),
    ],
)
def test_bounds_that_make_no_sense_are_refused(wrong: dict[str, object], parts: tuple[str, ...]) -> None:
    """A bound that makes no sense is refused with the value, the reason and the remedy."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is what is tested
        ModelBounds(**wrong)

    assert [] == [part for part in parts if part not in str(caught.value)]


def test_the_narrowest_bounds_make_sense() -> None:
    """One of whatever is needed, none of what is not, the highest revision, and no reply where nobody sends."""
    one_tick = Limits(lease_ms=1, other_lease_ms=1, approval_ms=1, deadline_ms=1)
    bounds = ModelBounds(1, 1, kills=0, policy_bumps=2, grants=0, verbs=[Verb.SUBMIT], replies=[], limits=one_tick)

    assert (frozenset({Verb.SUBMIT}), frozenset()) == (bounds.verbs, bounds.replies)


def test_a_state_costs_few_bytes() -> None:
    """What the search keeps for a state, its number and its place in the parents, stays within 150 bytes."""
    space = ModelSpace(Model(), evolve(SMALL, replies=frozenset({Reply.DONE})))
    search(space)  # fills the tables, which do not grow with the states
    tracemalloc.start()
    try:
        states = search(space).states
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 150 >= peak / states
