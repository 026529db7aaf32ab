"""Eventually, under fairness: what is planted is found, what is live is accepted."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from itertools import combinations
from random import Random

import pytest

from model import Model, Verb, contracts_from
from model.search import Bounds, ModelBounds, ModelEdge, ModelSpace, Verdict, eventually
from model.words import TERMINAL, Reply
from tests.search.systems import Graph

GOAL = 9


def _ask(graph: Graph, **kwargs):
    return eventually(graph, lambda s: s == GOAL, lambda edge: edge.label.startswith("fair"), **kwargs)


LIVE = Graph(
    {0: [("work", 1, ""), ("idle", 0, "")], 1: [("back", 0, ""), ("fair on", 2, "")], 2: [("fair end", 9, "")]}
)
"""It may idle and go back; each time round it could go on, and some time it does. (0 has nothing fair.)"""


def test_a_dead_end_is_found() -> None:
    """A state without a way on that is no goal is reported, with the way to it and no loop."""
    result = _ask(Graph({0: [("fair", 9, ""), ("slip", 1, "")], 1: []}))

    assert (Verdict.VIOLATED, ("slip",), ()) == (result.verdict, result.trace, result.loop)


def test_a_trap_is_found() -> None:
    """A round with no way to the goal is reported as stem and loop, though every transition in it is fair."""
    result = _ask(Graph({0: [("fair", 9, ""), ("slip", 1, "")], 1: [("fair a", 2, "")], 2: [("fair b", 1, "")]}))

    assert (("slip",), ("fair a", "fair b")) == (result.trace, result.loop)


def test_a_lasso_without_fairness_is_found() -> None:
    """A round that a fair run may stay in, for the way out is not fair, is reported."""
    result = _ask(Graph({0: [("spin", 1, "")], 1: [("spin", 0, ""), ("lucky", 9, "")]}))

    assert (Verdict.VIOLATED, (), ("spin", "spin")) == (result.verdict, result.trace, result.loop)


def test_a_fair_way_out_is_taken() -> None:
    """A round that a fair transition leads out of ends, and the system is live."""
    result = _ask(Graph({0: [("spin", 1, "")], 1: [("spin", 0, ""), ("fair", 9, "")]}))

    assert (Verdict.EXHAUSTED, (), ()) == (result.verdict, result.trace, result.loop)


def test_a_smaller_round_inside_is_found() -> None:
    """A round that stays clear of the fair way out is found inside one that does not."""
    result = _ask(LIVE)

    assert (Verdict.VIOLATED, ("idle",)) == (result.verdict, result.loop)


def test_what_a_bound_takes_away_is_not_held_against_it() -> None:
    """Where the system's own bound ends it there is no violation, and no word of exhaustion either."""
    result = _ask(Graph({0: [("fair", 1, "")], 1: []}), cut=lambda s: s == 1)

    assert (Verdict.BOUNDED, "system") == (result.verdict, result.cut)


@pytest.mark.parametrize("bounds", [Bounds(depth=1), Bounds(states=1), Bounds(tick=lambda p: "time")])
def test_a_bound_is_told(bounds: Bounds) -> None:
    """A search that was cut is bounded."""
    assert Verdict.BOUNDED is _ask(Graph({0: [("fair", 1, "")], 1: [("fair", 9, "")]}), bounds=bounds).verdict


GRAPHS = 600


def _graph_of_chance(seed: int) -> Graph:
    """A graph of up to six states before the goal, about half of its transitions fair."""
    rng = Random(seed)  # noqa: S311 - a seeded choice, no secret
    size = rng.randint(1, 6)
    places = [*range(size), GOAL]
    return Graph(
        {
            state: [
                (f"{rng.choice(['fair', 'luck'])} {state}-{n}", rng.choice(places), "")
                for n in range(rng.randint(0, 3))
            ]
            for state in range(size)
        }
    )


def _distances(graph: Graph, start: int, inside: Container[int] = range(GOAL + 1)) -> dict[int, int]:
    """How many steps it takes from a state to each that it reaches inside of some states; 0 to itself."""
    steps, waiting = {start: 0}, deque([start])
    while waiting:
        state = waiting.popleft()
        for target in graph.successors(state):
            if target in inside and target not in steps:
                steps[target] = steps[state] + 1
                waiting.append(target)
    return steps


def _holds_a_fair_run(graph: Graph, part: frozenset[int]) -> bool:
    """Whether a run can come by all of these states again and again, and no fair transition leads out of them."""
    edges = [edge for state in part for edge in graph.edges(state)]
    return (
        any(edge.target in part for edge in edges)
        and all(part <= _distances(graph, state, part).keys() for state in part)
        and all(edge.target in part for edge in edges if edge.label.startswith("fair"))
    )


def _nearest_trouble(graph: Graph) -> int | None:
    """How far it is to where a run is lost, or else to where it may stay for ever; None if neither is there."""
    steps = _distances(graph, graph.initial)
    reached = {state: _distances(graph, state).keys() for state in steps}
    lost = [s for s in steps if GOAL not in reached[s] and all(s in reached[there] for there in reached[s])]
    if lost:
        return min(steps[state] for state in lost)
    states = [state for state in steps if state != GOAL]
    parts = (frozenset(part) for n in range(1, len(states) + 1) for part in combinations(states, n))
    return min((steps[s] for part in parts if _holds_a_fair_run(graph, part) for s in part), default=None)


@pytest.mark.parametrize("shard", range(4))
def test_brute_force_agrees(shard: int) -> None:
    """On small graphs the trouble is where brute force over all sets of states finds it, and the loop goes round."""
    wrong, found = [], set()
    for seed in range(shard, GRAPHS, 4):
        graph = _graph_of_chance(seed)
        result, nearest = _ask(graph), _nearest_trouble(graph)
        found.add((result.verdict, bool(result.loop)))
        state, way = 0, []
        for label in (*result.trace, *result.loop):
            state = next(edge.target for edge in graph.edges(state) if edge.label == label)
            way.append(state)
        at = [0, *way][len(result.trace)]
        if nearest != (len(result.trace) if result.verdict is Verdict.VIOLATED else None) or (
            result.loop and state != at
        ):
            wrong.append(seed)

    assert [] == wrong
    assert {(Verdict.VIOLATED, True), (Verdict.VIOLATED, False), (Verdict.EXHAUSTED, False)} == found


RECOVERY = frozenset({
    Verb.CLAIM, Verb.ACKNOWLEDGE, Verb.RECONCILE, Verb.REAP_READ, Verb.REAP_APPLY, Verb.ADVANCE, Verb.RESTART, Verb.WAKE,
})  # fmt: skip
"""What goes on after every fault has ended: it is done again and again as long as it is possible."""
GRANTS = 2


def _model_is_live(choices: dict[str, str], **sizes):
    bounds = ModelBounds(policy_bumps=0, grants=GRANTS, payload_changes=False, **sizes)
    space = ModelSpace(Model(contracts_from(choices)), bounds)

    def ended(state: int) -> bool:
        slots = space.world(state).stores.slots
        return all(s.lease is None and (s.intent is None or s.intent.state in TERMINAL) for s in slots)

    def is_fair(edge) -> bool:
        assert isinstance(edge, ModelEdge)
        return edge.action.verb in RECOVERY and edge.died_after < 0

    def no_claim_left(state: int) -> bool:
        return any(s.token_high >= GRANTS for s in space.world(state).stores.slots)

    return eventually(space, ended, is_fair, cut=no_claim_left)


def test_the_default_contracts_are_live() -> None:
    """Under the default contracts recovery brings every intent to its end, as far as the claims within bounds go."""
    result = _model_is_live({}, workers=1, kills=1, replies={Reply.DONE, Reply.LOST})

    assert (Verdict.BOUNDED, "system", "") == (result.verdict, result.cut, result.property_id)


UNCLAIMED = {Verb.SUBMIT, Verb.APPROVE, Verb.REAP_READ, Verb.REAP_APPLY, Verb.ADVANCE, Verb.KILL, Verb.RESTART}


def test_an_intent_that_nobody_claims_expires() -> None:
    """Under the default contracts an intent that no worker ever claims ends all the same, by its deadline."""
    assert Verdict.EXHAUSTED is _model_is_live({}, kills=1, verbs=UNCLAIMED).verdict


def test_without_a_deadline_nothing_need_end() -> None:
    """With limits for each attempt alone an intent that no worker claims waits for ever."""
    result = _model_is_live({"deadline": "per-attempt"}, kills=1, verbs=UNCLAIMED)

    assert Verdict.VIOLATED is result.verdict
    assert "submit k1 p1" == result.trace[0]
    assert result.loop
