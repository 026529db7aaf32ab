"""Connections whose statements are transitions of a lane, and cursors that keep no lock behind its back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Self

from stateful.boundaries import Gate, GatedConnection
from stateful.schedules.footprint import (
    BEGIN_NOW,
    COMMIT,
    EVERYTHING,
    QUERY,
    WRITE,
    Account,
    Learner,
    Statement,
)
from stateful.schedules.lanes import Lane, Scheduler

_execute = sqlite3.Connection.execute
_cursor = sqlite3.Connection.cursor


class ScheduledConnection(GatedConnection):
    """A connection whose statements are transitions of a lane.

    Its own waiting for locks is off: the scheduler does the waiting.
    """

    path: str
    scheduler: Scheduler
    account: Account
    learner: Learner

    def adopt(self, scheduler: Scheduler, path: str) -> None:
        """Make a new connection known to a scheduler."""
        self.scheduler, self.path = scheduler, path
        self.account = Account(path, scheduler.resources)
        self.learner = Learner()
        self.set_authorizer(self.learner.authorize)
        _execute(self, "PRAGMA busy_timeout = 0")

    def serve(self, gate: Gate) -> None:
        """Serve a lane from now on, or a process that is none."""
        self.gate = gate
        self.account.ended(committed=False)
        if isinstance(gate, Lane):
            gate.accounts.append(self.account)

    def must_wait(self, sql: str) -> bool:
        """Whether a lock that the statement needs is surely taken, so that it need not be tried.

        A commit that finds readers in its way must not even be tried: SQLite would keep what it has got so far of the
        lock, and shut new readers out. In a write-ahead log a commit passes beside readers.
        """
        others = self.scheduler.open.get(self.path)
        if not others or (self in others and len(others) == 1):
            return False
        resources = self.scheduler.resources
        sort = resources.sort(sql)
        if sort is COMMIT:
            readers = self.account.is_writer and any(c.account.reading for c in others if c is not self)
            return readers and _execute(self, "PRAGMA journal_mode").fetchone()[0] != "wal"
        known = resources.statement(self.path, sql)
        writes = sort is BEGIN_NOW or (known is not None and known.sort is WRITE)
        return writes and any(c.account.is_writer for c in others if c is not self)

    def executed(self, sql: str, *, changed: bool) -> tuple[int, int]:
        """The footprint of a statement that was executed."""
        statement = self.scheduler.resources.statement(self.path, sql) or self._learned(sql)
        touched = self.account.executed(statement, changed=changed, in_transaction=self.in_transaction)
        return self._noted(*touched)

    def failed(self, sql: str, *, locked: bool = False) -> tuple[int, int]:
        """The footprint of a statement that failed. It may have rolled back, or left rows and locks behind.

        ``locked`` says that it got as far as its rows, and so had what lock it needs.
        """
        touched = self.account.did_anything(in_transaction=self.in_transaction)
        if locked and self.in_transaction:
            statement = self.scheduler.resources.statement(self.path, sql) or self._learned(sql)
            self.account.is_writer |= statement.sort is WRITE
        return self._noted(*touched)

    def _noted(self, reads: int, writes: int) -> tuple[int, int]:
        """The footprint of a statement, once its locks are known to the others."""
        account = self.account
        if account.reading or account.is_writer:
            self.scheduler.open.setdefault(self.path, set()).add(self)
        else:
            self._is_done()
        if self.learner.attached:
            account.attached = self.scheduler.has_attached = True
            return EVERYTHING, EVERYTHING
        return reads, writes

    def _is_done(self) -> None:
        others = self.scheduler.open.get(self.path)
        if others:
            others.discard(self)

    def _learned(self, sql: str) -> Statement:
        """What the statement that was just prepared touches; kept for the next time."""
        resources = self.scheduler.resources
        sort = resources.sort(sql)
        statement = self.learner.learned(sort) if sort is QUERY else Statement(sort)
        resources.learn(self.path, sql, statement)
        return statement

    # -- statements -------------------------------------------------------------------------------------------

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run one statement as a transition."""
        cursor: sqlite3.Cursor = _cursor(self, ScheduledCursor)
        return cursor.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """Run one statement with many parameters as a transition."""
        cursor: sqlite3.Cursor = _cursor(self, ScheduledCursor)
        return cursor.executemany(sql, parameters)

    def executescript(self, sql: str, /) -> sqlite3.Cursor:
        """Run a script, each statement of which is a transition."""
        cursor: sqlite3.Cursor = _cursor(self, ScheduledCursor)
        return cursor.executescript(sql)

    def commit(self) -> None:
        """Commit as a transition."""
        self._scheduled("COMMIT", sqlite3.Connection.commit, self)

    def rollback(self) -> None:
        """Roll back; it belongs to the transition that is under way."""
        sqlite3.Connection.rollback(self)
        gate: Any = self.gate
        if isinstance(gate, Lane) and gate.is_running:
            gate.touch(*self._noted(*self.account.ended(committed=False)))

    def cursor(self, factory: Any = None, /) -> Any:
        """A cursor each of whose statements is a transition."""
        return _cursor(self, factory or ScheduledCursor)

    def close(self) -> None:
        """Close, or go back to the pool. What is not committed is rolled back, and its locks are free."""
        with suppress(sqlite3.ProgrammingError):  # closed already
            if self.in_transaction:
                self.rollback()
        self.drop()

    def drop(self) -> None:
        """What becomes of a connection when its process dies; with other databases attached it serves nobody else."""
        if self.account.attached:
            self.release = None
        super().drop()

    def _scheduled(self, sql: str, call: Callable[..., Any], *arguments: Any) -> Any:
        lane: Any = self.gate
        if isinstance(lane, Lane):
            lane.next = self, sql
        lane.reach(self.store, sql)
        known = self.scheduler.resources.statement(self.path, sql) is not None
        if not known:
            self.learner.forget()
        if isinstance(lane, Lane) and lane.is_running:
            try:
                result = lane.attempt(self, sql, call, *arguments)
            finally:
                lane.next = None
        else:
            result = call(*arguments)
            if not known:
                self._learned(sql)
        if "busy_timeout" in sql:
            _execute(self, "PRAGMA busy_timeout = 0")
        return result


class ScheduledCursor(sqlite3.Cursor):
    """A cursor of a scheduled connection.

    It fetches all its rows at once: a statement that is stepped to its end later would hold, and give back, its lock
    where nobody sees it.
    """

    connection: ScheduledConnection
    _rows: Iterator[Any] = iter(())

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """Run one statement as a transition."""
        self.connection._scheduled(sql, self._execute, sql, parameters)  # noqa: SLF001 - its own
        return self

    def _execute(self, sql: str, parameters: Any) -> None:
        super().execute(sql, parameters)
        self._rows = iter(super().fetchall())

    def executemany(self, sql: str, parameters: Any, /) -> Self:
        """Run one statement with many parameters as a transition."""
        again = list(parameters)  # whoever was blocked needs them once more
        self.connection._scheduled(sql, super().executemany, sql, again)  # noqa: SLF001
        return self

    def executescript(self, sql: str, /) -> Self:
        """Run a script: commit, then its statements one by one, as another process may come in between."""
        connection = self.connection
        if connection.in_transaction:
            connection.commit()
        level, connection.isolation_level = connection.isolation_level, None
        try:
            for statement in _statements_of(sql):
                self.execute(statement)
        finally:
            connection.isolation_level = level
        self._rows = iter(())
        return self

    def fetchone(self) -> Any:
        """The next row, or None."""
        return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        """The next rows."""
        return list(islice(self._rows, self.arraysize if size is None else size))

    def fetchall(self) -> list[Any]:
        """The rows that are left."""
        return list(self._rows)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._rows)


def _statements_of(script: str) -> Iterator[str]:
    """The statements of a script, one by one."""
    begun = ""
    for piece in script.split(";"):
        begun += f"{piece};"
        if sqlite3.complete_statement(begun):
            if begun.strip(" \n\t;"):
                yield begun.strip()
            begun = ""
    if begun.strip(" \n\t;"):
        yield begun.strip().removesuffix(";")
