"""The ledger's rules: what is allowed, one rule a method, each a pure function of the rows, the time and the caller.

Nothing here reads or writes. Where a rule serves several operations it is told which one asks.
"""

from __future__ import annotations

import json
from typing import Literal

import rfc8785

from impl.approvals import digest_of, is_authentic
from impl.protocol import Answer, Decision, Json, Overdue, Request, Site
from impl.sqlite.rows import Entry
from model.contracts import ApprovalGate, Cancellation, Deadline, Fencing, Idempotency, Retry
from model.words import IN_FLIGHT, TERMINAL, Grant, Kind, State

Operation = Literal["decide", "cancel", "claim", "renew", "release", "dispatch", "acknowledge", "reconcile", "reap"]
"""Who asks a rule. ``checkpoint`` has only one question and one asker."""

_OPEN = frozenset({Grant.GRANTED, Grant.SPENT})
_FINAL_REASONS = frozenset({"permanent", "conflict"})


class Rules:
    """What the contracts and the limits of one site allow."""

    def __init__(self, site: Site) -> None:
        contracts = site.contracts
        self.site = site
        self.limits = site.limits
        self._fenced = contracts.fencing is Fencing.SINK_AND_LEDGER
        self._leases_bar_claims = contracts.fencing is not Fencing.NONE
        self._remembers = contracts.idempotency is not Idempotency.NONE
        self._has_deadline = contracts.deadline is Deadline.ABSOLUTE
        self._errors_can_be_final = contracts.retry is Retry.TRANSIENT
        self._cancels_by_force = contracts.cancellation is Cancellation.FORCEFUL
        self._approvals_are_bound = contracts.approval is ApprovalGate.BOUND
        self._approvals_are_asked_for = contracts.approval is not ApprovalGate.ADVISORY
        self._is_limited = site.limits.permits is not None

    # -- payloads ---------------------------------------------------------------------------------------------

    def _digest(self, payload: Json) -> str:
        return digest_of(payload)

    def _text(self, payload: Json) -> str:
        return rfc8785.dumps(payload).decode()

    def _is_same_payload(self, entry: Entry, digest: str) -> bool:
        return entry.digest == digest

    def _may_change_payload(self, entry: Entry) -> bool:
        return not self._remembers and entry.state == State.PENDING

    # -- states -----------------------------------------------------------------------------------------------

    def _has_ended(self, entry: Entry, operation: Operation) -> bool:
        """Whether the intent's state is terminal, and so can never change again."""
        return entry.state in TERMINAL

    def _is_in_flight(self, entry: Entry, operation: Operation) -> bool:
        return entry.state in IN_FLIGHT

    def _is_answered(self, entry: Entry) -> bool:
        """Whether a dispatch is answered from the ledger, with the receipt that there is."""
        return entry.state == State.COMPLETED and self._remembers

    def _reopens(self, entry: Entry) -> bool:
        """Whether a completed intent is done again, because nobody notices that it was done."""
        return entry.state == State.COMPLETED and not self._remembers

    # -- leases and tokens ------------------------------------------------------------------------------------

    def _next_token(self, entry: Entry) -> int:
        return entry.token_high + 1

    def _lease_is_valid(self, entry: Entry, now_ms: int, operation: Operation) -> bool:
        return entry.lease_token > 0 and now_ms < entry.lease_expiry_ms

    def _is_lease_token(self, entry: Entry, token: int, operation: Operation) -> bool:
        return entry.lease_token == token

    def _bars_claim(self, entry: Entry, now_ms: int) -> bool:
        return self._leases_bar_claims and self._lease_is_valid(entry, now_ms, "claim")

    def _permits_suffice(self, taken_by_others: int) -> bool:
        return self.limits.permits is None or taken_by_others < self.limits.permits

    def _must_tell_sink(self, entry: Entry) -> bool:
        """Whether a former owner may have a send in flight, which the sink must refuse before the key is granted."""
        return self._fenced and self._is_in_flight(entry, "claim")

    def _holds(self, entry: Entry, token: int, now_ms: int, operation: Operation) -> bool:
        """Whether the bearer of ``token`` may act on the key now, as far as the fencing contract looks."""
        if not self._fenced:
            return True
        return self._is_lease_token(entry, token, operation) and self._lease_is_valid(entry, now_ms, operation)

    def _may_acknowledge(self, entry: Entry, token: int) -> bool:
        """A lease that ran out is no obstacle, a newer grant is: what happened is true whoever tells it late."""
        return not self._fenced or token == entry.token_high

    def _may_checkpoint(self, entry: Entry, token: int) -> bool:
        return not self._fenced or token == entry.token_high

    def _lease_expiry_ms(self, now_ms: int) -> int:
        return now_ms + self.site.lease_ms

    # -- attempts, deadline, cancellation ---------------------------------------------------------------------

    def _attempts_counted(self, entry: Entry) -> int:
        """The attempts with the coming one, stored before it is sent."""
        return entry.attempts + 1

    def _has_attempts_left(self, entry: Entry) -> bool:
        return entry.attempts < self.limits.max_attempts

    def _deadline_ms(self, now_ms: int) -> int:
        return now_ms + self.limits.deadline_ms

    def _is_past_deadline(self, entry: Entry, now_ms: int, operation: Operation) -> bool:
        return self._has_deadline and now_ms >= entry.deadline_ms

    def _is_cancelled(self, entry: Entry) -> bool:
        return bool(entry.cancel_requested)

    def _is_final(self, answer: Answer) -> bool:
        """Whether the sink's "no" is one that no further attempt will change."""
        return self._errors_can_be_final and answer.reason in _FINAL_REASONS

    def _says_nothing(self, answer: Answer) -> bool:
        """Whether the answer leaves open what happened: all but a receipt and a definite "no" do."""
        return answer.kind != Kind.ERROR

    def _end(self, entry: Entry, now_ms: int, operation: Operation, *, final: bool) -> State:
        """What becomes of an intent with no effect and none in flight: the first end that there is a reason for."""
        if self._is_cancelled(entry):
            return State.CANCELLED
        if self._approvals_are_asked_for and entry.approval_status == Grant.DENIED:
            return State.DENIED
        if final or not self._has_attempts_left(entry):
            return State.FAILED
        if self._is_past_deadline(entry, now_ms, operation):
            return State.EXPIRED
        return State.PENDING

    # -- what is sent -----------------------------------------------------------------------------------------

    def _sink_key(self, entry: Entry) -> str:
        return entry.key

    def _sent_payload(self, entry: Entry) -> Json:
        payload: Json = json.loads(entry.payload)
        return payload

    def _not_after_ms(self, entry: Entry) -> int | None:
        return entry.deadline_ms if self._has_deadline else None

    def _request(self, entry: Entry, token: int) -> Request:
        return Request(self._sink_key(entry), self._sent_payload(entry), token, self._not_after_ms(entry))

    # -- approvals at the door --------------------------------------------------------------------------------

    def _approver_may_approve(self, approver: str) -> bool:
        return approver in self.limits.approvers

    def _is_signed(self, decision: Decision) -> bool:
        return is_authentic(decision, self.site.approver_keys)

    def _objection(self, decision: Decision) -> str:
        """Why a decision is not even stored; empty if it is."""
        if not self._approvals_are_bound:
            return ""
        if not self._approver_may_approve(decision.approver):
            return "not an approver"
        if not self._is_signed(decision):
            return "signature does not match"
        return ""

    def _is_same_decision(self, entry: Entry, decision: Decision) -> bool:
        """Whether the ledger has this very decision: handed in again, it opens nothing that was spent or revoked."""
        return entry.approval_status != "" and entry.signature == decision.signature

    def _is_older_decision(self, entry: Entry, decision: Decision) -> bool:
        """Whether the ledger has a later one, so that this may be one that was spent before it."""
        return entry.approval_status != "" and decision.expiry_ms < entry.approval_expiry_ms

    # -- approvals at the gate --------------------------------------------------------------------------------

    def _approval_is_open(self, entry: Entry) -> bool:
        return entry.approval_status in _OPEN

    def _approval_fits_payload(self, entry: Entry) -> bool:
        return entry.approval_digest == entry.digest

    def _approval_is_in_time(self, entry: Entry, now_ms: int) -> bool:
        return now_ms < entry.approval_expiry_ms

    def _approval_fits_policy(self, entry: Entry) -> bool:
        return entry.approval_revision == entry.revision

    def _approval_is_unspent(self, entry: Entry) -> bool:
        """Spent by this very operation is not spent: an attempt in flight may be repeated."""
        return entry.approval_status != Grant.SPENT or entry.state in IN_FLIGHT

    def _stored_approval_is_authentic(self, entry: Entry) -> bool:
        """Checked again at the gate, as rows may be written by others than ``decide``."""
        decision = Decision(
            key=entry.key,
            digest=entry.approval_digest,
            approver=entry.approver,
            verdict="grant",
            expiry_ms=entry.approval_expiry_ms,
            revision=entry.approval_revision,
            signature=entry.signature,
        )
        return self._approver_may_approve(entry.approver) and self._is_signed(decision)

    def _gate(self, entry: Entry, now_ms: int) -> str:
        """Why the approval does not open the gate; empty if it does."""
        if not self._approvals_are_asked_for:
            return ""
        if not self._approval_is_open(entry):
            return f"approval is {entry.approval_status}" if entry.approval_status else "not approved"
        if not self._approvals_are_bound:
            return ""
        if not self._approval_fits_payload(entry):
            return "approval is for another payload"
        if not self._approval_is_in_time(entry, now_ms):
            return "approval has expired"
        if not self._approval_fits_policy(entry):
            return "approval is for another policy revision"
        if not self._approval_is_unspent(entry):
            return "approval is spent"
        if not self._stored_approval_is_authentic(entry):
            return "approval is not authentic"
        return ""

    def _spends(self, entry: Entry) -> bool:
        return entry.approval_status == Grant.GRANTED

    def _gives_back(self, entry: Entry) -> bool:
        """Whether an approval that was spent on nothing may be used again."""
        return entry.approval_status == Grant.SPENT

    # -- reaping ----------------------------------------------------------------------------------------------

    def _is_overdue(self, entry: Entry, now_ms: int) -> bool:
        if entry.lease_token:
            return not self._lease_is_valid(entry, now_ms, "reap")
        return entry.state == State.PENDING and self._is_past_deadline(entry, now_ms, "reap")

    def _is_as_seen(self, entry: Entry, seen: Overdue) -> bool:
        """Whether what looked overdue is still the same lease: a renewal or a newer grant must not be reaped."""
        return entry.token_high == seen.token and entry.lease_expiry_ms == seen.expiry_ms
