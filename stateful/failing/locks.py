"""Somebody else at the databases: a real connection that takes a lock just before the n-th statement of an operation.

It keeps the lock until the operation has ended, so that whoever waits for it waits in vain.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from stateful.boundaries import Gate


class Lock(StrEnum):
    """What somebody else does."""

    WRITES = "writes"
    """Takes RESERVED, or the write lock of a log: nobody else may begin to write."""
    READS = "reads"
    """Takes SHARED: with a rollback journal nobody may commit."""
    ALONE = "is alone"
    """Takes EXCLUSIVE: with a rollback journal nobody may even read."""
    COMMITS = "commits"
    """Writes and lets go: whoever has read before holds a stale snapshot."""


_STATEMENTS: dict[Lock, tuple[str, ...]] = {
    Lock.WRITES: ("BEGIN IMMEDIATE",),
    Lock.READS: ("BEGIN", "SELECT count(*) FROM sqlite_master"),
    Lock.ALONE: ("BEGIN EXCLUSIVE",),
    Lock.COMMITS: ("BEGIN IMMEDIATE", "PRAGMA user_version = {version}", "COMMIT"),
}


class LockingGate(Gate):
    """A gate at which somebody else comes in. Only statements to the databases in ``paths``, by file name, are counted.

    ``connect`` opens one of them for whoever comes in. ``met`` counts the statements; ``taken`` says which database was
    locked, empty where the lock could not be had.
    """

    def __init__(
        self, at: int, lock: Lock, paths: dict[str, Path], connect: Callable[[Path], sqlite3.Connection]
    ) -> None:
        super().__init__()
        self.at = at
        self.lock = lock
        self.paths = paths
        self._connect = connect
        self.is_armed = False
        self.met = 0
        self.taken = ""
        self._connection: sqlite3.Connection | None = None

    def reach(self, where: str, what: str) -> None:
        """Pass a boundary; before the one that is meant the lock is taken."""
        super().reach(where, what)
        if self.is_armed and where in self.paths:
            self.met += 1
            if self.met == self.at:
                self._take(where)

    def _take(self, where: str) -> None:
        connection = self._connection = self._connect(self.paths[where])
        try:
            connection.execute("PRAGMA busy_timeout = 0")
            for statement in _STATEMENTS[self.lock]:
                version = connection.execute("PRAGMA user_version").fetchone()[0] if "{" in statement else 0
                connection.execute(statement.format(version=version)).fetchall()
        except sqlite3.OperationalError:
            self.let_go()  # whoever is under way has the lock
        else:
            self.taken = where

    def let_go(self) -> None:
        """Give the lock back."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.rollback()
            self._connection.close()
            self._connection = None
