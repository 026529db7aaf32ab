"""Footprints: what one transition of a lane touched, so that the search knows which two of them commute.

SQLite names the tables that a statement reads and writes when it is prepared (the authorizer). Rows are not named, so
two writes to one table are taken to depend on each other. Locks are resources like tables: whoever takes or gives back
the write lock of a database touches it, and whoever needs it free reads it.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from attrs import define, field, frozen

EVERYTHING = -1
"""The mask with every bit."""


class Footprint(NamedTuple):
    """Bit masks of resources, and whether a call began or ended: who began after whose end is history."""

    reads: int = 0
    writes: int = 0
    begins: bool = False
    ends: bool = False


def commute(a: Footprint, b: Footprint) -> bool:
    """Whether two transitions of different lanes come to the same in either order."""
    if a.writes & (b.reads | b.writes) or b.writes & a.reads:
        return False
    return not ((a.ends and b.begins) or (a.begins and b.ends))


@frozen
class Statement:
    """What is known of a statement by its text: what sort it is, and the tables that it reads and writes."""

    sort: str
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()


BEGIN, BEGIN_NOW, COMMIT, ROLLBACK, QUERY, WRITE, UNKNOWN = (
    "begin",
    "begin now",
    "commit",
    "rollback",
    "query",
    "write",
    "unknown",
)
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE", "REPLACE"})
_WRITES = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_HARMLESS = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})


def sort_of(sql: str) -> str:
    """The sort of a statement by its first words; QUERY for what may read or write rows."""
    words = sql.split(None, 2)
    first = words[0].upper().rstrip(";") if words else ""
    if first == "BEGIN":
        second = words[1].upper().rstrip(";") if len(words) > 1 else ""
        if second == "EXCLUSIVE":  # it shuts readers out, whom no other lock concerns
            return UNKNOWN
        return BEGIN_NOW if second == "IMMEDIATE" else BEGIN
    if first in {"COMMIT", "END"}:
        return COMMIT
    if first == "ROLLBACK":
        return UNKNOWN if len(words) > 1 and words[1].upper() == "TO" else ROLLBACK
    return QUERY if first in _QUERIES else UNKNOWN


@define
class Learner:
    """Learns what a statement touches while SQLite prepares it: an authorizer that allows everything."""

    reads: set[str] = field(factory=set)
    writes: set[str] = field(factory=set)
    other: bool = False
    attached: bool = False
    """Whether the connection has ever reached for another database: then nothing is known of it any more."""

    def forget(self) -> None:
        """Start on another statement."""
        self.reads.clear()
        self.writes.clear()
        self.other = False

    def authorize(self, action: int, first: str | None, second: str | None, database: str | None, *_: Any) -> int:
        """Take a note of one access."""
        if action == sqlite3.SQLITE_ATTACH:
            self.attached = self.other = True
        elif database not in {None, "main"}:  # a temporary table is under no lock, an attached one under another's
            self.other = True
        elif action == sqlite3.SQLITE_READ:
            self.reads.add(first or "")
        elif action in _WRITES:
            self.writes.add(first or "")
        elif action not in _HARMLESS:
            self.other = True
        return sqlite3.SQLITE_OK

    def learned(self, sort: str) -> Statement:
        """What the statement that has just been prepared touches; UNKNOWN if it is more than rows."""
        if self.other or not (self.reads or self.writes):
            return Statement(UNKNOWN)
        return Statement(WRITE if self.writes else sort, frozenset(self.reads), frozenset(self.writes))


class Resources:
    """Gives each resource a bit: tables, locks, files, the clock."""

    def __init__(self) -> None:
        self._bits: dict[tuple[str, str], int] = {}
        self._statements: dict[tuple[str, str], Statement] = {}
        self._sorts: dict[str, str] = {}
        self._tables: dict[tuple[str, frozenset[str]], int] = {}

    def bit(self, where: str, what: str) -> int:
        """The mask of one resource."""
        return self._bits.setdefault((where, what), 1 << len(self._bits))

    def tables(self, where: str, names: frozenset[str]) -> int:
        """The mask of some tables of one database."""
        key = (where, names)
        mask = self._tables.get(key)
        if mask is None:
            mask = 0
            for name in names:
                mask |= self.bit(where, f"table {name}")
            self._tables[key] = mask
        return mask

    def sort(self, sql: str) -> str:
        """The sort of a statement, worked out once."""
        sort = self._sorts.get(sql)
        if sort is None:
            sort = self._sorts[sql] = sort_of(sql)
        return sort

    def statement(self, where: str, sql: str) -> Statement | None:
        """What is known of a statement, if it has been seen."""
        return self._statements.get((where, sql))

    def learn(self, where: str, sql: str, statement: Statement) -> None:
        """Keep what was learned of a statement."""
        self._statements[where, sql] = statement


class Account:
    """What one connection holds and has not yet let others see; it turns statements into footprints."""

    def __init__(self, where: str, resources: Resources) -> None:
        self._where = where
        self._resources = resources
        bit = resources.bit
        self.all, self.write_lock, self.read_lock = (
            bit(where, "all"),
            bit(where, "write lock"),
            bit(where, "read lock"),
        )
        self.attached = False
        """Whether it may reach any other database."""
        self.reserved = False
        """Whether it may hold the write lock, or a snapshot, without being known to."""
        self.is_writer = False
        """Whether it surely holds it."""
        self.reading = False
        self._unseen = 0

    @property
    def locks(self) -> int:
        """The mask of this database's locks: whoever is blocked waits for one of them to move."""
        if self.attached:
            return EVERYTHING
        return self.write_lock | self.read_lock | self.all

    def executed(self, statement: Statement, *, changed: bool, in_transaction: bool) -> tuple[int, int]:
        """The reads and writes of a statement that was executed, as others can notice them."""
        match statement.sort:
            case "commit" | "rollback":
                return self.ended(committed=statement.sort == COMMIT)
            case "begin":
                return self.all, 0
            case "begin now":
                self.reserved = self.is_writer = True
                return self.all, self.write_lock
            case "unknown":
                return self.did_anything(in_transaction=in_transaction)
        read = self.all | self._resources.tables(self._where, statement.reads)
        written = self._resources.tables(self._where, statement.writes)
        if in_transaction:
            return self._inside(read, written, writes=statement.sort == WRITE, changed=changed)
        if statement.sort != WRITE:
            return read, 0
        read |= self.write_lock | self.read_lock
        return (read, written) if changed else (read | written, 0)

    def did_anything(self, *, in_transaction: bool) -> tuple[int, int]:
        """The reads and writes of what may have read, written, locked, begun or ended whatever it liked."""
        if in_transaction:
            self.reserved = True
            self._unseen |= self.all
        else:
            self.ended(committed=True)
        return EVERYTHING, self.locks

    def _inside(self, read: int, written: int, *, writes: bool, changed: bool) -> tuple[int, int]:
        """The same inside a transaction: what it writes is noticed only when it commits, what it locks at once."""
        locked = 0
        # In a write-ahead log the first read fixes what is seen until the end, and the first write wants it to be the
        # newest. Both are before or after each commit of another lane, as each commit reads both locks.
        if writes and not self.is_writer:
            self.reserved, self.is_writer, locked = True, True, self.write_lock
        elif not writes and not self.reading and not self.is_writer:
            self.reading, locked = True, self.read_lock
        if changed:
            self._unseen |= written
        return read | written, locked

    def ended(self, *, committed: bool) -> tuple[int, int]:
        """The reads and writes of the end of a transaction; its locks are free."""
        reads, writes = self.all, 0
        if self.reserved:
            writes |= self.write_lock
            reads |= self.read_lock
        if self.reading:
            writes |= self.read_lock
        if committed:
            writes |= self._unseen
        self.reserved = self.is_writer = self.reading = False
        self._unseen = 0
        return reads, writes
