"""Mistakes that show only when one operation runs inside another: what was read is no longer true when it is used.

An engine that runs whole operations, one after the other, passes all of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Concatenate

from impl.mistakes.registry import mistake
from impl.protocol import Answer, Overdue, Request
from impl.sqlite import Ledger
from impl.sqlite.rows import Entry
from impl.sqlite.store import P, T, is_busy
from model.words import Kind


def _anew(ledger: Ledger) -> None:
    """End the transaction and begin another: whoever waited for the lock comes in between."""
    ledger._execute("COMMIT")  # noqa: SLF001 - as if it were its own method
    ledger._execute(ledger.BEGIN)  # noqa: SLF001


@mistake(
    "M017",
    "K09",
    "A claim selects a free key, and then updates it by its key alone, in a transaction of its own.",
    breaks="no-stale-token",
    shown_by="interleavings",
)
class SelectThenUpdate(Ledger):
    """Two workers select the same key before either has updated it."""

    def _next_token(self, entry: Entry) -> int:
        _anew(self)
        return super()._next_token(entry)


@mistake(
    "M119",
    "K21",
    "The time is read before the lock is waited for.",
    breaks="conforms",
    shown_by="interleavings",
)
class TimeReadBeforeLock(Ledger):
    """Whoever waits for the lock acts at a time that is past."""

    def _transact(self, work: Callable[Concatenate[int, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        read_ms = self._now_ms()

        def late(now_ms: int) -> T:
            return work(read_ms, *args, **kwargs)

        return super()._transact(late)


@mistake(
    "M123",
    "K22",
    "A transaction begins without the write lock, and a statement that finds it taken is repeated in a new one.",
    breaks="one-lease",
    shown_by="interleavings",
)
class StatementRepeatedOnStaleReads(Ledger):
    """What the first transaction read is written by the second."""

    def _transact(self, work: Callable[Concatenate[int, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        plain = self._connection.execute

        def stubborn(sql: str, parameters: Any = ()) -> sqlite3.Cursor:
            try:
                return plain("BEGIN" if sql == self.BEGIN else sql, parameters)
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                plain("ROLLBACK")
                plain("BEGIN IMMEDIATE")
                return plain(sql, parameters)

        self._execute = stubborn
        return super()._transact(work, *args, **kwargs)


@mistake(
    "M201",
    "K09",
    "A claim inserts its lease unless there is one, in a second transaction, and does not look at the row count.",
    breaks="one-lease",
    shown_by="interleavings",
)
class IgnoredInsert(Ledger):
    """The loser of the insert is told that it won."""

    def _lease(self, key: str, token: int, now_ms: int) -> None:
        _anew(self)
        self._execute("DELETE FROM leases WHERE key = ? AND (token = ? OR expiry_ms <= ?)", (key, token, now_ms))
        expiry_ms = self._lease_expiry_ms(now_ms)
        store = self.STORE_LEASE.replace("OR REPLACE", "OR IGNORE")
        self._execute(store, (key, self.site.worker, token, expiry_ms))


@mistake(
    "M202",
    "K02",
    "A claim reads its token back in a statement of its own, after the transaction that granted it.",
    breaks="conforms",
    shown_by="interleavings",
)
class TokenReadBack(Ledger):
    """Whoever was slow is told the token of its successor."""

    def claim(self, key: str) -> Answer | Request:
        """Grant the lease, and read afterwards with which token."""
        answer = super().claim(key)
        if not isinstance(answer, Answer) or answer.kind is not Kind.OK:
            return answer
        row = self._execute("SELECT token_high FROM intents WHERE key = ?", (key,)).fetchone()
        return Answer(Kind.OK, token=row[0])


@mistake(
    "M203",
    "K03",
    "The reaper looks once more whether a lease is overdue, and drops it by its key alone in the next transaction.",
    breaks="lease-kept",
    shown_by="interleavings",
)
class ReapedAfterALook(Ledger):
    """Between the look and the drop somebody else was granted the key."""

    def _is_as_seen(self, entry: Entry, seen: Overdue) -> bool:
        same = super()._is_as_seen(entry, seen)
        _anew(self)
        return same


@mistake(
    "M204",
    "K20",
    "The approval is checked in one transaction, and the attempt counted in the next.",
    breaks="valid-approval",
    shown_by="interleavings",
)
class CheckThenAct(Ledger):
    """What was taken back in between opens the gate."""

    def _count(self, entry: Entry) -> None:
        _anew(self)
        super()._count(entry)


@mistake(
    "M205",
    "K22",
    "The lock is not taken: each statement is a transaction of its own.",
    breaks="one-lease",
    shown_by="interleavings",
)
class NoLock(Ledger):
    """What is read may be gone before it is used."""

    def _transact(self, work: Callable[Concatenate[int, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return work(self._now_ms(), *args, **kwargs)


@mistake(
    "M221",
    "K09",
    "A claim counts the permits that are taken, and is granted in the next transaction.",
    breaks="permits-kept",
    shown_by="interleavings",
    permits=1,
)
class CountThenTake(Ledger):
    """Two claims count the same permits before either has taken the last one."""

    def _permits_of_others(self, key: str, now_ms: int) -> int:
        count = super()._permits_of_others(key, now_ms)
        _anew(self)
        return count
