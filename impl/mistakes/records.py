"""Mistakes of what is written down: when, in how many transactions, and what is told about it."""

from __future__ import annotations

from impl.mistakes.registry import mistake
from impl.protocol import Answer, Permit
from impl.sqlite import Ledger, SqliteDispatcher
from impl.sqlite.rows import Entry
from model.words import Kind


@mistake(
    "M037",
    "K04",
    "An intent is marked as done when its attempt starts, so that it will not be done twice.",
    breaks="true-completion",
)
class DoneBeforeTheRun(Ledger):
    """A crash after the mark leaves a wish that nobody will fulfil."""

    AUTHORISE = "UPDATE intents SET state = 'completed', attempts = ?, in_doubt = ? WHERE key = ?"


@mistake(
    "M058",
    "K07",
    "A checkpoint that was refused is reported as saved.",
    breaks="conforms",
)
class RefusedSaveIsSuccess(SqliteDispatcher):
    """The worker goes on as if its progress were on disk."""

    def checkpoint(self, key: str, token: int, receipt: str) -> Answer:
        """Write the worker's progress down, and be content."""
        answer = super().checkpoint(key, token, receipt)
        return Answer(Kind.OK) if answer.kind is Kind.REFUSED else answer


@mistake(
    "M059",
    "K07",
    "A replay says that the work is done and comes without the receipt of it.",
    breaks="first-receipt",
)
class ReplayWithoutResult(Ledger):
    """A result that is at hand is treated as missing."""

    def _authorise(self, now_ms: int, key: str, token: int) -> Permit | Answer:
        answer = super()._authorise(now_ms, key, token)
        return Answer(Kind.REPLAYED) if isinstance(answer, Answer) and answer.kind is Kind.REPLAYED else answer


@mistake(
    "M126",
    "K22",
    "A helper that runs a script commits the transaction in the middle: the attempt is stored, its grant not spent.",
    breaks="valid-approval",
)
class ScriptCommitsInTheMiddle(Ledger):
    """What was to be one change is two, with a place to die in between."""

    def _count(self, entry: Entry) -> None:
        super()._count(entry)
        self._connection.executescript(self.BEGIN)
