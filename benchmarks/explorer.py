"""The explorer: transitions a second, bytes a state, and what symmetry saves, on the model's own space."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

from benchmarks.rows import Row, by_turns, rate_of
from model.search import Bounds, ModelBounds, ModelSpace, Symmetric, Verdict, interchangeable, search
from model.step import Model
from model.words import Reply

SPEED = ModelBounds(kills=1, policy_bumps=0, payload_changes=False, replies=frozenset({Reply.DONE, Reply.LOST}))
"""Some 90,000 states: enough to leave the processor's caches."""
MANY = ModelBounds(
    workers=3, keys=2, kills=0, policy_bumps=0, grants=1, payload_changes=False, replies=frozenset({Reply.DONE})
)
"""Three workers and two keys."""
DEPTH = 7
BYTES_MAX = 150


def _bare(initial: int, successors: Callable[[int], tuple[int, ...] | list[int]]) -> int:
    """The loop of a breadth-first search and nothing else; returns the transitions."""
    parents = {initial: initial}
    layer = [initial]
    transitions = 0
    while layer:
        following = []
        for state in layer:
            targets = successors(state)
            transitions += len(targets)
            for target in targets:
                if target not in parents:
                    parents[target] = state
                    following.append(target)
        layer = following
    return transitions


def _graph(space: ModelSpace) -> dict[int, tuple[int, ...]]:
    graph: dict[int, tuple[int, ...]] = {}
    waiting = [space.initial]
    while waiting:
        state = waiting.pop()
        if state not in graph:
            graph[state] = tuple(space.successors(state))
            waiting += graph[state]
    return graph


def _speed() -> list[Row]:
    cold = rate_of(lambda: search(ModelSpace(Model(), SPEED)).transitions)
    space = ModelSpace(Model(), SPEED)
    graph = _graph(space)
    added = {state: tuple(target - state for target in targets) for state, targets in graph.items()}
    ours, tuples, additions = by_turns(
        lambda: rate_of(lambda: search(space).transitions),
        lambda: rate_of(lambda: _bare(space.initial, graph.__getitem__)),
        lambda: rate_of(lambda: _bare(space.initial, lambda state: [state + a for a in added[state]])),
    )
    return [
        Row("explorer, tables filled", "a bare loop, successors in tuples", "transitions/s", ours, tuples, 0.6),
        Row("explorer, tables filled", "a bare loop, successors added up", "transitions/s", ours, additions, 0.6),
        Row("explorer, from nothing", "a bare loop, successors added up", "transitions/s", cold, additions),
    ]


def _memory() -> Row:
    space = ModelSpace(Model(), SPEED)
    search(space)  # fills the tables, which do not grow with the states
    tracemalloc.start()
    states = search(space).states
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Row(
        "explorer, memory", f"{BYTES_MAX} bytes", "bytes/state", peak / states, BYTES_MAX, 1, higher_is_better=False
    )


def _symmetry() -> Row:
    space = ModelSpace(Model(), MANY)
    plain = search(space, Bounds(depth=DEPTH))
    reduced = search(Symmetric(space, interchangeable(space)), Bounds(depth=DEPTH))
    if Verdict.VIOLATED in {plain.verdict, reduced.verdict}:
        raise RuntimeError(f"the default contracts broke {plain.property_id or reduced.property_id}")
    what = f"explorer, 3 workers x 2 keys to depth {DEPTH}"
    return Row(what, "states with symmetry", "states", plain.states, reduced.states, 3)


def rows() -> list[Row]:
    """Speed, memory, and the factor that symmetry is worth."""
    return [*_speed(), _memory(), _symmetry()]
