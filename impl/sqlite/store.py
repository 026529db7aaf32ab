"""One SQLite file: how it is opened, how durable it is, and the one way to run a transaction on it.

Every statement goes through ``connection.execute``, so that an injected connection sees each place where the process
can die.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Concatenate, ParamSpec, TypeVar

from impl.protocol import Clock
from impl.sqlite.errors import BusyStoreError, DamagedStoreError, ForkedStoreError, StoreError, UnavailableStoreError
from model.contracts import Durability

P = ParamSpec("P")
T = TypeVar("T")

JOURNALS: dict[Durability, tuple[str, str]] = {
    Durability.DELETE_EXTRA: ("DELETE", "EXTRA"),
    Durability.TRUNCATE_FULL: ("TRUNCATE", "FULL"),
    Durability.PERSIST_FULL: ("PERSIST", "FULL"),
    Durability.WAL_FULL: ("WAL", "FULL"),
    Durability.DELETE_FULL: ("DELETE", "FULL"),
    Durability.DELETE_NORMAL: ("DELETE", "NORMAL"),
    Durability.WAL_NORMAL: ("WAL", "NORMAL"),
    Durability.OFF: ("DELETE", "OFF"),
}
"""Journal mode and ``synchronous`` of each durability contract. https://www.sqlite.org/pragma.html#pragma_synchronous"""

_OF_A_CONNECTION = frozenset({"TRUNCATE", "PERSIST"})
"""Journal modes that a file does not remember: WAL stands in its header, and DELETE is what a connection begins with."""

_PROBE = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGED = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})
_UNAVAILABLE = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM})


def code_of(error: sqlite3.Error) -> int:
    """SQLite's extended result code; 0 if the error is not SQLite's own."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code


def _primary_code(error: sqlite3.Error) -> int:
    return code_of(error) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Whether SQLite refused because another connection holds a lock."""
    return _primary_code(error) in _BUSY or str(error).startswith("database is locked")


class Store:
    """A SQLite file with a schema of its own, opened once an incarnation."""

    BEGIN: ClassVar[str] = "BEGIN IMMEDIATE"
    """The write lock is taken before anything is read: a guard that holds when read still holds when written."""
    BUSY_TIMEOUT_MS: ClassVar[int] = 0
    """How long a transaction waits for the lock. Opening waits as long as the connection's own timeout says."""
    SCHEMA: ClassVar[tuple[str, ...]] = ()
    VERSION: ClassVar[int] = 1

    def __init__(
        self,
        path: Path,
        connect: Callable[[Path], sqlite3.Connection],
        clock: Clock,
        durability: Durability,
    ) -> None:
        self.path = path
        self.clock = clock
        self._owner = os.getpid()
        self._damage: DamagedStoreError | None = None
        self._connection = self._opened(connect, durability)
        self._execute = self._connection.execute

    def close(self) -> None:
        """Let go of the file. A forked process leaves it alone: the handle is its parent's."""
        if os.getpid() == self._owner:
            self._connection.close()

    # -- opening ----------------------------------------------------------------------------------------------

    def _opened(self, connect: Callable[[Path], sqlite3.Connection], durability: Durability) -> sqlite3.Connection:
        """Raises a StoreError that names the file where it cannot be used."""
        connection: sqlite3.Connection | None = None
        try:
            connection = connect(self.path)
            connection.isolation_level = None  # transactions are explicit, see _transact
            self._prepare(connection, *JOURNALS[durability])
        except sqlite3.Error as error:
            self._give_up(connection)
            raise self._explained(error) from error
        except StoreError:
            self._give_up(connection)
            raise
        return connection

    @staticmethod
    def _give_up(connection: sqlite3.Connection | None) -> None:
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _explained(self, error: sqlite3.Error) -> Exception:
        if is_busy(error):
            return BusyStoreError(self.path, "another connection holds the lock", "try again")
        if _primary_code(error) in _DAMAGED:
            reason = f"is damaged, or not a database ({error})"
            return DamagedStoreError(self.path, reason, "move it away or restore it from a backup")
        if _primary_code(error) == sqlite3.SQLITE_FULL:
            return UnavailableStoreError(self.path, "disk is full", "free some space, and try again")
        if _primary_code(error) == sqlite3.SQLITE_IOERR:
            return UnavailableStoreError(self.path, f"storage failed ({error})", "mend the storage, and try again")
        if _primary_code(error) in _UNAVAILABLE:
            reason = f"cannot be opened for writing ({error})"
            return UnavailableStoreError(self.path, reason, "check that its folder exists and may be written to")
        return error

    def _prepare(self, connection: sqlite3.Connection, journal: str, synchronous: str) -> None:
        # An existing store must open fast: it happens once an incarnation, and incarnations are short.
        if not self._has_schema(connection):
            self._before_creating()
            # The journal mode stays with the file, and cannot change inside a transaction.
            connection.execute(f"PRAGMA journal_mode = {journal}")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            self._create(connection)
        else:
            if journal in _OF_A_CONNECTION:
                connection.execute(f"PRAGMA journal_mode = {journal}")
            connection.execute(f"PRAGMA synchronous = {synchronous}")
        self._extend(connection)
        connection.execute(f"PRAGMA busy_timeout = {self.BUSY_TIMEOUT_MS}")

    def _has_schema(self, connection: sqlite3.Connection) -> bool:
        # One statement, so that the two numbers belong together whoever else is opening the file.
        version, tables = connection.execute(_PROBE).fetchone()
        if version == self.VERSION:
            return True
        if version:
            reason = f"has schema version {version}, and this program knows {self.VERSION}"
            raise DamagedStoreError(self.path, reason, "use the program that wrote it, or a newer one")
        if tables:
            raise DamagedStoreError(self.path, "is a database of another program", "choose another folder")
        return False

    def _create(self, connection: sqlite3.Connection) -> None:
        def create() -> None:
            # Asked again under the lock: somebody else may have been faster.
            if not self._has_schema(connection):
                for statement in self.SCHEMA:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {self.VERSION}")

        self._under_lock(connection, create)

    @staticmethod
    def _under_lock(connection: sqlite3.Connection, work: Callable[[], None]) -> None:
        """Run ``work`` in one transaction, as long as the file is being opened."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            work()
            connection.execute("COMMIT")
        except BaseException:
            roll_back(connection)
            raise

    def _extend(self, connection: sqlite3.Connection) -> None:
        """Add what a file that is there already may lack, as it was made under other limits."""

    def _before_creating(self) -> None:
        """Raise DamagedStoreError if there are signs that this file had a schema before."""

    # -- transactions -----------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self.clock.now_ms()

    def _transact(self, work: Callable[Concatenate[int, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What ``work(now_ms, ...)`` returns, run in one transaction.

        The time is read under the lock: whoever waits for the lock grows older. Raises BusyStoreError, nothing
        changed, where another connection holds the lock, and the other StoreErrors where the file is the cause; any
        other error passes as it is. All are rolled back. A store that was found damaged is not touched again.
        """
        if self._damage is not None:
            raise self._damage
        self._refuse_fork()
        ended = False
        try:
            self._begin()
            result = work(self._now_ms(), *args, **kwargs)
            ended = True
            self._commit()
        except sqlite3.DatabaseError as error:
            roll_back(self._connection)
            explained = self._explained(error)
            if isinstance(explained, DamagedStoreError):
                self._damage = explained
            if ended:
                explained = self._after_failed_commit(error, explained)
            if explained is error:
                raise
            raise explained from error
        except BaseException:
            roll_back(self._connection)
            raise
        return result

    def _begin(self) -> None:
        self._execute(self.BEGIN)

    def _commit(self) -> None:
        self._execute("COMMIT")

    def _after_failed_commit(self, error: sqlite3.DatabaseError, explained: Exception) -> Exception:
        """What to raise for a commit that failed and was rolled back, as far as SQLite says."""
        return explained

    def _refuse_fork(self) -> None:
        """Raise ForkedStoreError in another process than the one that opened the file.

        https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_connection_across_a_fork_
        """
        if os.getpid() != self._owner:
            reason = f"was opened by process {self._owner}, and this is its fork {os.getpid()}"
            raise ForkedStoreError(self.path, reason, "open it anew in each process, after the fork")


def roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction, if there is one, whatever it takes."""
    # What failed first is what counts, so nothing that goes wrong here may hide it.
    with suppress(BaseException):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def make_folder(folder: Path) -> bool:
    """Whether the folder was not there and had to be made. Raises UnavailableStoreError."""
    if folder.is_dir():
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableStoreError(
            folder, f"cannot be made ({error})", "choose a folder that may be written"
        ) from error
    return True
