"""The ledger's side of an attempt: authorise it, record what came of it, settle what is not known."""

from __future__ import annotations

from typing import ClassVar, Final

from impl.protocol import Answer, Permit, Request, SinkAnswer, Verdict
from impl.runner.ending import Standing
from impl.sqlite.book import ENDED, LEASE_GONE, NO_ANSWER, NO_INTENT, OK, Book, refused
from impl.sqlite.rows import Entry
from impl.sqlite.rules import Operation
from model.words import Grant, Kind, State

NOTHING_IN_FLIGHT: Final = refused("nothing in flight")

_FOUND = frozenset({Verdict.DONE, Verdict.REPLAYED})
_NOT_FOUND = frozenset({Verdict.ABSENT, Verdict.CONFLICT})


class Attempts(Book):
    """What is known of each attempt. It is counted, and its approval spent, before it is sent."""

    AUTHORISE: ClassVar[str] = "UPDATE intents SET state = 'dispatching', attempts = ?, in_doubt = ? WHERE key = ?"
    COMPLETE: ClassVar[str] = "UPDATE intents SET state = 'completed', receipt = ?, in_doubt = 0 WHERE key = ?"
    SETTLE: ClassVar[str] = "UPDATE intents SET state = ?, cleaned = ?, in_doubt = 0 WHERE key = ?"

    def standing(self, key: str) -> Standing | Answer:
        """Where an intent stands now; an answer if there is none, or if nobody can say."""
        return self._operate(self._standing, key)

    def _standing(self, now_ms: int, key: str) -> Standing | Answer:
        entry = self._entry(key)
        if entry is None:
            return NO_INTENT
        return Standing(State(entry.state), entry.receipt, entry.attempts, self._not_after_ms(entry))

    # -- before the send --------------------------------------------------------------------------------------

    def authorise(self, key: str, token: int) -> Permit | Answer:
        """The permit to send once, or the answer that the worker gets instead."""
        return self._operate(self._authorise, key, token)

    def _authorise(self, now_ms: int, key: str, token: int) -> Permit | Answer:
        entry = self._entry(key)
        if entry is None:
            return NO_INTENT
        if self._is_answered(entry):
            return Answer(Kind.REPLAYED, receipt=entry.receipt)
        if self._has_ended(entry, "dispatch") and not self._reopens(entry):
            return ENDED
        if not self._holds(entry, token, now_ms, "dispatch"):
            return LEASE_GONE
        objection = self._not_to_send(entry, now_ms) or self._gate(entry, now_ms)
        if objection:
            return refused(objection)
        self._count(entry)
        self._spend(entry)
        return Permit(self._request(entry, token))

    def _not_to_send(self, entry: Entry, now_ms: int) -> str:
        """Why no attempt may start, whatever was approved; empty if one may."""
        if self._is_cancelled(entry):
            return "cancelled"
        if self._is_past_deadline(entry, now_ms, "dispatch"):
            return "deadline has passed"
        if not self._has_attempts_left(entry):
            return "no attempts left"
        return ""

    def _count(self, entry: Entry) -> None:
        in_doubt = entry.in_doubt or int(self._is_in_flight(entry, "dispatch"))
        self._execute(self.AUTHORISE, (self._attempts_counted(entry), in_doubt, entry.key))

    def _spend(self, entry: Entry) -> None:
        if self._spends(entry):
            self._execute(self.SET_APPROVAL, (Grant.SPENT.value, entry.key))

    # -- after it ---------------------------------------------------------------------------------------------

    def acknowledge(self, key: str, token: int, answer: Answer) -> Answer:
        """Record what a dispatch answered."""
        return self._operate(self._acknowledge, key, token, answer)

    def _acknowledge(self, now_ms: int, key: str, token: int, answer: Answer) -> Answer:
        entry = self._entry(key)
        if entry is None:
            return NO_INTENT
        if entry.state == State.COMPLETED and answer.receipt:
            return Answer(Kind.REPLAYED, receipt=entry.receipt)
        if self._has_ended(entry, "acknowledge"):
            return ENDED
        if not self._may_acknowledge(entry, token):
            return LEASE_GONE
        if answer.receipt:
            self._complete(entry, answer.receipt, "acknowledge")
        elif not self._is_in_flight(entry, "acknowledge"):
            return NOTHING_IN_FLIGHT
        elif self._says_nothing(answer) or entry.in_doubt:
            self._execute(self.DOUBT, (key,))
        else:
            self._settle(entry, now_ms, "acknowledge", final=self._is_final(answer))
        return OK

    def _complete(self, entry: Entry, receipt: str, operation: Operation) -> None:
        self._execute(self.COMPLETE, (receipt, entry.key))
        if entry.lease_token:
            self._end_lease(entry.key, operation)

    def _settle(self, entry: Entry, now_ms: int, operation: Operation, *, final: bool) -> None:
        """End an intent that has no effect and none in flight, or let it wait for another attempt."""
        state = self._end(entry, now_ms, operation, final=final)
        cleaned = 1 if state is State.CANCELLED else entry.cleaned
        self._execute(self.SETTLE, (state.value, cleaned, entry.key))
        if state is not State.PENDING:
            if entry.lease_token:
                self._end_lease(entry.key, operation)
        elif self._gives_back(entry):
            self._execute(self.SET_APPROVAL, (Grant.GRANTED.value, entry.key))

    # -- when nobody knows ------------------------------------------------------------------------------------

    def doubtful(self, key: str, token: int) -> Request | Answer:
        """What to ask the sink about, or the answer that the worker gets instead."""
        return self._operate(self._doubtful, key, token)

    def _doubtful(self, now_ms: int, key: str, token: int) -> Request | Answer:
        found = self._reconcilable(now_ms, key, token)
        return found if isinstance(found, Answer) else self._request(found, token)

    def _reconcilable(self, now_ms: int, key: str, token: int) -> Entry | Answer:
        entry = self._entry(key)
        if entry is None or not self._is_in_flight(entry, "reconcile"):
            return NOTHING_IN_FLIGHT
        if not self._holds(entry, token, now_ms, "reconcile"):
            return LEASE_GONE
        return entry

    def reconcile(self, key: str, token: int, found: SinkAnswer, *, final: bool = False) -> Answer:
        """Settle an unknown outcome by what the sink said; the guards are checked again, as time has passed.

        ``final`` says that the sink has refused the operation for good: where there is no effect, there will be none.
        """
        if found.verdict is Verdict.STALE:
            return LEASE_GONE
        if found.verdict in _NOT_FOUND or (found.verdict in _FOUND and found.receipt):
            return self._operate(self._reconcile, key, token, found, final)
        return NO_ANSWER

    def _reconcile(self, now_ms: int, key: str, token: int, found: SinkAnswer, final: bool) -> Answer:
        entry = self._reconcilable(now_ms, key, token)
        if isinstance(entry, Answer):
            return entry
        if found.verdict in _FOUND:
            self._complete(entry, found.receipt, "reconcile")
            return Answer(Kind.REPLAYED, receipt=found.receipt)
        # Another payload's effect under this key: no further attempt can succeed.
        self._settle(entry, now_ms, "reconcile", final=final or found.verdict is Verdict.CONFLICT)
        return OK
