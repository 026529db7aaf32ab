"""Mistakes about a store that is busy, full, failing or damaged, and about what a commit that failed has left.

Where nothing fails they do nothing wrong, so that an engine which leaves storage alone passes all of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate

from impl.mistakes.registry import mistake
from impl.protocol import Answer
from impl.sqlite import CheckpointFile, DamagedStoreError, Ledger, SqliteDispatcher, UnavailableStoreError
from impl.sqlite.store import P, T, is_busy, roll_back
from model.contracts import Durability
from model.words import Kind


@mistake(
    "M124",
    "K22",
    "A commit that finds a lock taken is given up, and answered as if it had been done.",
    breaks="intent-kept",
    shown_by="faults",
)
class BusyCommitSwallowed(Ledger):
    """Somebody reads, and what was acknowledged meanwhile is nowhere."""

    def _commit(self) -> None:
        try:
            super()._commit()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            roll_back(self._connection)


@mistake(
    "M125",
    "K22",
    "An answer that the store would not take is asked for again, by sending the effect once more.",
    breaks="refusal-changes-nothing",
    shown_by="faults",
)
class FailedRecordIsRerun(SqliteDispatcher):
    """The trouble is with the record, and the effect pays for it."""

    def acknowledge(self, key: str, token: int, answer: Answer) -> Answer:
        """Record what the dispatch answered, or dispatch again."""
        recorded = super().acknowledge(key, token, answer)
        if recorded.reason.startswith("ledger.sqlite3: "):
            self.dispatch(key, token)
        return recorded


@mistake(
    "M127",
    "K22",
    "A store that was opened before a fork is used on in the child.",
    breaks="conforms",
    shown_by="faults",
)
class HandleCarriedOverFork(Ledger):
    """Two processes believe that one handle, and its locks, are theirs."""

    def _refuse_fork(self) -> None:
        """Nobody asks who opened the file."""


@mistake(
    "M128",
    "K22",
    "An item for which the disk has no room is marked as done in memory, and answered so.",
    breaks="intent-kept",
    shown_by="faults",
)
class FullDiskIsDone(Ledger):
    """The work goes on, and its record is gone with the process."""

    def _operate(self, work: Callable[Concatenate[int, P], T], *args: P.args, **kwargs: P.kwargs) -> T | Answer:
        answer = super()._operate(work, *args, **kwargs)
        is_full = isinstance(answer, Answer) and answer.reason.endswith("disk is full")
        return Answer(Kind.OK) if is_full else answer


@mistake(
    "M129",
    "K22",
    "A store that is damaged when it is opened is replaced by an empty one.",
    breaks="intent-kept",
    shown_by="faults",
)
class DamageReplaced(Ledger):
    """The service is up again in no time, and knows of nothing."""

    def _opened(self, connect: Callable[[Path], sqlite3.Connection], durability: Durability) -> sqlite3.Connection:
        try:
            return super()._opened(connect, durability)
        except DamagedStoreError:
            self.path.unlink()
            return super()._opened(connect, durability)


@mistake(
    "M211",
    "K22",
    "A commit that failed is called undone, whatever it has left.",
    breaks="refusal-changes-nothing",
    shown_by="faults",
)
class FailedCommitIsUndone(Ledger):
    """The journal was gone already, and only its folder could not be synced."""

    def _after_failed_commit(self, error: sqlite3.DatabaseError, explained: Exception) -> Exception:
        return explained


@mistake(
    "M212",
    "K23",
    "After a commit of which nobody knows, what is read is answered as stored, though a power cut may undo it.",
    breaks="ack-durable",
    shown_by="faults",
)
class ReadIsTakenForDurable(Ledger):
    """The page cache says yes, and the disk was never asked again."""

    def _touch(self) -> None:
        """Write nothing."""


@mistake(
    "M213",
    "K22",
    "A checkpoint is called refused when the lock under which it was written cannot be given back.",
    breaks="refusal-changes-nothing",
    shown_by="faults",
)
class CheckpointGoesWithTheLock(Ledger):
    """Somebody reads the ledger, and the worker is told that its progress was not written."""

    def while_newest(self, key: str, token: int, work: Callable[[], Answer]) -> Answer:
        """What ``work`` answers, if the ledger's own transaction ends well."""
        return self._operate(self._while_newest, key, token, work)


@mistake(
    "M214",
    "K23",
    "A checkpoint whose name could not be made durable is called refused, though all can read it.",
    breaks="refusal-changes-nothing",
    shown_by="faults",
)
class UnsyncedNameIsRefused(CheckpointFile):
    """The rename is done when the folder's sync fails."""

    def _is_kept(self) -> bool:
        if super()._is_kept():
            return True
        raise UnavailableStoreError(self.path, "cannot be written", "mend the storage, and try again")
