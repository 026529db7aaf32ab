"""Quiesce: stop injecting faults, restart everyone, let leases run out, and run to a fixed point.

What is left to do is worked out from what is stored, with the ordinary actions, so that it is judged like any other
step. A human who does not answer is no defect: an intent that only waits for approval runs into its deadline.

Where permits are limited a lease that has run out is taken over without a sweep before it: a permit has to come back by
itself, as time goes by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from model.step import Model
from model.words import IN_FLIGHT, TERMINAL, Capability, Grant, Slot, State, World
from stateful.judge import Judge

ROUNDS = 4
"""Each round takes every live intent through one whole recovery; two are enough for a correct dispatcher."""


def quiesce(judge: Judge) -> Iterator[str]:
    """The labels of the steps to take, one by one; the caller does each before it asks for the next."""
    model = judge.model
    for _ in range(ROUNDS):
        yield from _wake_everyone(model, judge)
        for key in range(model.keys):
            if _is_live(judge.world.stores.slots[key]):
                yield from _finish(judge, f"k{key + 1}", key)
        if not any(_is_live(slot) for slot in judge.world.stores.slots):
            return


def _is_live(slot: Slot) -> bool:
    return slot.lease is not None or (slot.intent is not None and slot.intent.state not in TERMINAL)


def _wake_everyone(model: Model, judge: Judge) -> Iterator[str]:
    for index in range(model.workers):
        name = f"w{index + 1}"
        if not judge.world.workers[index].alive:
            yield f"restart {name} same-name"
        elif judge.world.workers[index].stalled >= 0:
            yield f"wake {name} done"


def _approved(world: World, slot: Slot) -> bool:
    approval, intent = slot.approval, slot.intent
    if approval is None or intent is None:
        return False
    return (
        approval.status is Grant.GRANTED
        and approval.digest == intent.digest
        and world.now_ms < approval.expiry_ms
        and approval.revision == world.stores.revision
    )


def _outwaited(judge: Judge, keys: Iterable[int]) -> Iterator[str]:
    """Let the leases of some keys run out."""
    for key in keys:
        lease = judge.world.stores.slots[key].lease
        if lease is not None and judge.world.now_ms < lease.expiry_ms:
            yield f"advance k{key + 1} lease"


def _finish(judge: Judge, name: str, key: int) -> Iterator[str]:
    """Take over one key, find out what became of it, and bring it to an end."""

    def slot() -> Slot:
        return judge.world.stores.slots[key]

    def state() -> State | None:
        intent = slot().intent
        return intent.state if intent else None

    limited = judge.model.limits.permits is not None
    yield from _outwaited(judge, range(judge.model.keys) if limited else (key,))
    if Capability.REAPING in judge.capabilities and (not limited or state() in TERMINAL):
        yield from ("reap_read w1", "reap_apply w1")
    yield f"claim w1 {name}"
    if state() in IN_FLIGHT and Capability.RECONCILE in judge.capabilities:
        yield f"reconcile w1 {name}"
    if state() is State.PENDING and _approved(judge.world, slot()):
        yield f"dispatch w1 {name} done"
        yield f"acknowledge w1 {name}"
    if state() is State.PENDING:
        yield f"advance {name} deadline"
        yield from ("reap_read w1", "reap_apply w1") if Capability.REAPING in judge.capabilities else ()
    if state() is State.PENDING and Capability.CANCELLATION in judge.capabilities:
        yield f"cancel {name}"
