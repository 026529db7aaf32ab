"""The reference model: ``step(world, action) -> (world, outcome)``, a pure function of its arguments.

It says what a dispatcher under given contracts does, in as few words as will do. Each operation is a short list of
*stages*, each of them atomic: a ledger transaction, a sink transaction, a file replacement. A process that dies in
the middle leaves a prefix of them (see ``model.possible``).
"""

from __future__ import annotations

from typing import TypeVar

from attrs import evolve, field, frozen

from model.actions import AGAIN, MEANS, WALL_OFFSETS_MS, Action, Alphabet, Verb, instant, is_enabled
from model.contracts import (
    ApprovalGate,
    Cancellation,
    Contracts,
    Deadline,
    Fencing,
    Idempotency,
    Limits,
    Retry,
)
from model.words import (
    IN_FLIGHT,
    TERMINAL,
    Approval,
    Effect,
    Grant,
    Intent,
    Kind,
    Lease,
    Outcome,
    Progress,
    Reply,
    Result,
    Slot,
    State,
    Stores,
    Worker,
    World,
    fresh_worker,
    fresh_world,
)

T = TypeVar("T")

OK = Outcome(Kind.OK)
_METHODS = {verb: f"_{verb}" for verb in Verb}


def refused(reason: str) -> Outcome:
    """A refusal, and why."""
    return Outcome(Kind.REFUSED, reason)


def put(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    """``items`` with one of them replaced."""
    return (*items[:index], item, *items[index + 1 :])


def with_slot(world: World, key: int, slot: Slot) -> World:
    """``world`` with one key's slot replaced."""
    stores = Stores(world.stores.revision, put(world.stores.slots, key, slot))
    return World(world.now_ms, stores, world.workers)


def with_worker(world: World, index: int, worker: Worker) -> World:
    """``world`` with one worker replaced."""
    return World(world.now_ms, world.stores, put(world.workers, index, worker))


@frozen
class Taken:
    """What an action did: the world after each of its stages, the last one final, and its outcome."""

    stages: tuple[World, ...]
    outcome: Outcome


@frozen
class Model:
    """A system under given contracts, limits, and numbers of workers and keys."""

    contracts: Contracts = Contracts()
    limits: Limits = Limits()
    workers: int = 2
    keys: int = 2
    alphabet: Alphabet = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "alphabet", Alphabet(self.workers, self.keys))

    def first(self) -> World:
        """The world before anything has happened."""
        return fresh_world(self.workers, self.keys)

    def enabled(self, world: World, verb: Verb) -> list[Action]:
        """The actions of ``verb`` that make sense in ``world``."""
        return self.alphabet.enabled(world, verb, self.contracts)

    def is_enabled(self, action: Action, world: World) -> bool:
        """Whether ``action`` makes sense in ``world``."""
        return is_enabled(action, world, self.contracts)

    def step(self, world: World, action: Action) -> tuple[World, Outcome]:
        """The world after ``action``, and what it answers."""
        taken = self.take(world, action)
        return (taken.stages[-1] if taken.stages else world), taken.outcome

    def take(self, world: World, action: Action) -> Taken:
        """``action`` stage by stage; no stages where it changes nothing."""
        taken: Taken = getattr(self, _METHODS[action.verb])(world, action)
        return taken

    # -- clients ----------------------------------------------------------------------------------------------

    def _submit(self, world: World, action: Action) -> Taken:
        slot = world.stores.slots[action.key]
        intent, digest = slot.intent, MEANS[action.choice]
        if intent is None:
            intent = Intent(digest, State.PENDING, world.now_ms + self.limits.deadline_ms)
        elif intent.digest == digest:
            return Taken((), Outcome(Kind.REPLAYED, value=intent.receipt))
        elif self.contracts.idempotency is Idempotency.NONE and intent.state is State.PENDING:
            intent = evolve(intent, digest=digest)
        else:
            return Taken((), refused("another payload holds the key"))
        return Taken((with_slot(world, action.key, evolve(slot, intent=intent)),), OK)

    def _approve(self, world: World, action: Action) -> Taken:
        if action.choice == AGAIN:
            intent = world.stores.slots[action.key].intent
            if intent is None or intent.state in TERMINAL:
                return Taken((), refused("already ended"))
            return Taken((), Outcome(Kind.REPLAYED))
        return self._grant(world, action.key, action.choice, self.limits.approvers[0], authentic=True)

    def _forge(self, world: World, action: Action) -> Taken:
        slot = world.stores.slots[action.key]
        digest = slot.intent.digest if slot.intent else ""
        by_intruder = action.choice == "approver"
        approver = self.limits.intruder if by_intruder else self.limits.approvers[0]
        if self.contracts.approval is ApprovalGate.BOUND:
            return Taken((), refused("not an approver" if by_intruder else "signature does not match"))
        return self._grant(world, action.key, digest, approver, authentic=by_intruder)

    def _grant(self, world: World, key: int, digest: str, approver: str, *, authentic: bool) -> Taken:
        slot = world.stores.slots[key]
        if slot.intent is None:
            return Taken((), refused("no such intent"))
        if slot.intent.state in TERMINAL:
            return Taken((), refused("already ended"))
        if slot.approval is not None and slot.approval.status is Grant.DENIED:
            return Taken((), refused("denied before"))
        approval = Approval(
            digest=digest,
            approver=approver,
            expiry_ms=world.now_ms + self.limits.approval_ms,
            revision=world.stores.revision,
            status=Grant.GRANTED,
            authentic=authentic,
        )
        if slot.approval is not None and evolve(slot.approval, status=Grant.GRANTED) == approval:
            return Taken((), Outcome(Kind.REPLAYED))  # the same word again opens nothing that was spent or revoked
        return Taken((with_slot(world, key, evolve(slot, approval=approval)),), OK)

    def _deny(self, world: World, action: Action) -> Taken:
        slot = world.stores.slots[action.key]
        intent = slot.intent
        if intent is None or intent.state in TERMINAL:
            return Taken((), refused("nothing to deny"))
        approval = Approval(
            digest=intent.digest,
            approver=self.limits.approvers[0],
            expiry_ms=world.now_ms + self.limits.approval_ms,
            revision=world.stores.revision,
            status=Grant.DENIED,
        )
        slot = evolve(slot, approval=approval)
        if intent.state in IN_FLIGHT or self.contracts.approval is ApprovalGate.ADVISORY:
            return Taken((with_slot(world, action.key, slot),), Outcome(Kind.UNKNOWN, "noted; may have happened"))
        slot = evolve(slot, intent=evolve(intent, state=State.DENIED), lease=None, permit=False)
        return Taken((with_slot(world, action.key, slot),), OK)

    def _revoke(self, world: World, action: Action) -> Taken:
        slot = world.stores.slots[action.key]
        if slot.intent is None or slot.intent.state in TERMINAL:
            return Taken((), refused("nothing to revoke"))
        if slot.approval is None or slot.approval.status not in {Grant.GRANTED, Grant.SPENT}:
            return Taken((), refused("no grant to revoke"))
        approval = evolve(slot.approval, status=Grant.REVOKED)
        return Taken((with_slot(world, action.key, evolve(slot, approval=approval)),), OK)

    def _bump_policy(self, world: World, action: Action) -> Taken:
        stores = Stores(world.stores.revision + 1, world.stores.slots)
        return Taken((World(world.now_ms, stores, world.workers),), Outcome(Kind.OK, value=stores.revision))

    def _cancel(self, world: World, action: Action) -> Taken:
        slot = world.stores.slots[action.key]
        intent = slot.intent
        if intent is None:
            return Taken((), refused("no such intent"))
        if intent.state is State.CANCELLED:
            return Taken((), Outcome(Kind.REPLAYED))
        if intent.state in TERMINAL:
            return Taken((), refused("already ended"))
        if self.contracts.cancellation is Cancellation.FORCEFUL:
            intent = evolve(intent, state=State.CANCELLED)
            return Taken((with_slot(world, action.key, evolve(slot, intent=intent)),), OK)
        if intent.state in IN_FLIGHT:
            answer = Outcome(Kind.UNKNOWN, "noted; may have happened")
            if intent.cancel_requested:
                return Taken((), answer)
            slot = evolve(slot, intent=evolve(intent, cancel_requested=True))
            return Taken((with_slot(world, action.key, slot),), answer)
        intent = evolve(intent, state=State.CANCELLED, cleaned=True)
        return Taken((with_slot(world, action.key, evolve(slot, intent=intent, lease=None, permit=False)),), OK)

    # -- leases -----------------------------------------------------------------------------------------------

    def _claim(self, world: World, action: Action) -> Taken:
        slot, worker = world.stores.slots[action.key], world.workers[action.worker]
        intent = slot.intent
        if intent is None:
            return Taken((), refused("no such intent"))
        reopens = self.contracts.idempotency is Idempotency.NONE and intent.state is State.COMPLETED
        if intent.state in TERMINAL and not reopens:
            return Taken((), refused("already ended"))
        held = slot.lease is not None and world.now_ms < slot.lease.expiry_ms
        if held and self.contracts.fencing is not Fencing.NONE:
            return Taken((), refused("held by another"))
        if not self._has_permit_left(world, action.key):
            return Taken((), refused("no permit left"))
        token = slot.token_high + 1
        stages = []
        if intent.state in IN_FLIGHT and self.contracts.fencing is Fencing.SINK_AND_LEDGER:
            # A former owner may have a send in flight: the sink must know of the new token before anybody holds it.
            slot = evolve(slot, fence=max(slot.fence, token))
            stages.append(with_slot(world, action.key, slot))
        if intent.state is State.DISPATCHING:
            intent = evolve(intent, state=State.UNKNOWN, in_doubt=True)
        lease = Lease(worker.name, token, world.now_ms + self._lease_ms(worker))
        permit = self.limits.permits is not None
        slot = evolve(slot, intent=intent, lease=lease, token_high=token, permit=permit)
        world = with_slot(world, action.key, slot)
        worker = evolve(
            worker,
            tokens=put(worker.tokens, action.key, token),
            results=put(worker.results, action.key, None),
        )
        return Taken((*stages, with_worker(world, action.worker, worker)), Outcome(Kind.OK, value=token))

    def _has_permit_left(self, world: World, key: int) -> bool:
        """Whether fewer *other* keys are in hand than there are permits.

        A lease that has run out holds none, though its permit has not come back yet: whoever is dead or asleep must
        not keep others from work. Nor does a send that is still on its way then: a permit bounds who may act.
        """
        permits = self.limits.permits
        if permits is None:
            return True
        others = (slot.lease for n, slot in enumerate(world.stores.slots) if n != key)
        return sum(lease is not None and world.now_ms < lease.expiry_ms for lease in others) < permits

    def _lease_ms(self, worker: Worker) -> int:
        return self.limits.other_lease_ms if worker.other_settings else self.limits.lease_ms

    def _holds(self, world: World, key: int, token: int) -> bool:
        """Whether the bearer of ``token`` may act on ``key`` now, as far as the fencing contract looks."""
        if self.contracts.fencing is not Fencing.SINK_AND_LEDGER:
            return True
        lease = world.stores.slots[key].lease
        return lease is not None and lease.token == token and world.now_ms < lease.expiry_ms

    def _is_newest(self, slot: Slot, token: int) -> bool:
        return self.contracts.fencing is not Fencing.SINK_AND_LEDGER or token == slot.token_high

    def _renew(self, world: World, action: Action) -> Taken:
        slot, worker = world.stores.slots[action.key], world.workers[action.worker]
        token = worker.tokens[action.key]
        if not self._holds(world, action.key, token) or slot.lease is None:
            return Taken((), refused("lease is gone"))
        lease = Lease(worker.name, token, world.now_ms + self._lease_ms(worker))
        return Taken((with_slot(world, action.key, evolve(slot, lease=lease)),), OK)

    def _release(self, world: World, action: Action) -> Taken:
        slot, worker = world.stores.slots[action.key], world.workers[action.worker]
        if not self._holds(world, action.key, worker.tokens[action.key]) or slot.lease is None:
            return Taken((), refused("lease is gone"))
        if slot.intent is not None and slot.intent.state is State.DISPATCHING:
            return Taken((), refused("a dispatch is in flight"))
        return Taken((with_slot(world, action.key, evolve(slot, lease=None, permit=False)),), OK)

    # -- dispatch ---------------------------------------------------------------------------------------------

    def _dispatch(self, world: World, action: Action) -> Taken:
        token = world.workers[action.worker].tokens[action.key]
        answer = self._may_send(world, action.key, token)
        if answer is not None:
            return self._turned_away(world, action, answer)
        sent = self._authorised(world, action.key)
        digest = _digest(world, action.key)
        landed, result = self._apply(sent, action.key, token, digest, Reply(action.choice))
        final = self._learn(landed, action.worker, action.key, result)
        return Taken((sent, final), Outcome(result.kind, result.reason, result.receipt))

    def _stall(self, world: World, action: Action) -> Taken:
        worker = world.workers[action.worker]
        answer = self._may_send(world, action.key, worker.tokens[action.key])
        if answer is not None:
            return self._turned_away(world, action, answer)
        world = self._authorised(world, action.key)
        return Taken(
            (
                with_worker(
                    world, action.worker, evolve(worker, stalled=action.key, sending=_digest(world, action.key))
                ),
            ),
            OK,
        )

    def _wake(self, world: World, action: Action) -> Taken:
        worker = world.workers[action.worker]
        key = worker.stalled
        world = with_worker(world, action.worker, evolve(worker, stalled=-1, sending=""))
        landed, result = self._apply(world, key, worker.tokens[key], worker.sending, Reply(action.choice))
        final = self._learn(landed, action.worker, key, result)
        return Taken((final,), Outcome(result.kind, result.reason, result.receipt))

    def _turned_away(self, world: World, action: Action, answer: Outcome) -> Taken:
        """Nothing is sent; a replay from the ledger is still news to the worker."""
        if answer.kind is not Kind.REPLAYED:
            return Taken((), answer)
        result = Result(answer.kind, answer.reason, answer.value)
        return Taken((self._learn(world, action.worker, action.key, result),), answer)

    def _may_send(self, world: World, key: int, token: int) -> Outcome | None:
        """None if the bearer of ``token`` may send now, else the answer that it gets instead."""
        slot = world.stores.slots[key]
        intent = slot.intent
        if intent is None:
            return refused("no such intent")
        if intent.state is State.COMPLETED and self.contracts.idempotency is not Idempotency.NONE:
            return Outcome(Kind.REPLAYED, value=intent.receipt)
        if intent.state in TERMINAL and intent.state is not State.COMPLETED:
            return refused("already ended")
        if not self._holds(world, key, token):
            return refused("lease is gone")
        if intent.cancel_requested:
            return refused("cancelled")
        if self.contracts.deadline is Deadline.ABSOLUTE and world.now_ms >= intent.deadline_ms:
            return refused("deadline has passed")
        if intent.attempts >= self.limits.max_attempts:
            return refused("no attempts left")
        return self._gate(world, slot, intent)

    def _gate(self, world: World, slot: Slot, intent: Intent) -> Outcome | None:
        approval = slot.approval
        if self.contracts.approval is ApprovalGate.ADVISORY:
            return None
        if approval is None:
            return refused("not approved")
        if approval.status not in {Grant.GRANTED, Grant.SPENT}:
            return refused(f"approval is {approval.status}")
        if self.contracts.approval is ApprovalGate.CALLER:
            return None
        if approval.digest != intent.digest:
            return refused("approval is for another payload")
        if world.now_ms >= approval.expiry_ms:
            return refused("approval has expired")
        if approval.revision != world.stores.revision:
            return refused("approval is for another policy revision")
        if approval.status is Grant.SPENT and intent.state not in IN_FLIGHT:
            return refused("approval is spent")
        return None

    def _authorised(self, world: World, key: int) -> World:
        slot = world.stores.slots[key]
        intent, approval = slot.intent, slot.approval
        assert intent is not None
        intent = evolve(
            intent,
            state=State.DISPATCHING,
            attempts=intent.attempts + 1,
            in_doubt=intent.in_doubt or intent.state in IN_FLIGHT,
        )
        if approval is not None and approval.status is Grant.GRANTED:
            approval = evolve(approval, status=Grant.SPENT)
        return with_slot(world, key, evolve(slot, intent=intent, approval=approval))

    def _apply(self, world: World, key: int, token: int, digest: str, reply: Reply) -> tuple[World, Result]:
        """The sink's side of a dispatch: what it does with the request, and what the worker gets to hear."""
        slot = world.stores.slots[key]
        intent = slot.intent
        assert intent is not None
        if reply is Reply.LOST:
            return world, Result(Kind.UNKNOWN, "no answer")
        slot = evolve(slot, calls=slot.calls + 1)
        if reply is Reply.TRANSIENT:
            return with_slot(world, key, slot), Result(Kind.ERROR, "transient")
        if self.contracts.fencing is Fencing.SINK_AND_LEDGER:
            if token < slot.fence:
                return with_slot(world, key, slot), Result(Kind.ERROR, "stale")
            fence = token
        else:
            fence = slot.fence
        if self.contracts.idempotency is Idempotency.SINK and slot.effects:
            if slot.effects[0].digest != digest:
                return with_slot(world, key, slot), Result(Kind.ERROR, "conflict")
            slot, result = evolve(slot, fence=fence), Result(Kind.REPLAYED, receipt=1)
        elif reply is Reply.PERMANENT:
            slot = evolve(slot, rejected=slot.rejected or slot.calls)
            return with_slot(world, key, slot), Result(Kind.ERROR, "permanent")
        elif self.contracts.deadline is Deadline.ABSOLUTE and world.now_ms >= intent.deadline_ms:
            return with_slot(world, key, slot), Result(Kind.ERROR, "late")
        else:
            effect = Effect(digest, token, world.now_ms)
            slot = evolve(slot, effects=(*slot.effects, effect), fence=fence)
            result = Result(Kind.OK, receipt=len(slot.effects))
        if reply is Reply.SILENT:
            result = Result(Kind.UNKNOWN, "no answer")
        return with_slot(world, key, slot), result

    def _learn(self, world: World, index: int, key: int, result: Result) -> World:
        worker = world.workers[index]
        receipt = result.receipt or worker.receipts[key]
        worker = evolve(
            worker,
            results=put(worker.results, key, result),
            receipts=put(worker.receipts, key, receipt),
        )
        return with_worker(world, index, worker)

    # -- what is recorded -------------------------------------------------------------------------------------

    def _acknowledge(self, world: World, action: Action) -> Taken:
        slot, worker = world.stores.slots[action.key], world.workers[action.worker]
        result, intent = worker.results[action.key], slot.intent
        assert result is not None
        if intent is None:
            return Taken((), refused("no such intent"))
        told = with_worker(world, action.worker, evolve(worker, results=put(worker.results, action.key, None)))
        if intent.state is State.COMPLETED and result.receipt:
            return Taken((told,), Outcome(Kind.REPLAYED, value=intent.receipt))
        if intent.state in TERMINAL:
            return Taken((), refused("already ended"))
        if not self._is_newest(slot, worker.tokens[action.key]):
            return Taken((), refused("lease is gone"))
        if result.receipt:
            slot = self._completed(slot, intent, result.receipt)
        elif intent.state not in IN_FLIGHT:
            return Taken((), refused("nothing in flight"))
        elif result.kind is Kind.UNKNOWN or intent.in_doubt:
            slot = evolve(slot, intent=evolve(intent, state=State.UNKNOWN, in_doubt=True))
        else:
            final = result.reason in {"permanent", "conflict"} and self.contracts.retry is Retry.TRANSIENT
            slot = self._settled(slot, intent, world.now_ms, final=final)
        return Taken((with_slot(told, action.key, slot),), OK)

    @staticmethod
    def _completed(slot: Slot, intent: Intent, receipt: int) -> Slot:
        intent = evolve(intent, state=State.COMPLETED, receipt=receipt, in_doubt=False)
        return evolve(slot, intent=intent, lease=None, permit=False)

    def _settled(self, slot: Slot, intent: Intent, now_ms: int, *, final: bool) -> Slot:
        """A slot of which it is known that it has no effect and that none is in flight.

        It ends for the first reason that there is; otherwise it waits for another attempt, and the approval that the
        last one spent is given back.
        """
        intent = evolve(intent, in_doubt=False)
        approval = slot.approval
        gated = self.contracts.approval is not ApprovalGate.ADVISORY
        if intent.cancel_requested:
            intent = evolve(intent, state=State.CANCELLED, cleaned=True)
        elif gated and approval is not None and approval.status is Grant.DENIED:
            intent = evolve(intent, state=State.DENIED)
        elif final or intent.attempts >= self.limits.max_attempts:
            intent = evolve(intent, state=State.FAILED)
        elif self.contracts.deadline is Deadline.ABSOLUTE and now_ms >= intent.deadline_ms:
            intent = evolve(intent, state=State.EXPIRED)
        else:
            intent = evolve(intent, state=State.PENDING)
            if approval is not None and approval.status is Grant.SPENT:
                approval = evolve(approval, status=Grant.GRANTED)
            return evolve(slot, intent=intent, approval=approval)
        return evolve(slot, intent=intent, lease=None, permit=False)

    def _checkpoint(self, world: World, action: Action) -> Taken:
        slot, worker = world.stores.slots[action.key], world.workers[action.worker]
        token = worker.tokens[action.key]
        if not self._is_newest(slot, token):
            return Taken((), refused("lease is gone"))
        progress = Progress(token, worker.receipts[action.key])
        if slot.progress == progress:
            return Taken((), Outcome(Kind.REPLAYED, value=progress.receipt))
        return Taken((with_slot(world, action.key, evolve(slot, progress=progress)),), OK)

    def _reconcile(self, world: World, action: Action) -> Taken:
        slot, worker = world.stores.slots[action.key], world.workers[action.worker]
        token = worker.tokens[action.key]
        intent = slot.intent
        if intent is None or intent.state not in IN_FLIGHT:
            return Taken((), refused("nothing in flight"))
        if not self._holds(world, action.key, token):
            return Taken((), refused("lease is gone"))
        if self.contracts.fencing is Fencing.SINK_AND_LEDGER:
            if token < slot.fence:
                return Taken((), refused("lease is gone"))
            slot = evolve(slot, fence=token)
        asked = with_slot(world, action.key, slot)
        receipt = next((n + 1 for n, e in enumerate(slot.effects) if e.digest == intent.digest), 0)
        if receipt:
            slot = self._completed(slot, intent, receipt)
            outcome = Outcome(Kind.REPLAYED, value=receipt)
        else:
            slot = self._settled(slot, intent, world.now_ms, final=bool(slot.effects))
            outcome = OK
        settled = with_slot(asked, action.key, slot)
        worker = evolve(
            worker,
            results=put(worker.results, action.key, None),
            receipts=put(worker.receipts, action.key, receipt or worker.receipts[action.key]),
        )
        return Taken((asked, with_worker(settled, action.worker, worker)), outcome)

    # -- recovery and the environment -------------------------------------------------------------------------

    def _overdue(self, slot: Slot, now_ms: int) -> bool:
        if slot.lease is not None:
            return now_ms >= slot.lease.expiry_ms
        if self.contracts.deadline is not Deadline.ABSOLUTE or slot.intent is None:
            return False
        return slot.intent.state is State.PENDING and now_ms >= slot.intent.deadline_ms

    @staticmethod
    def _stamp(slot: Slot) -> tuple[int, int]:
        return slot.token_high, slot.lease.expiry_ms if slot.lease else 0

    def _reap_read(self, world: World, action: Action) -> Taken:
        view = tuple(self._stamp(s) if self._overdue(s, world.now_ms) else None for s in world.stores.slots)
        worker = evolve(world.workers[action.worker], view=view)
        found = sum(v is not None for v in view)
        return Taken((with_worker(world, action.worker, worker),), Outcome(Kind.OK, value=found))

    def _reap_apply(self, world: World, action: Action) -> Taken:
        worker = world.workers[action.worker]
        slots = list(world.stores.slots)
        reaped = 0
        for key, seen in enumerate(worker.view or ()):
            slot = slots[key]
            if seen is None or self._stamp(slot) != seen or not self._overdue(slot, world.now_ms):
                continue
            intent = slot.intent
            assert intent is not None
            if intent.state is State.DISPATCHING:
                intent = evolve(intent, state=State.UNKNOWN, in_doubt=True)
            elif (
                intent.state is State.PENDING
                and self.contracts.deadline is Deadline.ABSOLUTE
                and world.now_ms >= intent.deadline_ms
            ):
                intent = evolve(intent, state=State.EXPIRED)
            slots[key] = evolve(slot, lease=None, intent=intent, permit=False)
            reaped += 1
        workers = put(world.workers, action.worker, evolve(worker, view=None))
        after = World(world.now_ms, Stores(world.stores.revision, tuple(slots)), workers)
        return Taken((after,), Outcome(Kind.OK, value=reaped))

    def _advance(self, world: World, action: Action) -> Taken:
        if action.choice == "tick":
            at_ms: int | None = world.now_ms + 1
        else:
            at_ms = instant(world.stores.slots[action.key], action.choice)
        now_ms = world.now_ms if at_ms is None else max(world.now_ms, at_ms)
        return Taken((World(now_ms, world.stores, world.workers),), OK)

    def _jump_wall(self, world: World, action: Action) -> Taken:
        worker = evolve(world.workers[action.worker], wall_offset_ms=WALL_OFFSETS_MS[action.choice])
        return Taken((with_worker(world, action.worker, worker),), OK)

    def _kill(self, world: World, action: Action) -> Taken:
        return Taken((dead(world, action.worker),), Outcome(Kind.KILLED))

    def _power_cut(self, world: World, action: Action) -> Taken:
        """Everybody dies. Whoever keeps what was acknowledged loses nothing: each answer came after a sync."""
        for index, worker in enumerate(world.workers):
            if worker.alive:
                world = dead(world, index)
        return Taken((world,), Outcome(Kind.KILLED))

    def _restart(self, world: World, action: Action) -> Taken:
        old = world.workers[action.worker]
        name = old.name
        if action.choice == "new-name":
            name = name.removesuffix("b") if name.endswith("b") else name + "b"
        worker = evolve(
            fresh_worker(name, self.keys),
            other_settings=action.choice == "other-settings",
            wall_offset_ms=old.wall_offset_ms,
        )
        return Taken((with_worker(world, action.worker, worker),), OK)


def _digest(world: World, key: int) -> str:
    intent = world.stores.slots[key].intent
    return intent.digest if intent else ""


def dead(world: World, index: int) -> World:
    """``world`` after the process of one worker died: what it knew is gone, what is stored is not."""
    old = world.workers[index]
    worker = evolve(
        fresh_worker(old.name, len(old.tokens)),
        alive=False,
        other_settings=old.other_settings,
        wall_offset_ms=old.wall_offset_ms,
    )
    return with_worker(world, index, worker)
