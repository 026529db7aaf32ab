"""Symmetry: fewer states, the same verdicts, and traces that are real."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest
from attrs import evolve

from model import Model, contracts_from
from model.search import (
    Bounds,
    ModelBounds,
    ModelSpace,
    Symmetric,
    System,
    Verdict,
    interchangeable,
    search,
    unsound,
)
from model.words import Reply, World
from tests.search.systems import Graph, TwoPhaseCommit, managers_by_state, managers_in_order

SMALL = {"kills": 1, "policy_bumps": 0, "payload_changes": False, "replies": {Reply.DONE, Reply.PERMANENT}}


def reachable(system: System, depth: int | None = None) -> set:
    seen = {system.initial}
    layer = [system.initial]
    while layer and depth != 0:
        layer = [*dict.fromkeys(t for s in layer for t in system.successors(s) if t not in seen)]
        seen.update(layer)
        depth = None if depth is None else depth - 1
    return seen


def renamed(state, order: tuple[int, ...]):
    """A state of two-phase commit under other names for its managers."""
    managers, coordinator, counted, said, decided = state
    place = {n: at for at, n in enumerate(order)}
    return (
        tuple(managers[n] for n in order),
        coordinator,
        frozenset(place[n] for n in counted),
        frozenset(place[n] for n in said),
        decided,
    )


@pytest.mark.parametrize(("managers", "classes"), [(3, 80), (5, 314)])
def test_each_class_is_seen_once(managers: int, classes: int) -> None:
    """The search sees as many states as there are classes under every renaming of the managers."""
    system = TwoPhaseCommit(managers)
    orders = [*permutations(range(managers))]
    key = {state: (state[0], state[1], sorted(state[2]), sorted(state[3]), state[4]) for state in reachable(system)}
    counted = {min(key[renamed(state, order)] for order in orders).__repr__() for state in key}

    result = search(Symmetric(system, managers_in_order))

    assert classes == result.states == len(counted)


def test_the_published_number_with_symmetry() -> None:
    """Depth first, with the coarse representative as it is published, five managers have 665 states."""
    system = TwoPhaseCommit(5)
    seen = {managers_by_state(system.initial)}
    waiting = [system.initial]
    while waiting:
        for target in system.successors(waiting.pop()):
            if managers_by_state(target) not in seen:
                seen.add(managers_by_state(target))
                waiting.append(target)

    assert 665 == len(seen)


@pytest.mark.parametrize(("workers", "keys", "depth"), [(2, 1, 7), (3, 1, 5), (2, 2, 4)])
@pytest.mark.parametrize("choices", [{}, {"fencing": "none", "idempotency": "none"}], ids=["defaults", "weaker"])
def test_the_models_symmetry_is_sound(choices: dict[str, str], workers: int, keys: int, depth: int) -> None:
    """Every state within a bound leads into the same classes as its representative, and breaks the same."""
    space = ModelSpace(Model(contracts_from(choices)), ModelBounds(workers=workers, keys=keys, **SMALL))

    assert "" == unsound(space, interchangeable(space), Bounds(depth=depth))


@pytest.mark.parametrize(("workers", "keys", "depth"), [(2, 1, 7), (2, 2, 4), (3, 1, 5)])
def test_both_searches_see_the_same_classes(workers: int, keys: int, depth: int) -> None:
    """The representatives of all plain states are just the states that the search with symmetry sees."""
    space = ModelSpace(Model(), ModelBounds(workers=workers, keys=keys, **SMALL))
    canonical = interchangeable(space)

    assert {canonical(s) for s in reachable(space, depth)} == reachable(Symmetric(space, canonical), depth)


@pytest.mark.parametrize(("contract", "choice"), [("fencing", "claim-only"), ("idempotency", "client")])
def test_a_trace_through_it_is_real(contract: str, choice: str) -> None:
    """A counterexample found with symmetry is as short as without, and a run of the plain space."""
    space = ModelSpace(Model(contracts_from({contract: choice})), ModelBounds(**SMALL))
    plain = search(space, all_properties=True, bounds=Bounds(depth=6))
    reduced = search(Symmetric(space, interchangeable(space)), all_properties=True, bounds=Bounds(depth=6))

    assert {k: len(t) for k, t in plain.traces.items()} == {k: len(t) for k, t in reduced.traces.items()}
    for id_, trace in reduced.traces.items():
        state = space.initial
        for label in trace:
            edge = next(e for e in space.edges(state) if e.label == label)
            state = edge.target
        assert id_ in edge.broken


def test_an_unsound_form_is_found_out() -> None:
    """States that are not interchangeable and are joined all the same are reported."""
    graph = Graph({0: [("a", 1, ""), ("b", 2, "")], 1: [("c", 3, "")], 2: []})

    assert "different classes" in unsound(graph, lambda s: 1 if s == 2 else s, Bounds())
    assert "another representative" in unsound(graph, lambda s: s + 1, Bounds())
    assert "" == unsound(graph, lambda s: s, Bounds())


def test_a_trace_that_cannot_be_real_is_refused() -> None:
    """A path that only an unsound form allows is no trace."""
    graph = Graph({0: [("a", 1, "")], 1: [], 2: [("b", 3, "bad")]})
    joined = Symmetric(graph, lambda s: 2 if s == 1 else s)

    with pytest.raises(ValueError, match="let it join fewer"):
        joined.spell([0, 2, 3])


def test_two_workers_are_half_the_states() -> None:
    """With two workers there are nearly half as many classes as states, and the verdict is the same."""
    space = ModelSpace(Model(), ModelBounds(kills=0, policy_bumps=0, payload_changes=False, replies={Reply.DONE}))
    plain, reduced = search(space), search(Symmetric(space, interchangeable(space)))

    assert Verdict.EXHAUSTED is plain.verdict is reduced.verdict
    assert 1.7 < plain.states / reduced.states < 2


@pytest.mark.parametrize(("workers", "keys"), [(2, 1), (3, 1), (2, 2)])
def test_a_state_under_other_names_has_the_same_representative(workers: int, keys: int) -> None:
    """Whatever order workers and keys are named in, on random walks: one representative, which is one of the states."""
    space = ModelSpace(Model(workers=workers, keys=keys), ModelBounds(workers, keys, kills=1, replies={Reply.DONE}))
    canonical, rng = interchangeable(space), Random(0)  # noqa: S311 - a seeded choice, no secret
    seen = set()
    for _ in range(12):
        state = space.initial
        for _ in range(30):
            state = rng.choice(space.successors(state) or [space.initial])
            seen.add(state)

    for state in sorted(seen):
        world, kills = space.world(state), space.kills_left(state)
        named = {
            space.encode(_with_keys(evolve(world, workers=tuple(world.workers[n] for n in people)), order), kills)
            for people in permutations(range(workers))
            for order in permutations(range(keys))
        }
        assert {canonical(state)} == {canonical(other) for other in named}
        assert canonical(state) in named


def _with_keys(world: World, order: tuple[int, ...]) -> World:
    """The world with its keys in another order, in the stores and in what each worker knows."""

    def moved(row):
        return row and tuple(row[n] for n in order)

    workers = tuple(
        evolve(
            worker,
            tokens=moved(worker.tokens),
            results=moved(worker.results),
            receipts=moved(worker.receipts),
            view=moved(worker.view),
            stalled=order.index(worker.stalled) if worker.stalled >= 0 else -1,
        )
        for worker in world.workers
    )
    return evolve(world, workers=workers, stores=evolve(world.stores, slots=moved(world.stores.slots)))
