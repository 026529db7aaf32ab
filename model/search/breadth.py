"""Breadth first: every state within a bound, and a shortest way to whatever is found.

A state costs its entry in one dictionary, which maps it to the state that it was first reached from. Labels are not
kept: they are asked for again when a trace is spelled.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic

from model.search.system import Bounds, Edge, Progress, Result, S, System, Verdict

TICK_STATES = 1_024
"""``Bounds.tick`` is called once in so many expanded states."""


def search(
    system: System[S],
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
    *,
    property_id: str = "",
    all_properties: bool = False,
    witnesses: Collection[str] = (),
) -> Result:
    """Search ``system`` breadth first.

    Ends at the first violation of any property, or of ``property_id`` alone if that is given. With
    ``all_properties`` it goes through every state and keeps the shortest trace for each property. The shortest
    trace is kept too for each of ``witnesses``, the ids of which are looked for on the way.
    Raises ValueError if both ``property_id`` and ``all_properties`` are given.
    """
    if property_id and all_properties:
        raise ValueError(
            f"property_id={property_id!r} contradicts all_properties=True: the one asks for one property, the other "
            "for each; give one of them"
        )
    return _Search(system, bounds, property_id, set(witnesses), goes_on=all_properties).run()


class _Search(Generic[S]):
    def __init__(self, system: System[S], bounds: Bounds, wanted: str, missing: set[str], *, goes_on: bool) -> None:
        self.system = system
        self.bounds = bounds
        self.wanted = wanted
        self.goes_on = goes_on
        self.missing = missing
        self.parents: dict[S, S] = {system.initial: system.initial}
        self.transitions = 0
        self.depth = 0
        self.found: dict[str, tuple[str, ...]] = {}
        self.shown: dict[str, tuple[str, ...]] = {}
        self.cut = ""

    def run(self) -> Result:
        layer = [self.system.initial]
        left = 0
        while layer:
            at_the_end = self.bounds.depth is not None and self.depth >= self.bounds.depth
            following, done = ([], len(layer)) if at_the_end else self._expand(layer)
            if at_the_end:
                self._invariants(layer)
                self.cut = self.cut or "depth"
                left = len(layer)
            if at_the_end or self.cut or (self.found and not self.goes_on):
                left = left or len(layer) - done + len(following)
                break
            layer = following
            self.depth += bool(layer)
        return self._result(left)

    def _expand(self, layer: list[S]) -> tuple[list[S], int]:
        """The next layer, and how many states of this one were expanded before a bound or a violation."""
        parents, successors, bad = self.parents, self.system.successors, self.system.bad
        most = self.bounds.states
        following: list[S] = []
        push = following.append
        for done, state in enumerate(layer):
            if not done % TICK_STATES:
                self.cut = self._stop(len(layer) - done + len(following))
                if self.cut:
                    return following, done
            targets = successors(state)
            if bad(state):
                self._violated(state)
                if self.found and not self.goes_on:
                    self._invariants(layer[done + 1 :])
                    return following, done
            if self.missing:
                self._witnessed(state)
            self.transitions += len(targets)
            for target in targets:
                if target not in parents:
                    parents[target] = state
                    push(target)
            if most is not None and len(parents) > most:
                self.cut = "states"
                return following, done + 1
        return following, len(layer)

    def _stop(self, frontier: int) -> str:
        return self.bounds.tick(Progress(len(self.parents), self.transitions, self.depth, frontier))

    def _path(self, state: S) -> list[S]:
        path = [state]
        while self.parents[state] != state:
            state = self.parents[state]
            path.append(state)
        return path[::-1]

    def _violated(self, state: S, *, transitions: bool = True) -> None:
        """Keep what ``state`` breaks: as an invariant first, which is a step shorter, then by its transitions."""
        by_edges = [id_ for edge in self.system.edges(state) for id_ in edge.broken]
        itself = self.system.bad(state)
        if itself not in by_edges:
            self._keep(itself, state, as_invariant=True)
        for id_ in dict.fromkeys(by_edges if transitions else ()):
            self._keep(id_, state, as_invariant=False)

    def _keep(self, id_: str, state: S, *, as_invariant: bool) -> None:
        if (self.wanted and id_ != self.wanted) or (self.found and not self.goes_on and id_ not in self.found):
            return
        known = self.found.get(id_)
        if known is not None and len(known) <= self.depth + (not as_invariant):
            return

        def breaks(edge: Edge[S]) -> bool:
            return id_ in edge.broken

        self.found[id_] = self.system.spell(self._path(state), None if as_invariant else breaks)

    def _invariants(self, states: list[S]) -> None:
        """Look for states that are bad themselves: a counterexample as long as the depth, without another step."""
        for state in states:
            if self.system.bad(state):
                shorter = _Search(self.system, self.bounds, self.wanted, set(), goes_on=True)
                shorter.parents, shorter.depth = self.parents, self.depth
                shorter._violated(state, transitions=False)
                if shorter.found:
                    id_, trace = next(iter(shorter.found.items()))
                    if self.goes_on or not self.found:
                        self.found.setdefault(id_, trace)
                    elif len(trace) < len(next(iter(self.found.values()))):
                        self.found = {id_: trace}

    def _witnessed(self, state: S) -> None:
        for id_ in self.system.shows(state):
            if id_ in self.missing:
                self.missing.discard(id_)
                self.shown[id_] = self.system.spell(self._path(state), lambda edge, id_=id_: id_ in edge.shows)  # type: ignore[misc]

    def _result(self, frontier: int) -> Result:
        verdict = Verdict.VIOLATED if self.found else Verdict.BOUNDED if self.cut else Verdict.EXHAUSTED
        first = min(self.found, key=lambda id_: len(self.found[id_]), default="")
        return Result(
            verdict=verdict,
            states=len(self.parents),
            transitions=self.transitions,
            diameter=self.depth,
            frontier=frontier,
            cut=self.cut,
            property_id=first,
            trace=self.found.get(first, ()),
            traces=self.found,
            witnesses=self.shown,
        )
