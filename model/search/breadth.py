"""Breadth first: every state within a bound, and a shortest way to whatever is found.

A state costs its entry in one dictionary, which maps it to the state that it was first reached from. Labels are not
kept: they are asked for again when a trace is spelled.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Generic

from model.search.system import Bounds, Progress, Result, S, System, Verdict

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
        """The search itself, layer by layer."""
        layer = [self.system.initial]
        left = 0
        while layer:
            following: list[S] = []
            if self.bounds.depth is not None and self.depth >= self.bounds.depth:
                self.cut, done = "depth", 0
                self._judge(layer, by_transitions=False)
            else:
                done = self._expand(layer, following)
            if self.cut or (self.found and not self.goes_on):
                left = len(layer) - done + len(following)
                break
            layer = following
            self.depth += bool(layer)
        return self._result(left)

    def _expand(self, layer: list[S], following: list[S]) -> int:
        """Fill the next layer; returns how many states of this one were expanded before a bound or a violation."""
        parents, successors, bad = self.parents, self.system.successors, self.system.bad
        most = self.bounds.states
        push = following.append
        for done, state in enumerate(layer):
            if not done % TICK_STATES:
                self.cut = self._stop(len(layer) - done + len(following))
                if self.cut:
                    return done
            targets = successors(state)
            if bad(state):
                self._judge((state,))
                if self.found and not self.goes_on:
                    # A state that is bad by itself, in the rest of this layer, would be found one step sooner.
                    self._judge(layer[done + 1 :], by_transitions=False)
                    return done
            if self.missing:
                self._witnessed(state)
            self.transitions += len(targets)
            for target in targets:
                if target not in parents:
                    parents[target] = state
                    push(target)
            if most is not None and len(parents) > most:
                self.cut = "states"
                return done + 1
        return len(layer)

    def _stop(self, frontier: int) -> str:
        return self.bounds.tick(Progress(len(self.parents), self.transitions, self.depth, frontier))

    def _path(self, state: S) -> list[S]:
        path = [state]
        while self.parents[state] != state:
            state = self.parents[state]
            path.append(state)
        return path[::-1]

    def _judge(self, states: Sequence[S], *, by_transitions: bool = True) -> None:
        """Keep a trace to what states of the present layer break, by themselves and by their transitions."""
        for state in states:
            if not self.system.bad(state):
                continue
            by_itself, moving = self.system.broken(state)
            for id_ in by_itself:
                self._keep(id_, state, steps=self.depth)
            for id_ in moving if by_transitions else ():
                self._keep(id_, state, steps=self.depth + 1)

    def _keep(self, id_: str, state: S, *, steps: int) -> None:
        if (self.wanted and id_ != self.wanted) or (id_ in self.found and len(self.found[id_]) <= steps):
            return
        path = self._path(state)
        last = None if steps < len(path) else lambda edge: id_ in edge.broken
        self.found[id_] = self.system.spell(path, last)

    def _witnessed(self, state: S) -> None:
        for id_ in self.system.shows(state):
            if id_ in self.missing:
                self.missing.discard(id_)
                self._show(id_, state)

    def _show(self, id_: str, state: S) -> None:
        self.shown[id_] = self.system.spell(self._path(state), lambda edge: id_ in edge.shows)

    def _result(self, frontier: int) -> Result:
        verdict = Verdict.VIOLATED if self.found else Verdict.BOUNDED if self.cut else Verdict.EXHAUSTED
        first = min(self.found, key=lambda id_: len(self.found[id_]), default="")
        if not self.goes_on:
            self.found = {first: self.found[first]} if first else {}
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
