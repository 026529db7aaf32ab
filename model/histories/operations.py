"""The dispatcher's specification: each operation as atomic stages, between which other callers may act.

``model.step`` says what an operation does when nobody interferes; run one after another, the stages here do the same.
Each stage is the model's own step, taken in a world in which what an earlier stage has settled is as it was then:
no rule of the ledger stands here a second time. Only the sink's answer to a question is spelled out, as the model asks
and settles in one breath.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from attrs import evolve, field, frozen

from model.actions import AGAIN, Action, Verb
from model.contracts import ApprovalGate, Fencing
from model.histories.history import Call, Done, Group
from model.histories.memos import Asking, Claiming, Found, Sending, Signed
from model.histories.partition import ENVIRONMENT, groups_of
from model.step import Model, put, refused, with_slot, with_worker
from model.words import PAYLOADS, Approval, Effect, Kind, Outcome, Reply, Result, Stores, World

BUSY = refused("busy")
OUTRUN = refused("another was granted the key meanwhile")
OLDER = refused("a later decision is at hand")
STALE = refused("lease is gone")
NO_ANSWER = Outcome(Kind.UNKNOWN, "no answer")

_OF_THE_DEAD = frozenset({Verb.JUMP_WALL, Verb.KILL, Verb.RESTART})

Next = tuple[World, Any]
"""The world after a stage, and a memo or a ``Done``."""


@frozen(cache_hash=True)
class Operation:
    """An action and the lane that asked for it: a client's action names no worker, and any process may call it.

    ``at_ms`` is the instant that an ``advance`` came to, where the caller knows it. Without it the instant is that of
    the key's lease, approval or deadline, whichever it is in the order that is tried.
    """

    action: Action
    lane: int
    at_ms: int | None = None

    def __str__(self) -> str:
        return self.action.label


def said(call: Call) -> str:
    """A call of a dispatcher in a few words: ``claim w2 k1 -> ok 2``."""
    if call.outcome is None:
        return f"{call.operation} -> {'no answer yet' if call.end is None else 'died'}"
    value = f" {call.outcome.value}" if call.outcome.value else ""
    return f"{call.operation} -> {call.outcome.kind}{value}"


@cache
def _stall(action: Action) -> Action:
    return Action(Verb.STALL, action.worker, action.key)


@cache
def _wake(worker: int, choice: str) -> Action:
    return Action(Verb.WAKE, worker, -1, choice)


@frozen
class DispatcherHistory:
    """The specification of a dispatcher that starts in ``first_world``. States are worlds.

    With ``busy`` a ledger stage may be refused because another holds the lock, a look for overdue leases may then see
    nothing, and the sink may be silent.
    """

    model: Model
    first_world: World
    busy: bool = False
    _is_fenced: bool = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        is_fenced = self.model.contracts.fencing is Fencing.SINK_AND_LEDGER
        object.__setattr__(self, "_is_fenced", is_fenced)

    def first(self) -> World:
        """The world before the first call."""
        return self.first_world

    def matches(self, operation: Operation, expected: Outcome, outcome: Outcome) -> bool:
        """Whether two answers are the same; why it was refused is for the reader."""
        return expected == outcome

    def groups(self, calls: Sequence[Call]) -> Sequence[Group]:
        """One group a key: see ``groups_of``. Where permits are limited, a claim looks at the leases of all keys."""
        limited = self.model.limits.permits is not None
        return groups_of(calls, self.first_world, frozenset({Verb.CLAIM} if limited else ()))

    def stages(self, state: World, operation: Operation, memo: Any) -> Iterable[Next]:
        """What the next stage of an operation may do.

        Nothing where its worker is dead, or is to wake and is not frozen.
        """
        action = operation.action
        if not _can_go_on(state, action, memo):
            return ()
        match memo:
            case None:
                return self._begun(state, operation)
            case Sending():
                return self._sent(state, _wake(action.worker, action.choice))
            case Signed():
                return self._or_busy(state, action, self._handed_in(state, action.key, memo))
            case Claiming(is_told=False):
                return self._or_silent(state, self._announced(state, action, memo))
            case Claiming():
                return self._or_busy(state, action, self._taken_over(state, action, memo))
            case Asking():
                return self._or_silent(state, self._asked(state, action, memo))
            case _:
                return self._or_busy(state, action, self._settled(state, action, memo))

    def _begun(self, world: World, operation: Operation) -> Iterable[Next]:
        action = operation.action
        match action.verb:
            case Verb.APPROVE | Verb.DENY | Verb.FORGE if self._is_decided_by_the_ledger(action):
                return ((world, self._signed(world, action)),)
            case Verb.WAKE:
                return self._sent(world, action)
            case Verb.ADVANCE if operation.at_ms is not None:
                now_ms = max(world.now_ms, operation.at_ms)
                return ((World(now_ms, world.stores, world.workers), Done(Outcome(Kind.OK))),)
            case verb if verb in ENVIRONMENT:
                return (self._whole(world, action),)
            case Verb.DISPATCH:
                begun = self._authorised(world, action)
            case Verb.CLAIM:
                begun = self._claimed(world, action)
            case Verb.RECONCILE:
                begun = self._doubted(world, action)
            case _:
                begun = self._whole(world, action)
        return self._or_busy(world, action, begun)

    def _whole(self, world: World, action: Action) -> Next:
        """An operation of one stage."""
        if action.verb is Verb.ACKNOWLEDGE and world.workers[action.worker].results[action.key] is None:
            return self._whole_of_nothing(world, action)
        then, outcome = self.model.step(world, action)
        return then, Done(outcome)

    def _whole_of_nothing(self, world: World, action: Action) -> Next:
        """A worker that acknowledges without having been told anything says just that: no answer."""
        worker = world.workers[action.worker]
        nothing = evolve(worker, results=put(worker.results, action.key, Result(Kind.UNKNOWN, "no answer")))
        then, outcome = self.model.step(with_worker(world, action.worker, nothing), action)
        return with_worker(then, action.worker, worker), Done(outcome)

    def _or_busy(self, world: World, action: Action, otherwise: Next) -> Iterable[Next]:
        if not self.busy:
            return (otherwise,)
        worker = world.workers[action.worker] if action.worker >= 0 else None
        if worker is not None and action.verb is Verb.REAP_READ:
            seen_nothing = evolve(worker, view=(None,) * len(world.stores.slots))
            return otherwise, (with_worker(world, action.worker, seen_nothing), Done(Outcome(Kind.OK)))
        if worker is not None and action.verb is Verb.REAP_APPLY:
            # What was seen is used up, whatever came of it.
            return otherwise, (with_worker(world, action.worker, evolve(worker, view=None)), Done(BUSY))
        return otherwise, (world, Done(BUSY))

    def _or_silent(self, world: World, otherwise: Next) -> Iterable[Next]:
        return (otherwise, (world, Done(NO_ANSWER))) if self.busy else (otherwise,)

    # -- dispatch ---------------------------------------------------------------------------------------------

    def _authorised(self, world: World, action: Action) -> Next:
        then, outcome = self.model.step(world, _stall(action))
        return then, Sending() if outcome.kind is Kind.OK else Done(outcome)

    def _sent(self, world: World, wake: Action) -> Iterable[Next]:
        sent = self._whole(world, wake)
        if not self.busy or wake.choice == Reply.LOST:
            return (sent,)
        return sent, self._whole(world, _wake(wake.worker, Reply.LOST))

    # -- claim ------------------------------------------------------------------------------------------------

    def _claimed(self, world: World, action: Action) -> Next:
        """Granted or refused at once, unless the sink has to hear of the token first."""
        taken = self.model.take(world, action)
        if len(taken.stages) < 2:
            return (*taken.stages, world)[0], Done(taken.outcome)
        return world, Claiming(taken.outcome.value)

    def _announced(self, world: World, action: Action, memo: Claiming) -> Next:
        slot = world.stores.slots[action.key]
        fenced = with_slot(world, action.key, evolve(slot, fence=max(slot.fence, memo.token)))
        return fenced, Claiming(memo.token, is_told=True)

    def _taken_over(self, world: World, action: Action, memo: Claiming) -> Next:
        taken = self.model.take(world, action)
        if len(taken.stages) == 2 and taken.outcome.value != memo.token:
            return world, Done(OUTRUN)
        return (world, *taken.stages)[-1], Done(taken.outcome)

    # -- reconcile --------------------------------------------------------------------------------------------

    def _doubted(self, world: World, action: Action) -> Next:
        slot = world.stores.slots[action.key]
        _, outcome = self.model.step(with_slot(world, action.key, evolve(slot, fence=0)), action)
        if outcome.kind is Kind.REFUSED or slot.intent is None:
            return world, Done(outcome)
        return world, Asking(slot.intent.digest)

    def _asked(self, world: World, action: Action, memo: Asking) -> Next:
        slot = world.stores.slots[action.key]
        token = world.workers[action.worker].tokens[action.key]
        if self._is_fenced:
            if token < slot.fence:
                return world, Done(STALE)
            world = with_slot(world, action.key, evolve(slot, fence=token))
        return world, Found(tuple(effect.digest == memo.digest for effect in slot.effects))

    def _settled(self, world: World, action: Action, memo: Found) -> Next:
        """The model's own reconcile, with a sink that holds what was seen and has not moved since."""
        slot = world.stores.slots[action.key]
        digest = slot.intent.digest if slot.intent is not None else ""
        seen = tuple(Effect(digest if mine else "", 0, 0) for mine in memo.asked_for)
        then, outcome = self.model.step(
            with_slot(world, action.key, evolve(slot, effects=seen, fence=0)),
            action,
        )
        settled = evolve(then.stores.slots[action.key], effects=slot.effects, fence=slot.fence)
        return with_slot(then, action.key, settled), Done(outcome)

    # -- decisions --------------------------------------------------------------------------------------------

    def _is_decided_by_the_ledger(self, action: Action) -> bool:
        """A forged grant may be turned away at the door, where what it says does not matter."""
        return action.verb is not Verb.FORGE or self.model.contracts.approval is not ApprovalGate.BOUND

    def _signed(self, world: World, action: Action) -> Signed:
        slot = world.stores.slots[action.key]
        if action.verb is Verb.APPROVE and action.choice == AGAIN and slot.approval is not None:
            last = slot.approval
            return Signed(self._once_more(action.key, last), last.digest, last.expiry_ms, last.revision)
        # Whoever decides about a key of which nothing is known takes it to mean what is submitted by habit.
        digest = slot.intent.digest if slot.intent is not None else PAYLOADS[0]
        return Signed(action, digest, world.now_ms + self.model.limits.approval_ms, world.stores.revision)

    def _once_more(self, key: int, last: Approval) -> Action:
        """The action that gave the last grant."""
        if last.approver == self.model.limits.intruder:
            return Action(Verb.FORGE, -1, key, "approver")
        return Action(Verb.APPROVE, -1, key, last.digest)

    def _handed_in(self, world: World, key: int, memo: Signed) -> Next:
        """The model's own decision, at the time and of the payload for which it was signed."""
        slot = world.stores.slots[key]
        then, outcome = self.model.step(self._as_signed(world, key, memo), memo.action)
        before, after = slot.approval, then.stores.slots[key]
        is_grant = memo.action.verb is not Verb.DENY
        if is_grant and outcome.kind is Kind.OK and before is not None and memo.expiry_ms < before.expiry_ms:
            return world, Done(OLDER)
        if slot.intent is not None and after.intent is not None:
            after = evolve(after, intent=evolve(after.intent, digest=slot.intent.digest))
        return with_slot(world, key, after), Done(outcome)

    def _as_signed(self, world: World, key: int, memo: Signed) -> World:
        slot = world.stores.slots[key]
        if slot.intent is not None:
            slot = evolve(slot, intent=evolve(slot.intent, digest=memo.digest))
        stores = Stores(memo.revision, put(world.stores.slots, key, slot))
        return World(memo.expiry_ms - self.model.limits.approval_ms, stores, world.workers)


def _can_go_on(world: World, action: Action, memo: Any) -> bool:
    """Whether there is a process that can take the next stage."""
    if action.worker < 0 or action.verb in _OF_THE_DEAD:
        return True
    worker = world.workers[action.worker]
    if action.verb is Verb.WAKE or isinstance(memo, Sending):
        return worker.stalled >= 0
    return worker.alive
