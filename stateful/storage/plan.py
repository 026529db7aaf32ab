"""Faults: which of SQLite's storage calls fails, with which result code. Found by counting, not listed by hand.

An engine runs the same work with ``at`` 1, 2, 3 ... until ``fired`` stays 0: then there was no such call any more.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from enum import StrEnum
from typing import NamedTuple, Protocol

from attrs import define, field


class Call(StrEnum):
    """A kind of storage call."""

    OPEN = "open"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    DELETE = "delete"


CODES: dict[Call, int] = {
    Call.OPEN: sqlite3.SQLITE_CANTOPEN,
    Call.WRITE: sqlite3.SQLITE_IOERR_WRITE,
    Call.TRUNCATE: sqlite3.SQLITE_IOERR_TRUNCATE,
    Call.SYNC: sqlite3.SQLITE_IOERR_FSYNC,
    Call.DELETE: sqlite3.SQLITE_IOERR_DELETE,
}
"""What SQLite's own VFS answers when such a call fails."""


class Fault(NamedTuple):
    """How a call fails: SQLite's result code, and whether the system lets go of what the file had pending."""

    code: int
    forgets: bool = False


class Plan(Protocol):
    """Asked before each storage call. What it raises reaches whoever runs the statement."""

    def before(self, call: Call, path: str) -> Fault | None:
        """How this call fails; None if it is to be done. ``path`` is relative to the recorded folder."""


class Until(StrEnum):
    """How long it goes on."""

    ONCE = "once"
    FOR_EVER = "for ever"
    """Every such call from then on: a full disk."""
    POWER_CUT = "power cut"
    """Every storage call of any kind from then on: nothing reaches the disk any more."""
    FORGOTTEN = "forgotten"
    """Once; the data are lost all the same, and the next sync says that it succeeded."""


@define
class FaultPlan:
    """Fails the call number ``at`` (from 1) among those of a kind, or of any, to a file, or to any.

    ``code`` is one of SQLite's; 0 stands for what its own VFS answers to such a call. ``counts`` says how many calls
    there were, of which kind to which file, those that failed included.
    """

    at: int
    call: Call | None = None
    path: str = ""
    code: int = 0
    until: Until = Until.ONCE
    counts: Counter[tuple[Call, str]] = field(factory=Counter, init=False)
    fired: int = field(default=0, init=False)
    """How many calls have failed."""
    _met: int = field(default=0, init=False)

    def before(self, call: Call, path: str) -> Fault | None:
        """How this call fails; None if it is to be done."""
        self.counts[call, path] += 1
        is_meant = self.call in {None, call} and self.path in {"", path}
        self._met += is_meant
        if self.until is Until.POWER_CUT and self.fired:
            is_hit = True
        elif self.until is Until.FOR_EVER:
            is_hit = is_meant and self._met >= self.at
        else:
            is_hit = is_meant and self._met == self.at
        if not is_hit:
            return None
        self.fired += 1
        forgets = self.until is Until.FORGOTTEN and call is Call.SYNC
        return Fault(self.code or CODES[call], forgets)
