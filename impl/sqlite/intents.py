"""The clients' side of the ledger: submit, decide, cancel, and the policy."""

from __future__ import annotations

import json
from typing import ClassVar, Final

from rfc8785 import CanonicalizationError

from impl.protocol import Answer, Decision, Json
from impl.sqlite.book import ENDED, NO_INTENT, NOTED, OK, Book, refused
from model.words import Grant, Kind, State

CHANGED_PAYLOAD: Final = refused("another payload holds the key")


class Intents(Book):
    """What clients and approvers ask of the ledger."""

    SUBMIT: ClassVar[str] = (
        "INSERT INTO intents (key, digest, payload, deadline_ms, state) VALUES (?, ?, ?, ?, 'pending')"
    )
    CHANGE_PAYLOAD: ClassVar[str] = "UPDATE intents SET digest = ?, payload = ? WHERE key = ?"
    STORE_APPROVAL: ClassVar[str] = (
        "INSERT OR REPLACE INTO approvals (key, digest, approver, expiry_ms, revision, status, signature) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)"
    )
    REQUEST_CANCEL: ClassVar[str] = "UPDATE intents SET cancel_requested = 1 WHERE key = ?"
    CANCEL: ClassVar[str] = "UPDATE intents SET state = 'cancelled', cleaned = 1 WHERE key = ?"
    CANCEL_BY_FORCE: ClassVar[str] = "UPDATE intents SET state = 'cancelled' WHERE key = ?"
    SET_POLICY: ClassVar[str] = "UPDATE meta SET revision = ?"

    # -- submit -----------------------------------------------------------------------------------------------

    def submit(self, key: str, payload: Json, deadline_ms: int | None = None) -> Answer:
        """Store an intent. OK, REPLAYED for the same payload, REFUSED for another or for what is not JSON.

        ``deadline_ms`` is an instant that its client will not wait beyond: it can bring the deadline of a new intent
        forward, and changes nothing about one that is there.
        """
        try:
            text, digest = self._text(payload), self._digest(payload)
            self._digest(json.loads(text))  # what is sent is read back from the text: 1e20 comes back as no float
        except CanonicalizationError as error:
            return refused(f"payload is not canonical JSON: {error}")
        return self._operate(self._submit, key, text, digest, deadline_ms)

    def _submit(self, now_ms: int, key: str, text: str, digest: str, deadline_ms: int | None = None) -> Answer:
        entry = self._entry(key)
        if entry is None:
            limit_ms = self._deadline_ms(now_ms)
            end_ms = limit_ms if deadline_ms is None else min(limit_ms, deadline_ms)
            self._execute(self.SUBMIT, (key, digest, text, end_ms))
            return OK
        if self._is_same_payload(entry, digest):
            return Answer(Kind.REPLAYED, receipt=entry.receipt)
        if not self._may_change_payload(entry):
            return CHANGED_PAYLOAD
        self._execute(self.CHANGE_PAYLOAD, (digest, text, key))
        return OK

    # -- decide -----------------------------------------------------------------------------------------------

    def decide(self, decision: Decision) -> Answer:
        """Store an approver's word. UNKNOWN where it may come too late."""
        objection = self._objection(decision)
        if objection:
            return refused(objection)
        match decision.verdict:
            case "grant":
                return self._operate(self._grant, decision)
            case "deny":
                return self._operate(self._deny, decision)
            case "revoke":
                return self._operate(self._revoke, decision)
            case other:
                return refused(f"verdict {other!r} is none of grant, deny, revoke")

    def _grant(self, now_ms: int, decision: Decision) -> Answer:
        entry = self._entry(decision.key)
        if entry is None:
            return NO_INTENT
        if self._has_ended(entry, "decide"):
            return ENDED
        if entry.approval_status == Grant.DENIED:
            return refused("denied before")
        if self._is_same_decision(entry, decision):
            return Answer(Kind.REPLAYED)
        if self._is_older_decision(entry, decision):
            return refused("a later decision is at hand")
        self._store(decision, Grant.GRANTED)
        return OK

    def _deny(self, now_ms: int, decision: Decision) -> Answer:
        entry = self._entry(decision.key)
        if entry is None or self._has_ended(entry, "decide"):
            return refused("nothing to deny")
        self._store(decision, Grant.DENIED)
        if self._is_in_flight(entry, "decide") or not self._approvals_are_asked_for:
            return NOTED
        self._execute(self.END, (State.DENIED.value, entry.key))
        self._end_lease(entry.key, "decide")
        return OK

    def _revoke(self, now_ms: int, decision: Decision) -> Answer:
        entry = self._entry(decision.key)
        if entry is None or self._has_ended(entry, "decide"):
            return refused("nothing to revoke")
        if not self._approval_is_open(entry):
            return refused("no grant to revoke")
        self._execute(self.SET_APPROVAL, (Grant.REVOKED.value, entry.key))
        return OK

    def _store(self, decision: Decision, status: Grant) -> None:
        self._execute(
            self.STORE_APPROVAL,
            (
                decision.key,
                decision.digest,
                decision.approver,
                decision.expiry_ms,
                decision.revision,
                status.value,
                decision.signature,
            ),
        )

    # -- policy -----------------------------------------------------------------------------------------------

    def policy_revision(self) -> int:
        """The policy revision in force. Raises a StoreError, as there is no answer to refuse with."""
        return self._transact(self._policy_revision)

    def _policy_revision(self, now_ms: int) -> int:
        revision: int = self._look("SELECT revision FROM meta")[0]
        return revision

    def set_policy(self, revision: int) -> Answer:
        """Put a policy revision into force; an older one is refused, as it would bring old approvals back."""
        return self._operate(self._set_policy, revision)

    def _set_policy(self, now_ms: int, revision: int) -> Answer:
        if revision < self._policy_revision(now_ms):
            return refused("policy revisions only rise")
        self._execute(self.SET_POLICY, (revision,))
        return Answer(Kind.OK, count=revision)

    # -- cancel -----------------------------------------------------------------------------------------------

    def cancel(self, key: str) -> Answer:
        """Cancel for good. UNKNOWN where an effect may be under way: it is settled when that is known."""
        return self._operate(self._cancel, key)

    def _cancel(self, now_ms: int, key: str) -> Answer:
        entry = self._entry(key)
        if entry is None:
            return NO_INTENT
        if entry.state == State.CANCELLED:
            return Answer(Kind.REPLAYED)
        if self._has_ended(entry, "cancel"):
            return ENDED
        if self._cancels_by_force:
            self._execute(self.CANCEL_BY_FORCE, (key,))
            return OK
        if self._is_in_flight(entry, "cancel"):
            if not entry.cancel_requested:
                self._execute(self.REQUEST_CANCEL, (key,))
            return NOTED
        self._execute(self.CANCEL, (key,))
        self._end_lease(key, "cancel")
        return OK
