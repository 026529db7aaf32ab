"""Keys are judged alone: the same verdict with groups as without, and whole worlds put together again."""

from __future__ import annotations

from collections import Counter

import pytest
from attrs import evolve, frozen

from model.contracts import Limits
from model.histories import Call, DispatcherHistory, Group, Operation, Verdict, explain, merged, same_slots
from model.histories.partition import Keys
from model.words import Kind
from tests.model.histories.generated import chance_of, dispatcher_history, planted

READY = ("submit k1 p1", "approve k1 p1", "claim w1 k1", "submit k2 p1", "approve k2 p1", "claim w2 k2")


@frozen
class _Whole(DispatcherHistory):
    """The same specification without groups."""

    def groups(self, calls):
        return (Group(tuple(calls), Keys(frozenset(range(self.model.keys)))),)


def _whole(specification: DispatcherHistory) -> _Whole:
    return _Whole(specification.model, specification.first_world, specification.busy)


def test_groups_change_no_verdict() -> None:
    """On histories of two keys, with deaths and time moves, groups give the verdict and the worlds of the whole."""
    verdicts: Counter[tuple[Verdict, bool]] = Counter()
    for seed in range(300):
        history = dispatcher_history(seed, keys=2, crash=0.1 * (seed % 2))
        for calls in (history.calls, planted(history, chance_of(seed))):
            by_key, whole = explain(history.specification, calls), explain(_whole(history.specification), calls)

            assert whole.verdict == by_key.verdict, seed
            if whole.verdict is Verdict.EXPLAINED:
                assert set(merged(whole)) == set(merged(by_key)), seed
            verdicts[whole.verdict, len(by_key.groups) > 1] += 1

    assert min(verdicts[verdict, True] for verdict in (Verdict.EXPLAINED, Verdict.UNEXPLAINED)) > 100


def test_stores_are_compared_key_by_key() -> None:
    """The stores that a history left are accepted group by group if and only if they are accepted as a whole."""
    verdicts: Counter[Verdict] = Counter()
    for seed in range(300):
        history = dispatcher_history(seed, keys=2)
        for stores in (history.end.stores, history.specification.first_world.stores):
            by_key, whole = (
                explain(s, history.calls, accepts=same_slots(stores))
                for s in (history.specification, _whole(history.specification))
            )

            assert whole.verdict == by_key.verdict, seed
            verdicts[whole.verdict] += 1

    assert min(verdicts[Verdict.EXPLAINED], verdicts[Verdict.UNEXPLAINED]) > 100


def _scopes(specification: DispatcherHistory, calls: tuple[Call, ...]) -> list[set[int]]:
    return [set(group.scope.indices) for group in specification.groups(calls)]


@pytest.mark.parametrize(
    ("rows", "scopes"),
    [
        ([], [{0}, {1}]),
        ([(0, "dispatch w1 k1 done", 1, 2, "ok 1")], [{0}, {1}]),
        ([(0, "dispatch w1 k1 done", 1, 2, "ok 1"), (9, "advance tick", 3, 4, "ok")], [{0}, {1}]),
        ([(9, "kill w1", 1, 2, "killed"), (9, "restart w1 same-name", 3, 4, "ok")], [{0}, {1}]),
        ([(0, "dispatch w1 k1 done", 1, 3, "ok 1"), (9, "advance tick", 2, 4, "ok")], [{0, 1}]),
        ([(9, "restart w1 same-name", 3, 4, "")], [{0, 1}]),
        ([(9, "advance k1 lease", 1, 2, "ok")], [{0, 1}]),
        ([(2, "bump_policy", 1, 2, "ok 2")], [{0, 1}]),
        ([(0, "reap_read w1", 1, 2, "ok")], [{0, 1}]),
        ([(0, "stall w1 k1", 1, 2, "ok"), (0, "wake w1 done", 3, 4, "ok 1")], [{0}, {1}]),
        ([(0, "wake w1 done", 3, 4, "ok 1")], [{0, 1}]),
        ([(0, "wake w1 done", 3, 4, "ok 1"), (0, "stall w1 k2", 5, 6, "ok")], [{0, 1}]),
    ],
)
def test_calls_stand_in_groups(history_of, calls_of, rows, scopes) -> None:
    """A group a key, unless a call concerns several, or an event of the environment is not instantaneous."""
    specification = history_of(*READY)

    assert scopes == _scopes(specification, calls_of(specification, rows))


def test_a_known_instant_belongs_to_every_group(history_of) -> None:
    """Time that moves to a known millisecond needs no key's rows, so it unites nothing."""
    specification = history_of(*READY)
    operation = Operation(specification.model.alphabet.by_label["advance k1 lease"], 9, at_ms=100)
    calls = (Call(9, operation, 1, 2, specification.model.step(specification.first_world, operation.action)[1]),)

    explanation = explain(specification, calls)

    assert [{0}, {1}] == _scopes(specification, calls)
    assert [100] == [world.now_ms for world in merged(explanation)]


def test_a_worker_remembers_each_key(history_of, calls_of) -> None:
    """A worker's token, answer and receipt of a key come from that key's group, and what it froze on too."""
    specification = history_of(*READY[:2], *READY[3:5])
    rows = [
        (0, "claim w1 k1", 1, 2, "ok 1"),
        (0, "dispatch w1 k1 done", 3, 4, "ok 1"),
        (0, "claim w1 k2", 5, 6, "ok 1"),
        (0, "stall w1 k2", 7, 8, "ok"),
    ]

    (world,) = merged(explain(specification, calls_of(specification, rows)))

    worker = world.workers[0]
    assert ((1, 1), (1, 0), 1, "p1") == (worker.tokens, worker.receipts, worker.stalled, worker.sending)
    assert [True, False] == [result is not None for result in worker.results]


def test_whoever_wakes_is_frozen_no_more(history_of, calls_of) -> None:
    """A worker that was frozen before the history and woke in it is awake in the whole world."""
    specification = history_of(*READY, "stall w1 k1")
    rows = [(0, "wake w1 done", 1, 2, "ok 1"), (1, "dispatch w2 k2 done", 3, 4, "ok 1")]

    (world,) = merged(explain(specification, calls_of(specification, rows)))

    assert [-1, -1] == [worker.stalled for worker in world.workers]


@pytest.mark.parametrize("key", ["k1", "k2"])
def test_a_wake_is_about_the_key_that_froze_before_the_history(history_of, calls_of, key) -> None:
    """Where the worker was frozen at first, its wake concerns the key that it froze on, and no other."""
    specification = history_of(f"submit {key} p1", f"approve {key} p1", f"claim w1 {key}", f"stall w1 {key}")

    assert [{0}, {1}] == _scopes(specification, calls_of(specification, [(0, "wake w1 done", 1, 2, "ok 1")]))


def test_worlds_are_every_combination(history_of, calls_of) -> None:
    """Two keys with two ends each leave four worlds."""
    specification = history_of()
    rows = [(2, "submit k1 p1", 1, 2, ""), (3, "submit k2 p1", 3, 4, "")]

    worlds = merged(explain(specification, calls_of(specification, rows)))

    assert {(False, False), (False, True), (True, False), (True, True)} == {
        tuple(slot.intent is not None for slot in world.stores.slots) for world in worlds
    }


def test_untouched_keys_are_compared_too(history_of) -> None:
    """Stores in which a key changed that no call concerns are accepted by no group of that key."""
    specification = history_of(*READY)
    stores = specification.first_world.stores
    changed = evolve(stores, slots=(stores.slots[0], evolve(stores.slots[1], calls=1)))

    assert [Verdict.EXPLAINED, Verdict.UNEXPLAINED] == [
        explain(specification, [], accepts=same_slots(s)).verdict for s in (stores, changed)
    ]


@pytest.mark.parametrize(
    ("permits", "second", "verdict", "groups"),
    [
        (None, "ok 1", Verdict.EXPLAINED, 2),
        (None, "refused", Verdict.UNEXPLAINED, 2),
        (1, "ok 1", Verdict.UNEXPLAINED, 1),
        (1, "refused", Verdict.EXPLAINED, 1),
        (2, "ok 1", Verdict.EXPLAINED, 1),
    ],
)
def test_a_limit_ties_the_keys_together(history_of, calls_of, permits, second, verdict, groups) -> None:
    """Where permits are limited, two claims of two keys are judged together: one of them may be refused for the other."""
    specification = history_of("submit k1 p1", "submit k2 p1", limits=Limits(permits=permits))
    calls = calls_of(specification, [(0, "claim w1 k1", 1, 3, "ok 1"), (1, "claim w2 k2", 2, 4, second)])
    found = explain(specification, calls)

    assert (verdict, groups) == (found.verdict, len(found.groups))


def test_without_claims_a_limit_ties_nothing(history_of, calls_of) -> None:
    """Operations that take no permit are judged key by key, whatever the limit is."""
    specification = history_of(*READY[:2], *READY[3:5], limits=Limits(permits=1))
    calls = calls_of(specification, [(0, "cancel k1", 1, 2, "ok"), (1, "cancel k2", 3, 4, "ok")])

    assert 2 == len(explain(specification, calls).groups)


def test_a_takeover_may_lose_the_permit_on_its_way(history_of) -> None:
    """While a claim tells the sink of its token another key may take the last permit: it is refused in the end."""
    lead = (
        "submit k1 p1",
        "approve k1 p1",
        "claim w1 k1",
        "dispatch w1 k1 silent",
        "advance k1 lease",
        "submit k2 p1",
    )
    specification = history_of(*lead, limits=Limits(permits=1))
    model, world = specification.model, specification.first_world
    claim = Operation(model.alphabet.by_label["claim w1 k1"], 0)
    ((world, memo),) = specification.stages(world, claim, None)
    ((world, memo),) = specification.stages(world, claim, memo)
    world, granted = model.step(world, model.alphabet.by_label["claim w2 k2"])
    ((then, done),) = specification.stages(world, claim, memo)

    assert (Kind.OK, Kind.REFUSED, world) == (granted.kind, done.outcome.kind, then)
