"""Mistakes about what nobody knows: a silence, a death, a late word."""

from __future__ import annotations

from impl.mistakes.registry import mistake
from impl.protocol import Answer, SinkAnswer
from impl.sqlite import Ledger, SqliteDispatcher
from impl.sqlite.rows import Entry
from model.words import Kind, State


@mistake("M005", "K02", "A completion is recorded whatever token it comes with.", breaks="no-stale-token")
class AcknowledgeIgnoresToken(Ledger):
    """A former owner's word is written over its successor's work."""

    def _may_acknowledge(self, entry: Entry, token: int) -> bool:
        return True


@mistake(
    "M034",
    "K03",
    "A definite answer to the attempt at hand is applied to the one before it, which is still in doubt.",
    breaks="unknown-kept",
)
class AnswerOfAnotherAttempt(Ledger):
    """That the second attempt did not act says nothing about the first."""

    def _count(self, entry: Entry) -> None:
        self._execute(self.AUTHORISE, (self._attempts_counted(entry), 0, entry.key))


@mistake(
    "M038",
    "K07",
    "What was sent is marked as done when the send returns, whatever the sink said.",
    breaks="true-completion",
)
class SentIsDone(SqliteDispatcher):
    """A refusal is taken for a receipt."""

    def understood(self, answer: SinkAnswer) -> Answer:
        """Take anything for done."""
        return Answer(Kind.OK, receipt=answer.receipt or "sent")


@mistake(
    "M039",
    "K05",
    "An attempt whose worker died is put back to be run again, as if it had not been sent.",
    breaks="unknown-kept",
)
class BlindRerun(Ledger):
    """A crash between effect and record looks like a crash before the effect."""

    def _doubt_lost_attempt(self, entry: Entry) -> None:
        if entry.state == State.DISPATCHING:
            self._execute(self.END, (State.PENDING.value, entry.key))


@mistake("M042", "K04", "The death of a worker is taken for a refusal by the sink.", breaks="unknown-kept")
class DeathIsAnAnswer(Ledger):
    """Somebody waited for an answer, and took the end of the wait for one."""

    def _doubt_lost_attempt(self, entry: Entry) -> None:
        if entry.state == State.DISPATCHING:
            self._execute(self.END, (State.FAILED.value, entry.key))


@mistake(
    "M044",
    "K10",
    "An attempt that ends without an answer deletes the record of its key.",
    breaks="intent-kept",
)
class ErrorForgetsKey(Ledger):
    """The clean-up after an exception forgets that there was an effect."""

    DOUBT = "DELETE FROM intents WHERE key = ?"


@mistake("M045", "K13", "A timeout is stored as a definite failure.", breaks="unknown-kept")
class TimeoutIsFailure(SqliteDispatcher):
    """Silence is taken for a no."""

    after_silence = Answer(Kind.ERROR, "permanent")


@mistake(
    "M046",
    "K13",
    "A cancellation compensates at once, while the outcome of an attempt is unknown.",
    breaks="unknown-kept",
)
class CompensatesTheUnknown(Ledger):
    """What is undone may not have happened yet, and happens afterwards."""

    def _cancel(self, now_ms: int, key: str) -> Answer:
        answer = super()._cancel(now_ms, key)
        if answer.kind is Kind.UNKNOWN:
            self._execute(self.CANCEL, (key,))
            self._end_lease(key, "cancel")
        return answer


@mistake("M108", "K15", "The timeout of one attempt is read as the end of the deadline.", breaks="unknown-kept")
class TimeoutIsDeadline(Ledger):
    """An inner limit is taken for the outer one."""

    DOUBT = "UPDATE intents SET state = 'expired' WHERE key = ?"


@mistake(
    "M110",
    "K17",
    "The late result of an attempt that was given up is written to the checkpoint as that of the one that took over.",
    breaks="no-stale-token",
)
class LateResultAccepted(Ledger):
    """A result is matched to its key, and not to its attempt."""

    def _may_checkpoint(self, entry: Entry, token: int) -> bool:
        return True
