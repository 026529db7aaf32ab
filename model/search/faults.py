"""Storage faults in the model: every order within bounds in which so many operations fail in the middle.

Storage that fails ends an operation after any of its stages, and nobody dies: whoever asked is told that the outcome
is unknown, and goes on with what it knew before. An operation that is refused has changed nothing and is as good as
one that was never asked for, so that a search need not try it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from attrs import evolve

from model.actions import Verb
from model.search.bounds import ModelBounds
from model.search.space import ModelEdge, ModelSpace
from model.search.symmetry import interchangeable
from model.search.system import Edge, System
from model.step import Model, put
from model.words import Kind, Result, World

FAILED = "failed after stage"
NO_ANSWER = Result(Kind.UNKNOWN, "no answer")
_DEATHS = 1
"""In every state of the inner space a death is possible: where a process may die, its storage may fail."""


class Failing(NamedTuple):
    """A state: a state of the inner space, and how many faults are left."""

    inner: int
    left: int


class FaultSpace(System[Failing]):
    """The transition system of a model within bounds, with ``faults`` storage faults and without any death.

    Raises ValueError for bounds with kills, or with fewer than no faults.
    """

    def __init__(self, model: Model, bounds: ModelBounds, faults: int) -> None:
        if bounds.kills:
            raise ValueError(f"kills={bounds.kills}: nobody dies here; search for kills in a ModelSpace, or give 0")
        if faults < 0:
            raise ValueError(f"faults={faults} is negative: a bound counts up from 0; give 0 or more")
        self.inner = ModelSpace(model, bounds)
        self.bounds = bounds
        self.model = self.inner.model
        self.faults = faults
        self._known: dict[int, list[tuple[ModelEdge, int]]] = {}

    @property
    def initial(self) -> Failing:
        """Empty stores, every worker alive, every fault left."""
        return Failing(self.inner.encode(self.model.first(), _DEATHS), self.faults)

    def successors(self, state: Failing) -> Sequence[Failing]:
        """Where one move or fault leads."""
        inner, left = state
        return [
            Failing(target, left - (edge.died_after >= 0))
            for edge, target in self._moves(inner)
            if target != inner and (left or edge.died_after < 0)
        ]

    def edges(self, state: Failing) -> Sequence[Edge[Failing]]:
        """The labelled moves and faults."""
        return [self._edge(state.left, *move) for move in self._moves(state.inner) if self._is_within(state, move[0])]

    def bad(self, state: Failing) -> str:
        """The first property that a move or a fault out of ``state`` breaks."""
        moves = self._moves(state.inner)
        return next((edge.breaks for edge, _ in moves if edge.breaks and self._is_within(state, edge)), "")

    def broken(self, state: Failing) -> tuple[Sequence[str], Sequence[str]]:
        """What the moves and faults out of ``state`` break. No state is bad by itself."""
        return (), [*dict.fromkeys(id_ for edge in self.edges(state) for id_ in edge.broken)]

    def canonical(self) -> Callable[[Failing], Failing]:
        """What joins states that differ only in how workers, or keys, are called."""
        of_inner = interchangeable(self.inner)
        return lambda state: state._replace(inner=of_inner(state.inner))

    @staticmethod
    def _is_within(state: Failing, edge: ModelEdge) -> bool:
        return state.left > 0 or edge.died_after < 0

    @staticmethod
    def _edge(left: int, edge: ModelEdge, target: int) -> Edge[Failing]:
        if edge.died_after < 0:
            return Edge(edge.label, Failing(target, left), edge.breaks, edge.also_breaks, edge.shows)
        label = f"{edge.action.label} {FAILED} {edge.died_after}"
        return Edge(label, Failing(target, left - 1), edge.breaks, edge.also_breaks)

    def _moves(self, inner: int) -> list[tuple[ModelEdge, int]]:
        """The moves out of a state of the inner space, each with where it leads if nobody dies of it."""
        known = self._known.get(inner)
        if known is None:
            edges = [edge for edge in self.inner.edges(inner) if edge.action.verb is not Verb.KILL]
            # Before the first stage only a dispatch leaves a trace: its worker holds an answer that says nothing.
            faults = [e for e in edges if e.died_after > 0 or (not e.died_after and e.action.verb is Verb.DISPATCH)]
            known = [(edge, edge.target) for edge in edges if edge.died_after < 0]
            known += [(edge, self._alive(inner, edge)) for edge in faults]
            self._known[inner] = known
        return known

    def _alive(self, inner: int, edge: ModelEdge) -> int:
        """What a death leaves, with its worker alive after all, knowing what it knew."""
        index = edge.action.worker
        left = self.inner.world(edge.target)
        if index < 0:
            return edge.target
        worker = self.inner.world(inner).workers[index]
        if edge.action.verb is Verb.DISPATCH:
            worker = evolve(worker, results=put(worker.results, edge.action.key, NO_ANSWER))
        elif edge.action.verb is Verb.REAP_APPLY:
            worker = evolve(worker, view=None)  # what was seen was handed over
        world = World(left.now_ms, left.stores, put(left.workers, index, worker))
        return self.inner.encode(world, _DEATHS)
