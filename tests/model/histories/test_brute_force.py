"""The judge against brute force on histories made by chance: the same verdict, and the same ends, on each of them."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from benchmarks.histories import brute_force
from model.histories import Call, Verdict, explain, merged, same_slots
from tests.model.histories.generated import Generated, chance_of, dispatcher_history, planted, rearranged, run_of
from tests.model.histories.tiny import Queue, Register, TornCounter

BLOCKS = [range(n, n + 250) for n in range(0, 1000, 250)]


def _history(seed: int) -> Generated:
    return dispatcher_history(seed, crash=0.1 * (seed % 2))


def _both(history: Generated, calls: tuple[Call, ...]) -> tuple[set, set]:
    """The ends by the judge, by groups, and by brute force; empty where the history is not explained."""
    explanation = explain(history.specification, calls)
    assert Verdict.UNDECIDED != explanation.verdict
    return set(merged(explanation)) if explanation.verdict is Verdict.EXPLAINED else set(), brute_force(
        history.specification, calls
    )


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_what_happened_is_explained(seeds) -> None:
    """A history that did happen is explained, and the world that it left is among the ends; brute force agrees."""
    for seed in seeds:
        history = _history(seed)

        ours, brute = _both(history, history.calls)

        assert brute == ours, seed
        assert history.end in ours, seed


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_a_changed_answer_is_judged_as_by_brute_force(seeds) -> None:
    """A history with one answer changed is refused where brute force finds no order, and only there."""
    verdicts: Counter[bool] = Counter()
    for seed in seeds:
        history = _history(seed)

        ours, brute = _both(history, planted(history, chance_of(seed)))

        assert brute == ours, seed
        verdicts[bool(ours)] += 1

    assert verdicts[False] > 200


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_another_order_is_judged_as_by_brute_force(seeds) -> None:
    """The same answers in another order of events are explained or not, as brute force says."""
    verdicts: Counter[bool] = Counter()
    for seed in seeds:
        history = _history(seed)

        ours, brute = _both(history, rearranged(history, chance_of(seed)))

        assert brute == ours, seed
        verdicts[bool(ours)] += 1

    assert min(verdicts[True], verdicts[False]) > 15


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_other_stores_are_judged_as_by_brute_force(seeds) -> None:
    """A history that is held against the stores before it is explained if it may have changed nothing."""
    verdicts: Counter[bool] = Counter()
    for seed in seeds:
        history = _history(seed)
        stores = history.specification.first().stores

        explanation = explain(history.specification, history.calls, accepts=same_slots(stores))
        brute = brute_force(history.specification, history.calls, lambda world, stores=stores: world.stores == stores)

        assert bool(brute) == (explanation.verdict is Verdict.EXPLAINED), seed
        verdicts[bool(brute)] += 1

    assert min(verdicts[True], verdicts[False]) > 50


def test_busy_stores_are_judged_as_by_brute_force() -> None:
    """Where stores may be busy the judge agrees with brute force too; a refusal is then hardly ever refuted."""
    verdicts: Counter[bool] = Counter()
    for seed in range(100):
        history = dispatcher_history(seed, busy=True)
        for calls in (history.calls, planted(history, chance_of(seed))):
            ours, brute = _both(history, calls)

            assert brute == ours, seed
            verdicts[bool(ours)] += 1

    assert min(verdicts.values()) > 40


@pytest.mark.parametrize("specification", [Register(), Queue(), TornCounter()], ids=lambda s: type(s).__name__)
def test_small_systems_are_judged_as_by_brute_force(specification) -> None:
    """On a register, a queue and a torn counter, with deaths and open calls, the judge agrees with brute force."""
    verdicts: Counter[bool] = Counter()
    for seed in range(200):
        chance = chance_of(seed)
        history = run_of(specification, chance, _choose, lanes=(0, 1, 2), calls=5, crash=0.05)
        for calls in (history.calls, rearranged(history, chance)):
            explanation, brute = explain(specification, calls), brute_force(specification, calls)

            assert brute == set(*explanation.ends), seed
            verdicts[bool(brute)] += 1

    assert min(verdicts[True], verdicts[False]) > 20


def _choose(state, lane: int, chance: Random) -> str:
    if isinstance(state, tuple):
        return chance.choice(["enq x", "enq y", "deq"])
    return chance.choice(["read", "write 1", "write 2"])
