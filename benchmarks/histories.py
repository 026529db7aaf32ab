"""The judge of concurrent histories against brute force: every order of the stages, tried one by one.

The brute force is what the judge's tests believe. It shares no code with the judge, remembers nothing, and knows no
groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import frozen

from benchmarks.rows import Row, rate_of
from model.histories import Call, DispatcherHistory, Done, Operation, Verdict, explain
from model.step import Model
from model.words import Kind, Outcome

TARGET = 1_000
TIMES = 200
SECONDS_AN_HOUR = 3_600


# -- brute force --------------------------------------------------------------------------------------------------


@frozen
class _Under:
    """Where a call stands: not begun, between two stages, or over."""

    memo: Any = None
    is_begun: bool = False
    is_over: bool = False


def every_end(specification: Any, calls: Sequence[Call]) -> Iterator[Any]:
    """The state after each order of the calls' stages that explains their answers; the same state again and again."""
    yield from _from(specification, tuple(calls), specification.first(), (_Under(),) * len(calls))


def _from(specification: Any, calls: tuple[Call, ...], state: Any, under: tuple[_Under, ...]) -> Iterator[Any]:
    if all(place.is_over or call.outcome is None for call, place in zip(calls, under, strict=True)):
        yield state
    for n, (call, place) in enumerate(zip(calls, under, strict=True)):
        if place.is_over or not (place.is_begun or _may_begin(calls, under, call)):
            continue
        for then, memo in specification.stages(state, call.operation, place.memo):
            if not isinstance(memo, Done):
                following = _Under(memo, is_begun=True)
            elif call.outcome is None or specification.matches(call.operation, call.outcome, memo.outcome):
                following = _Under(is_begun=True, is_over=True)
            else:
                continue
            yield from _from(specification, calls, then, (*under[:n], following, *under[n + 1 :]))
        if call.outcome is None and call.end is not None:
            yield from _from(specification, calls, state, (*under[:n], _Under(is_over=True), *under[n + 1 :]))


def _may_begin(calls: tuple[Call, ...], under: tuple[_Under, ...], call: Call) -> bool:
    return all(
        place.is_over
        for other, place in zip(calls, under, strict=True)
        if (other.end is not None and other.end < call.begin)
        or (other.lane == call.lane and other.begin < call.begin)
    )


def brute_force(
    specification: Any, calls: Sequence[Call], accepts: Callable[[Any], bool] = lambda state: True
) -> set[Any]:
    """The accepted states after some order that explains the calls; empty where there is none."""
    return {state for state in every_end(specification, calls) if accepts(state)}


# -- the history --------------------------------------------------------------------------------------------------

BEFORE = ("submit k1 p1", "submit k2 p1", "claim w1 k1", "claim w2 k2")
LANES = (
    ("renew w1 k1 -> ok", "claim w1 k2 -> refused", "claim w1 k2 -> ok 2"),
    ("renew w2 k2 -> ok", "claim w2 k1 -> refused", "renew w2 k2 -> ok"),
    ("submit k1 p1 -> replayed", "approve k2 p1 -> ok", "submit k1 p2 -> refused"),
    ("submit k2 p1 -> replayed", "approve k1 p1 -> ok", "cancel k1 -> ok"),
)
"""All of it can be explained but that w1 was granted k2, which w2 never gave back."""


def overlapping() -> tuple[DispatcherHistory, tuple[Call, ...]]:
    """Twelve calls of four lanes on two keys; each call overlaps with some of every other lane."""
    model = Model()
    world = model.first()
    for label in BEFORE:
        world, _outcome = model.step(world, model.alphabet.by_label[label])
    events = [(lane, 0) for lane in range(len(LANES))]
    for n in range(1, len(LANES[0]) + 1):
        # One lane after the other hears its answer and goes on at once, while the next ones still wait for theirs.
        events += [event for lane in range(len(LANES)) for event in ((lane, n - 1), (lane, n))]
    at = {event: [p for p, other in enumerate(events) if other == event] for event in events}
    calls = (
        Call(lane, _operation(model, told, lane), *at[lane, n], _answer(told))
        for lane, row in enumerate(LANES)
        for n, told in enumerate(row)
    )
    return DispatcherHistory(model, world), tuple(calls)


def _operation(model: Model, told: str, lane: int) -> Operation:
    return Operation(model.alphabet.by_label[told.partition(" -> ")[0]], lane)


def _answer(told: str) -> Outcome:
    kind, _, value = told.partition(" -> ")[2].partition(" ")
    return Outcome(Kind(kind), "", int(value or 0))


def _judged(times: int) -> int:
    specification, calls = overlapping()
    for _ in range(times):
        # A judge that has seen nothing yet: what it learns of the dispatcher is part of the time.
        if explain(specification, calls).verdict is not Verdict.UNEXPLAINED:
            raise RuntimeError("the judge explained a key that two workers held")
    return times


def _forced() -> int:
    if brute_force(*overlapping()):
        raise RuntimeError("brute force explained a key that two workers held")
    return 1


def rows() -> list[Row]:
    """Histories judged in an hour, by the judge and by brute force, which tries every order in vain."""
    floor = rate_of(_forced) * SECONDS_AN_HOUR
    ours = rate_of(lambda: _judged(TIMES)) * SECONDS_AN_HOUR
    what = "histories, 12 calls, 4 lanes, 2 keys"
    return [Row(what, "brute force", "histories/h", ours, floor, TARGET)]
