"""What every part of the ledger shares: the rules, the file, and how an operation runs in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, ClassVar, Concatenate, Final

from impl.protocol import Answer, Site
from impl.sqlite.checkpoint import CheckpointFile
from impl.sqlite.errors import BusyStoreError, DamagedStoreError, UnavailableStoreError, UncertainStoreError
from impl.sqlite.rows import ONE_ENTRY, PERMITS, SCHEMA, Entry
from impl.sqlite.rules import Operation, Rules
from impl.sqlite.store import P, Store, T, code_of, roll_back
from model.words import Kind

OK: Final = Answer(Kind.OK)
NOTED: Final = Answer(Kind.UNKNOWN, "noted; may have happened")
NO_INTENT: Final = Answer(Kind.REFUSED, "no such intent")
ENDED: Final = Answer(Kind.REFUSED, "already ended")
LEASE_GONE: Final = Answer(Kind.REFUSED, "lease is gone")
NO_ANSWER: Final = Answer(Kind.UNKNOWN, "no answer")
BUSY: Final = Answer(Kind.REFUSED, "busy")
MAY_BE_STORED: Final = Answer(Kind.UNKNOWN, "may have been stored")

HAS_PERMITS: Final = "SELECT 1 FROM sqlite_master WHERE name = 'permits'"

_WRITE_FAILED = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE})


def refused(reason: str) -> Answer:
    """A refusal, and why."""
    return Answer(Kind.REFUSED, reason)


class Book(Rules, Store):
    """The ledger's file under the rules. Each operation is one transaction: all guards are read, then it writes."""

    SCHEMA: ClassVar[tuple[str, ...]] = SCHEMA

    DROP_LEASE: ClassVar[str] = "DELETE FROM leases WHERE key = ?"
    RETURN_PERMIT: ClassVar[str] = "DELETE FROM permits WHERE key = ?"
    DOUBT: ClassVar[str] = "UPDATE intents SET state = 'unknown', in_doubt = 1 WHERE key = ?"
    END: ClassVar[str] = "UPDATE intents SET state = ? WHERE key = ?"
    SET_APPROVAL: ClassVar[str] = "UPDATE approvals SET status = ? WHERE key = ?"

    def __init__(self, site: Site) -> None:
        Rules.__init__(self, site)
        self._looked: list[tuple[str, tuple[Any, ...], Any]] = []
        self._is_unsettled = False
        Store.__init__(self, site.folder / "ledger.sqlite3", site.connect, site.clock, site.contracts.durability)

    def _operate(self, work: Callable[Concatenate[int, P], T], *args: P.args, **kwargs: P.kwargs) -> T | Answer:
        """The answer of one operation, run as one transaction; BUSY and a full disk are refusals like any other."""
        try:
            return self._transact(work, *args, **kwargs)
        except BusyStoreError:
            return BUSY
        except UnavailableStoreError as error:
            return refused(f"{error.path.name}: {error.reason}")
        except UncertainStoreError:
            return MAY_BE_STORED

    def _begin(self) -> None:
        self._looked.clear()
        super()._begin()
        if self._is_unsettled:
            self._touch()

    def _commit(self) -> None:
        super()._commit()
        self._is_unsettled = False

    def _touch(self) -> None:
        """Make the transaction one that writes, whatever else it does: its commit makes those before it durable."""
        self._execute(f"PRAGMA user_version = {self.VERSION}")

    # -- reading ----------------------------------------------------------------------------------------------

    def _entry(self, key: str) -> Entry | None:
        row = self._look(ONE_ENTRY, (key,))
        return None if row is None else Entry._make(row)

    def _look(self, sql: str, arguments: tuple[Any, ...] = ()) -> Any:
        """The one row of a query, or None; kept until the transaction has ended, see ``_is_undone``."""
        row = self._execute(sql, arguments).fetchone()
        self._looked.append((sql, arguments, row))
        return row

    # -- what every end of a lease does -----------------------------------------------------------------------

    def _end_lease(self, key: str, operation: Operation) -> None:
        """Drop a lease, and give back the permit that was taken with it."""
        self._execute(self.DROP_LEASE, (key,))
        if self._is_limited:
            self._return_permit(key, operation)

    def _return_permit(self, key: str, operation: Operation) -> None:
        self._execute(self.RETURN_PERMIT, (key,))

    # -- when a commit fails ----------------------------------------------------------------------------------

    def _after_failed_commit(self, error: sqlite3.DatabaseError, explained: Exception) -> Exception:
        """A failed commit is not always one that was undone: what to raise depends on what can be read back.

        A journal may be gone, or cut, before the sync fails that was to make that durable; then all is stored, and
        whoever is asked again would say so, while a power cut could still undo it.
        """
        if not isinstance(explained, UnavailableStoreError) or self._is_undone(error):
            return explained
        return UncertainStoreError(self.path, f"may have been written ({error})", "ask what became of it")

    def _is_undone(self, error: sqlite3.DatabaseError) -> bool:
        """Whether the rows are those that the failed transaction read before it wrote, and will stay so."""
        looked, execute = tuple(self._looked), self._execute
        self._is_unsettled = True
        try:
            execute("BEGIN IMMEDIATE")  # which plays a journal back that was left behind
            same = bool(looked) and all(execute(sql, values).fetchone() == row for sql, values, row in looked)
            if same and (code_of(error) in _WRITE_FAILED or not self._is_in_log()):
                execute("ROLLBACK")
                self._is_unsettled = False
            else:
                self._touch()
                self._commit()
        except sqlite3.Error:
            roll_back(self._connection)
            return False
        return same

    def _is_in_log(self) -> bool:
        """Whether a transaction whose sync failed may stand in a write-ahead log, whole.

        Whoever opens the log after a crash would take it for committed. What is written next takes its place.
        """
        mode: str = self._execute("PRAGMA journal_mode").fetchone()[0]
        return mode == "wal"

    # -- when the limit is new --------------------------------------------------------------------------------

    def _extend(self, connection: sqlite3.Connection) -> None:
        """The table of permits, where there is a limit: a ledger without one does not pay for it."""
        if not self._is_limited or connection.execute(HAS_PERMITS).fetchone():
            return

        def create() -> None:
            for statement in PERMITS:
                connection.execute(statement)

        self._under_lock(connection, create)

    # -- when there is no ledger ------------------------------------------------------------------------------

    def _before_creating(self) -> None:
        """A checkpoint with entries says that there was a ledger: an empty one would forget what it held."""
        if CheckpointFile(self.site.folder / "checkpoint", self.site.files).read():
            reason = "is empty or missing, and the checkpoint beside it is not"
            raise DamagedStoreError(self.path, reason, "restore it from a backup, or remove both")
