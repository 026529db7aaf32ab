"""The breadth-first search: sizes that are published, brute force on small graphs, and bounds that are told."""

from __future__ import annotations

from collections import deque

import pytest

from model.search import Bounds, Edge, System, Verdict, search
from tests.search.systems import Graph, TwoPhaseCommit, random_graph

GRAPHS = 400


def brute_force(graph: Graph) -> tuple[set[int], dict[str, int]]:
    """Every reachable state, and for each property the length of a shortest way to break it."""
    depth = {graph.initial: 0}
    waiting = deque(depth)
    broken: dict[str, int] = {}
    while waiting:
        state = waiting.popleft()
        here = depth[state]
        if state in graph.invariants:
            broken[graph.invariants[state]] = min(here, broken.get(graph.invariants[state], here))
        for _, target, breaks in graph.out.get(state, ()):
            if breaks:
                broken[breaks] = min(here + 1, broken.get(breaks, here + 1))
            if target not in depth:
                depth[target] = here + 1
                waiting.append(target)
    return set(depth), broken


def replayed(graph: Graph, trace: tuple[str, ...], property_id: str) -> bool:
    """Whether ``trace`` is a run of ``graph`` that ends by breaking ``property_id``."""
    state, breaks = graph.initial, ""
    for label in trace:
        found = [(target, b) for name, target, b in graph.out[state] if name == label]
        state, breaks = found[0]
    return property_id in {breaks, graph.invariants.get(state)}


@pytest.mark.parametrize(("managers", "states"), [(3, 288), (5, 8_832)])
def test_two_phase_commit_has_its_published_size(managers: int, states: int) -> None:
    """Two-phase commit has as many states as are published, and keeps its promise."""
    result = search(TwoPhaseCommit(managers))

    assert (Verdict.EXHAUSTED, states) == (result.verdict, result.states)


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_brute_force_agrees(seed: int) -> None:
    """On a small graph the verdict, each shortest length and the number of states are those of brute force."""
    graph = random_graph(seed)
    reachable, broken = brute_force(graph)

    first = search(graph)
    every = search(graph, all_properties=True)

    assert bool(broken) == (first.verdict is Verdict.VIOLATED)
    assert min(broken.values(), default=0) == len(first.trace)
    assert broken == {id_: len(trace) for id_, trace in every.traces.items()}
    assert len(reachable) == every.states
    assert all(replayed(graph, trace, id_) for id_, trace in every.traces.items())


@pytest.mark.parametrize("seed", range(0, GRAPHS, 4))
def test_one_property_is_searched_alone(seed: int) -> None:
    """A search for one property passes over the others and finds its shortest trace."""
    graph = random_graph(seed)
    _, broken = brute_force(graph)

    found = {id_: len(r.trace) for id_ in ("a", "b", "c") if (r := search(graph, property_id=id_)).property_id}

    assert broken == found


LINE = Graph({n: [("on", n + 1, "")] for n in range(9)})
"""Ten states in a row."""


def test_a_system_promises_nothing_unless_it_says_so() -> None:
    """A system that names no property is never bad, shows nothing, and is searched to its end."""

    class Ring(System[int]):
        initial = 0

        def successors(self, state):
            return [(state + 1) % 5]

        def edges(self, state):
            return [Edge("on", (state + 1) % 5)]

    result = search(Ring(), all_properties=True, witnesses=["w"])

    assert (Verdict.EXHAUSTED, 5, {}, {}) == (result.verdict, result.states, result.traces, result.witnesses)
    assert ("", (), ([], [])) == (Ring().bad(0), Ring().shows(0), Ring().broken(0))


def test_a_witness_gets_its_shortest_trace() -> None:
    """The shortest way to a witness is kept, and the search goes on to the end."""
    graph = Graph({0: [("b", 1, ""), ("a", 2, "")], 1: [("seen", 0, "")], 2: []}, shown={"seen": "w"})

    result = search(graph, witnesses=["w", "never"])

    assert {"w": ("b", "seen")} == result.witnesses
    assert Verdict.EXHAUSTED is result.verdict


@pytest.mark.parametrize(
    ("bounds", "cut"),
    [
        (Bounds(depth=8), "depth"),
        (Bounds(depth=0), "depth"),
        (Bounds(states=9), "states"),
        (Bounds(states=1), "states"),
        (Bounds(tick=lambda progress: "time"), "time"),
    ],
)
def test_what_is_cut_is_never_called_exhausted(bounds: Bounds, cut: str) -> None:
    """A search that a bound has cut says so, names the bound, and counts what it left."""
    result = search(LINE, bounds)

    assert (Verdict.BOUNDED, cut) == (result.verdict, result.cut)
    assert 0 < result.frontier


@pytest.mark.parametrize("bounds", [Bounds(depth=10), Bounds(states=10), Bounds()])
def test_a_bound_that_cuts_nothing_is_not_named(bounds: Bounds) -> None:
    """A bound that was not needed leaves the search exhausted, with nothing left."""
    result = search(LINE, bounds)

    assert (Verdict.EXHAUSTED, "", 10, 9, 0) == (
        result.verdict,
        result.cut,
        result.states,
        result.diameter,
        result.frontier,
    )


def test_a_bad_state_at_the_depth_bound_is_found() -> None:
    """A state that is bad by itself is found at the bound; a transition out of it is one step too far."""
    by_itself = Graph(LINE.out, {3: "c"})
    by_transition = Graph({**LINE.out, 3: [("on", 4, "a")]})

    assert ("c", 3) == ((r := search(by_itself, Bounds(depth=3))).property_id, len(r.trace))
    assert Verdict.BOUNDED is search(by_transition, Bounds(depth=3)).verdict


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        ({"depth": -1}, ("depth=-1", "negative", "give 0 or more")),
        ({"states": -5}, ("states=-5", "negative", "give 0 or more")),
        ({"states": 0}, ("states=0", "no room", "give 1 or more")),
    ],
)
def test_bounds_that_make_no_sense_are_refused(wrong: dict[str, int], parts: tuple[str, ...]) -> None:
    """A bound that makes no sense is refused with the value, the reason and the remedy."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is what is tested
        Bounds(**wrong)

    assert [] == [part for part in parts if part not in str(caught.value)]


def test_one_property_and_all_of_them_contradict() -> None:
    """Asking for one property and for all of them at once is refused."""
    with pytest.raises(ValueError, match="contradicts"):
        search(LINE, property_id="a", all_properties=True)
