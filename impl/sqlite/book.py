"""What every part of the ledger shares: the rules, the file, and how an operation runs in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Concatenate, Final

from impl.protocol import Answer, Site
from impl.sqlite.errors import BusyStoreError
from impl.sqlite.rows import ONE_ENTRY, SCHEMA, Entry
from impl.sqlite.rules import Rules
from impl.sqlite.store import P, Store, T
from model.words import Kind

OK: Final = Answer(Kind.OK)
NOTED: Final = Answer(Kind.UNKNOWN, "noted; may have happened")
NO_INTENT: Final = Answer(Kind.REFUSED, "no such intent")
ENDED: Final = Answer(Kind.REFUSED, "already ended")
LEASE_GONE: Final = Answer(Kind.REFUSED, "lease is gone")
NO_ANSWER: Final = Answer(Kind.UNKNOWN, "no answer")
BUSY: Final = Answer(Kind.REFUSED, "busy")


def refused(reason: str) -> Answer:
    """A refusal, and why."""
    return Answer(Kind.REFUSED, reason)


class Book(Rules, Store):
    """The ledger's file under the rules. Each operation is one transaction: all guards are read, then it writes."""

    SCHEMA: ClassVar[tuple[str, ...]] = SCHEMA

    DROP_LEASE: ClassVar[str] = "DELETE FROM leases WHERE key = ?"
    DOUBT: ClassVar[str] = "UPDATE intents SET state = 'unknown', in_doubt = 1 WHERE key = ?"
    END: ClassVar[str] = "UPDATE intents SET state = ? WHERE key = ?"
    SET_APPROVAL: ClassVar[str] = "UPDATE approvals SET status = ? WHERE key = ?"

    def __init__(self, site: Site) -> None:
        Rules.__init__(self, site)
        Store.__init__(self, site.folder / "ledger.sqlite3", site.connect, site.clock, site.contracts.durability)

    def _operate(self, work: Callable[Concatenate[int, P], T], *args: P.args, **kwargs: P.kwargs) -> T | Answer:
        """The answer of one operation, run as one transaction; BUSY is a refusal like any other."""
        try:
            return self._transact(work, *args, **kwargs)
        except BusyStoreError:
            return BUSY

    def _entry(self, key: str) -> Entry | None:
        row = self._execute(ONE_ENTRY, (key,)).fetchone()
        return None if row is None else Entry._make(row)
