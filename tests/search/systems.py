"""Small systems to search: two-phase commit, whose size is published, and graphs written out by hand or by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from attrs import field, frozen

from model.search import Edge, System

WORKING, PREPARED, COMMITTED, ABORTED = range(4)
INIT, COMMIT, ABORT = range(3)
TwoPhaseState = tuple[tuple[int, ...], int, frozenset[int], frozenset[int], int]
"""(each manager's state, the coordinator's, whom it counts as prepared, who said so, 1: commit said, 2: abort said)"""


@frozen
class TwoPhaseCommit(System[TwoPhaseState]):
    """Two-phase commit over messages that are never lost or taken away (Gray and Lamport; Stateright's example)."""

    managers: int

    @property
    def initial(self) -> TwoPhaseState:
        return (WORKING,) * self.managers, INIT, frozenset(), frozenset(), 0

    def successors(self, state: TwoPhaseState) -> Sequence[TwoPhaseState]:
        return [edge.target for edge in self.edges(state)]

    def edges(self, state: TwoPhaseState) -> Sequence[Edge[TwoPhaseState]]:
        managers, coordinator, counted, said, decided = state
        found = []
        if coordinator == INIT and len(counted) == self.managers:
            found.append(Edge("commit", (managers, COMMIT, counted, said, decided | 1)))
        if coordinator == INIT:
            found.append(Edge("abort", (managers, ABORT, counted, said, decided | 2)))
        for n, at in enumerate(managers):
            if coordinator == INIT and n in said:
                found.append(Edge(f"count {n}", (managers, coordinator, counted | {n}, said, decided)))
            if at == WORKING:
                found.append(
                    Edge(f"prepare {n}", (_put(managers, n, PREPARED), coordinator, counted, said | {n}, decided))
                )
                found.append(Edge(f"give up {n}", (_put(managers, n, ABORTED), coordinator, counted, said, decided)))
            if decided & 1:
                found.append(
                    Edge(f"hear commit {n}", (_put(managers, n, COMMITTED), coordinator, counted, said, decided))
                )
            if decided & 2:
                found.append(
                    Edge(f"hear abort {n}", (_put(managers, n, ABORTED), coordinator, counted, said, decided))
                )
        return found

    def bad(self, state: TwoPhaseState) -> str:
        return "consistent" if {COMMITTED, ABORTED} <= set(state[0]) else ""


def _put(managers: tuple[int, ...], n: int, at: int) -> tuple[int, ...]:
    return (*managers[:n], at, *managers[n + 1 :])


def managers_in_order(state: TwoPhaseState) -> TwoPhaseState:
    """The representative: managers are interchangeable, so that what is known of each is sorted."""
    managers, coordinator, counted, said, decided = state
    known = sorted((at, n in counted, n in said) for n, at in enumerate(managers))
    return (
        tuple(at for at, _, _ in known),
        coordinator,
        frozenset(n for n, (_, is_counted, _) in enumerate(known) if is_counted),
        frozenset(n for n, (_, _, has_said) in enumerate(known) if has_said),
        decided,
    )


def managers_by_state(state: TwoPhaseState) -> TwoPhaseState:
    """A coarser representative, sorted by the managers' own state alone, as Stateright's example does it."""
    managers, coordinator, counted, said, decided = state
    order = sorted(range(len(managers)), key=managers.__getitem__)
    return (
        tuple(managers[n] for n in order),
        coordinator,
        frozenset(place for place, n in enumerate(order) if n in counted),
        frozenset(place for place, n in enumerate(order) if n in said),
        decided,
    )


@frozen
class Graph(System[int]):
    """A graph written out: state -> (label, target, what it breaks) of each transition. It starts in 0."""

    out: Mapping[int, Sequence[tuple[str, int, str]]]
    invariants: Mapping[int, str] = field(factory=dict)
    """State -> the property that it breaks by itself."""
    shown: Mapping[str, str] = field(factory=dict)
    """Label -> the witness that a transition of this label is."""

    @property
    def initial(self) -> int:
        return 0

    def successors(self, state: int) -> Sequence[int]:
        return [target for _, target, _ in self.out.get(state, ())]

    def edges(self, state: int) -> Sequence[Edge[int]]:
        return [
            Edge(label, target, breaks, shows=(self.shown[label],) if label in self.shown else ())
            for label, target, breaks in self.out.get(state, ())
        ]

    def bad(self, state: int) -> str:
        broken = [breaks for _, _, breaks in self.out.get(state, ()) if breaks]
        return self.invariants.get(state) or (broken[0] if broken else "")

    def shows(self, state: int) -> Sequence[str]:
        return [self.shown[label] for label, _, _ in self.out.get(state, ()) if label in self.shown]


def random_graph(seed: int) -> Graph:
    """A small graph by chance, some of its transitions and states bad."""
    rng = Random(seed)  # noqa: S311 - a seeded choice, no secret
    size = rng.randint(1, 12)
    out = {
        state: [
            (f"{state}-{n}", rng.randrange(size), rng.choice(["a", "b"]) if rng.random() < 0.06 else "")
            for n in range(rng.randint(0, 3))
        ]
        for state in range(size)
    }
    invariants = {state: "c" for state in range(1, size) if rng.random() < 0.05}
    return Graph(out, invariants)
