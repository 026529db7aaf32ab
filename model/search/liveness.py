"""Eventually, under fairness: from every state a goal is reached, unless a bound stands in the way.

Two things can go wrong. In a *trap* no way leads to the goal any more; it ends in a dead end, or goes round for ever. A
*fair lasso* goes round though a way out is there: it is found only if no fair transition leads out of it, for each fair
transition that is possible again and again is taken some time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic

from model.search.system import Bounds, Edge, Progress, Result, S, System, Verdict


def _nowhere(state: object) -> bool:
    return False


def eventually(
    system: System[S],
    goal: Callable[[S], bool],
    is_fair: Callable[[Edge[S]], bool],
    *,
    name: str = "progress",
    cut: Callable[[S], bool] = _nowhere,
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
) -> Result:
    """Whether every run that is fair to the transitions that ``is_fair`` accepts comes to a state of ``goal``.

    ``cut`` tells the states where the system's own bounds take something away (no claim is left): what ends there is
    not held against it, and the verdict is then "bounded", with cut "system", unless something else is broken.
    The result's ``trace`` leads to the trouble, and its ``loop`` goes round in it; an empty loop is a dead end. All
    states are kept with their edges, some 1 kB a state: for small bounds.
    """
    graph = _Graph(system, goal, cut)
    stopped = graph.explore(bounds)
    trouble = [] if stopped else graph.trapped() or graph.fair_lasso(is_fair)
    verdict = Verdict.EXHAUSTED
    trace: tuple[str, ...] = ()
    loop: tuple[str, ...] = ()
    if trouble:
        verdict = Verdict.VIOLATED
        trace, loop = graph.told(trouble)
    elif stopped or graph.was_cut:
        verdict, stopped = Verdict.BOUNDED, stopped or "system"
    return Result(
        verdict=verdict,
        states=len(graph.out),
        transitions=sum(map(len, graph.out.values())),
        diameter=graph.depth,
        frontier=graph.frontier,
        cut="" if trouble else stopped,
        property_id=name if trouble else "",
        trace=trace,
        loop=loop,
        traces={name: trace} if trouble else {},
    )


class _Graph(Generic[S]):
    """The reachable states with their edges, in the order in which a breadth-first search finds them."""

    def __init__(self, system: System[S], goal: Callable[[S], bool], cut: Callable[[S], bool]) -> None:
        self.system, self.goal, self.cut = system, goal, cut
        self.out: dict[S, list[Edge[S]]] = {}
        self.parents: dict[S, S] = {system.initial: system.initial}
        self.depth = self.frontier = 0
        self.was_cut = False

    def explore(self, bounds: Bounds) -> str:
        """Find every state; returns the bound that stopped it, "" if none did."""
        layer = [self.system.initial]
        while layer:
            self.frontier = len(layer)
            if bounds.depth is not None and self.depth >= bounds.depth:
                return "depth"
            following: list[S] = []
            for state in layer:
                if bounds.states is not None and len(self.parents) > bounds.states:
                    return "states"
                edges = [*self.system.edges(state)]
                self.out[state] = edges
                self.was_cut = self.was_cut or self.cut(state)
                for edge in edges:
                    if edge.target not in self.parents:
                        self.parents[edge.target] = state
                        following.append(edge.target)
            stopped = bounds.tick(Progress(len(self.parents), 0, self.depth, len(following)))
            if stopped:
                return stopped
            layer = following
            self.depth += bool(layer)
        self.frontier = 0
        return ""

    def trapped(self) -> list[S]:
        """A strongly connected set of states from which no goal can be reached, the nearest first; [] if none."""
        before: dict[S, list[S]] = {}
        for state, edges in self.out.items():
            for edge in edges:
                before.setdefault(edge.target, []).append(state)
        saved = {state for state in self.out if self.goal(state) or self.cut(state)}
        waiting = [*saved]
        while waiting:
            for state in before.get(waiting.pop(), ()):
                if state not in saved:
                    saved.add(state)
                    waiting.append(state)
        lost = [state for state in self.out if state not in saved]
        # A component that nothing leads out of: the run ends in it.
        ends = [part for part in self.components(lost) if self._leads_nowhere(part)]
        return self._nearest(ends)

    def _leads_nowhere(self, part: Collection[S]) -> bool:
        inside = set(part)
        return all(edge.target in inside for state in part for edge in self.out[state])

    def fair_lasso(self, is_fair: Callable[[Edge[S]], bool]) -> list[S]:
        """States that a fair run can go round in for ever without a goal; [] if there are none."""
        found = []
        waiting = self.components([state for state in self.out if not (self.goal(state) or self.cut(state))])
        while waiting:
            part = waiting.pop()
            inside = set(part)
            staying = [s for s in part if all(e.target in inside for e in self.out[s] if is_fair(e))]
            if len(staying) < len(part):
                # Whoever comes by the others again and again is led out by a fair transition.
                waiting += self.components(staying)
            elif self._goes_round(part):
                found.append(part)
        return self._nearest(found)

    def _goes_round(self, part: Collection[S]) -> bool:
        inside = set(part)
        return any(edge.target in inside for state in part for edge in self.out[state])

    def _nearest(self, parts: list[list[S]]) -> list[S]:
        if not parts:
            return []
        place = {state: number for number, state in enumerate(self.out)}
        nearest = min(parts, key=lambda part: min(place[s] for s in part))
        return sorted(nearest, key=place.__getitem__)

    def components(self, states: list[S]) -> list[list[S]]:
        """The strongly connected components of the graph on ``states`` (Tarjan's, without recursion)."""
        allowed, number, low = set(states), dict[S, int](), dict[S, int]()
        stack: list[S] = []
        on_stack: set[S] = set()
        found = []
        for root in states:
            if root in number:
                continue
            work = [(root, iter(self.out[root]))]
            number[root] = low[root] = len(number)
            stack.append(root)
            on_stack.add(root)
            while work:
                state, edges = work[-1]
                for edge in edges:
                    target = edge.target
                    if target not in allowed:
                        continue
                    if target not in number:
                        number[target] = low[target] = len(number)
                        stack.append(target)
                        on_stack.add(target)
                        work.append((target, iter(self.out[target])))
                        break
                    if target in on_stack:
                        low[state] = min(low[state], number[target])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[state])
                    if low[state] == number[state]:
                        at = stack.index(state)
                        found.append(stack[at:])
                        on_stack.difference_update(stack[at:])
                        del stack[at:]
        return found

    def told(self, part: list[S]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The labels to the first state of ``part``, and of a shortest way from there back to it."""
        first = part[0]
        path = [first]
        while self.parents[path[-1]] != path[-1]:
            path.append(self.parents[path[-1]])
        stem = self.system.spell(path[::-1])
        return stem, self._round(first, set(part))

    def _round(self, first: S, inside: set[S]) -> tuple[str, ...]:
        ways: dict[S, tuple[str, ...]] = {first: ()}
        layer = [first]
        while layer:
            following = []
            for state in layer:
                for edge in self.out[state]:
                    if edge.target == first:
                        return (*ways[state], edge.label)
                    if edge.target in inside and edge.target not in ways:
                        ways[edge.target] = (*ways[state], edge.label)
                        following.append(edge.target)
            layer = following
        return ()
