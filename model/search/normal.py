"""The normal form of a world: what may be forgotten of it because no later answer, row or promise depends on it.

Two worlds with one normal form answer every action alike and break the same promises, now and later. Each thing that
is forgotten says why below; ``tests/search/test_space.py`` holds all of it against the model itself, on random walks
under every contract.
"""

from __future__ import annotations

from attrs import evolve, frozen

from model.contracts import Cancellation, Contracts, Fencing, Idempotency, Limits
from model.words import (
    PAYLOADS,
    TERMINAL,
    Approval,
    Effect,
    Grant,
    Intent,
    Kind,
    Lease,
    Result,
    Slot,
    State,
    Stores,
    Worker,
    World,
)

NOW_MS = 1_000
"""The time in every normal form. Only differences of times are ever looked at; an instant that has passed stays
passed, so that each one in the past is as good as now."""
LATE_MS = 1_000_000_000
"""When an effect landed that broke the deadline: later than any deadline."""

TICK_LIMITS = Limits(lease_ms=1, other_lease_ms=1, approval_ms=1, deadline_ms=2, max_attempts=2)
"""Limits in ticks: enough to have each expiry come before, with and after each other one."""


@frozen
class Normal:
    """The normal form under given contracts and limits. Pure."""

    contracts: Contracts
    limits: Limits

    def world(self, world: World) -> World:
        """The normal form of a whole world."""
        shift_ms = NOW_MS - world.now_ms
        slots = tuple(self.slot(slot, shift_ms) for slot in world.stores.slots)
        views = [self._view(worker, world) for worker in world.workers]
        workers = tuple(
            evolve(self.worker(worker), view=view) for worker, view in zip(world.workers, views, strict=True)
        )
        return World(NOW_MS, Stores(world.stores.revision, slots), workers)

    def slot(self, slot: Slot, shift_ms: int = 0) -> Slot:
        """The normal form of one key's rows, whose times are moved by ``shift_ms``."""
        intent, lease, rejected = slot.intent, slot.lease, slot.rejected
        # A sink has had no more calls than attempts were counted, so that the bound on calls is the bound on attempts;
        # what is left to know is whether the rejected call was the last one.
        calls, rejected = ((1, 1) if rejected == slot.calls else (2, 1)) if rejected else (0, 0)
        # Nobody looks at an effect's token. Its time is compared with the deadline alone.
        effects = tuple(Effect(e.digest, 0, LATE_MS if _is_late(e, intent) else 0) for e in slot.effects)
        ended = intent is not None and self._has_ended(intent)
        return Slot(
            intent=None if intent is None else self._intent(intent, shift_ms, ended=ended),
            # No grant, denial or revocation is taken for an intent that has ended.
            approval=None if ended or slot.approval is None else self._approval(slot.approval, shift_ms),
            # A token is granted once, so that it tells the owner.
            lease=None if lease is None else Lease("", lease.token, max(NOW_MS, lease.expiry_ms + shift_ms)),
            token_high=slot.token_high,
            effects=effects,
            fence=slot.fence,
            calls=calls,
            rejected=rejected,
            progress=slot.progress,
        )

    def _has_ended(self, intent: Intent) -> bool:
        """Whether an intent is terminal, and no contract lets it be sent again."""
        reopens = self.contracts.idempotency is Idempotency.NONE and intent.state is State.COMPLETED
        return intent.state in TERMINAL and not reopens

    def _intent(self, intent: Intent, shift_ms: int, *, ended: bool) -> Intent:
        deadline_ms = max(NOW_MS, intent.deadline_ms + shift_ms)
        if not ended:
            return evolve(intent, deadline_ms=deadline_ms)
        # What has ended is not sent again: attempts and doubts are history. A send that is still frozen belongs to an
        # older token than the one that ended it, so that a fenced sink answers "stale" before it looks at the clock;
        # unless it was ended by force, which asks for no token.
        by_token = self.contracts.cancellation is Cancellation.DURABLE
        if by_token and self.contracts.fencing is Fencing.SINK_AND_LEDGER:
            deadline_ms = NOW_MS
        return evolve(intent, deadline_ms=deadline_ms, attempts=0, in_doubt=False, cancel_requested=False)

    def _approval(self, approval: Approval, shift_ms: int) -> Approval:
        expiry_ms = max(NOW_MS, approval.expiry_ms + shift_ms)
        newest_ms = NOW_MS + self.limits.approval_ms
        if approval.status is Grant.DENIED:
            expiry_ms, is_open = newest_ms, False  # a denial does not run out
        elif approval.status is Grant.REVOKED:
            # It matters only whether it is this instant's grant, which is not given twice.
            is_open = expiry_ms == newest_ms
            expiry_ms = expiry_ms if is_open else newest_ms - 1
        else:
            is_open = expiry_ms > NOW_MS
        if is_open:
            return evolve(approval, expiry_ms=expiry_ms)
        # It opens no bound gate, and a gate that is not bound asks for none of what is forgotten here.
        return Approval(
            PAYLOADS[0], self.limits.approvers[0], expiry_ms, 1, approval.status, authentic=approval.authentic
        )

    def worker(self, worker: Worker) -> Worker:
        """The normal form of what a worker knows, its view left out."""
        # No answer names a worker; no promise looks at a wall clock; a dead worker's settings go with it.
        other = worker.other_settings and worker.alive and self.limits.other_lease_ms != self.limits.lease_ms
        return Worker(
            "",
            worker.tokens,
            tuple(None if r is None else _result(r) for r in worker.results),
            worker.receipts,
            alive=worker.alive,
            stalled=worker.stalled,
            sending=worker.sending,
            other_settings=other,
        )

    def _view(self, worker: Worker, world: World) -> tuple[tuple[int, int] | None, ...] | None:
        """What a worker saw overdue and what still is, unchanged.

        Rows that changed never come back to what was seen, and what ceased to be overdue does not become so again
        without such a change: that part of a view clears nothing for ever. A view without anything else is none.
        """
        if worker.view is None:
            return None
        view = tuple(
            stamp(self.slot(slot, NOW_MS - world.now_ms))
            if seen == stamp(slot) and self._overdue(slot, world)
            else None
            for seen, slot in zip(worker.view, world.stores.slots, strict=True)
        )
        return view if any(view) else None

    def _overdue(self, slot: Slot, world: World) -> bool:
        if slot.lease is not None:
            return world.now_ms >= slot.lease.expiry_ms
        # Seen overdue with these very stamps, it is still overdue as long as it waits.
        return slot.intent is not None and slot.intent.state is State.PENDING


def stamp(slot: Slot) -> tuple[int, int]:
    """What a reaper remembers of a slot: the newest token, and the lease's expiry in milliseconds, 0 without one."""
    return slot.token_high, slot.lease.expiry_ms if slot.lease else 0


def _is_late(effect: Effect, intent: Intent | None) -> bool:
    return intent is not None and effect.at_ms >= intent.deadline_ms


def _result(result: Result) -> Result:
    """An answer as the ledger will take it: a receipt, nothing, "later", "never", or "not by you"."""
    if result.receipt:
        return Result(Kind.OK, receipt=result.receipt)
    if result.kind is not Kind.ERROR:
        return Result(result.kind)
    reason = {"transient": "transient", "permanent": "permanent", "conflict": "permanent"}.get(result.reason, "stale")
    return Result(Kind.ERROR, reason)
