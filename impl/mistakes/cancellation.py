"""Mistakes of the end: cancelling, and what must not happen after an intent has ended."""

from __future__ import annotations

from impl.mistakes.registry import mistake
from impl.protocol import Answer
from impl.sqlite import Ledger
from impl.sqlite.rows import Entry
from impl.sqlite.rules import Operation
from model.words import Kind


@mistake(
    "M035", "K03", "A cancellation that comes late changes an end that was reached before.", breaks="terminal-stays"
)
class EndNotAbsorbing(Ledger):
    """Whoever read the end of the story was told another one."""

    def _has_ended(self, entry: Entry, operation: Operation) -> bool:
        return operation != "cancel" and super()._has_ended(entry, operation)


@mistake(
    "M051",
    "K05",
    "A submission that was there before starts the intent again.",
    breaks="unknown-kept",
)
class DuplicateStartsAgain(Ledger):
    """A message that is delivered twice is worked on twice."""

    def _submit(self, now_ms: int, key: str, text: str, digest: str, deadline_ms: int | None = None) -> Answer:
        answer = super()._submit(now_ms, key, text, digest, deadline_ms)
        if answer.kind is Kind.REPLAYED:
            self._execute(self.END, ("pending", key))
        return answer


@mistake(
    "M107",
    "K16",
    "A cancellation that comes while an attempt is in flight is not stored, and the result of the attempt wins.",
    breaks="cancel-honoured",
)
class PendingCancelDropped(Ledger):
    """A cancellation and a result in one tick leave the result alone."""

    REQUEST_CANCEL = "UPDATE intents SET cancel_requested = 0 WHERE key = ?"


@mistake(
    "M111",
    "K16",
    "A cancellation is looked at when the key is claimed, and not before the effect is sent.",
    breaks="cancel-honoured",
)
class CancelNotAskedBeforeSend(Ledger):
    """An attempt follows a cancellation that was noted."""

    def _not_to_send(self, entry: Entry, now_ms: int) -> str:
        return super()._not_to_send(entry._replace(cancel_requested=0), now_ms)


@mistake("M114", "K16", "A second cancellation is an illegal change of state, and raises.", breaks="answers")
class SecondCancelRaises(Ledger):
    """Whoever retries a cancellation cannot know whether the first one arrived."""

    def _cancel(self, now_ms: int, key: str) -> Answer:
        answer = super()._cancel(now_ms, key)
        if answer.kind is Kind.REPLAYED:
            raise RuntimeError(f"{key} is cancelled and cannot be cancelled")
        return answer
