"""A dispatcher of one table, and two ways to get it wrong: the smallest thing that ``survives`` can be pointed at.

    survives check examples.toy_dispatcher:ToyDispatcher
    survives check examples.toy_dispatcher:MarksBeforeEffect
    survives check examples.toy_dispatcher:RetriesUnderNewKey

It has no leases, no approvals, no deadline, and it lets nobody read its table. It declares none of them, so that the
promises about them come out as *unsupported*; the others it keeps. Everything that it does to the world goes through
its site: the database that ``site.connect`` opens, and ``site.sink``. Its process can die at each of these calls.
"""

from __future__ import annotations

import json
from typing import ClassVar

from impl import Answer, BaseDispatcher, NoAnswerError, Request, Site, Verdict
from impl.protocol import Json
from model.words import Capability, Kind

DONE = {Verdict.DONE: Kind.OK, Verdict.REPLAYED: Kind.REPLAYED}


class ToyDispatcher(BaseDispatcher):
    """Stores what is wanted, sends it, writes the receipt down. ``BaseDispatcher`` grants every claim."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset()

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.table = site.connect(site.folder / "toy.sqlite3")
        self.table.isolation_level = None  # each statement is a transaction of its own
        self.table.execute("PRAGMA synchronous = EXTRA")
        self.table.execute("CREATE TABLE IF NOT EXISTS wanted (key TEXT PRIMARY KEY, payload TEXT, receipt TEXT)")

    def close(self) -> None:
        """Let go of the table; the sink belongs to the site."""
        self.table.close()

    def submit(self, key: str, payload: Json) -> Answer:
        """Store the payload before saying so. The same one again is a replay, another one is refused."""
        text = json.dumps(payload, sort_keys=True)
        # INSERT OR IGNORE asks and writes in one statement: nobody can come in between.
        new = self.table.execute("INSERT OR IGNORE INTO wanted VALUES (?, ?, '')", (key, text)).rowcount
        stored, receipt = self._row(key)
        if stored != text:
            return Answer(Kind.REFUSED, "another payload holds the key")
        return Answer(Kind.OK if new else Kind.REPLAYED, receipt=receipt)

    def dispatch(self, key: str, token: int) -> Answer:
        """Answer from the table, or ask the sink what became of an earlier send, or send."""
        payload, receipt = self._row(key)
        if not payload:
            return Answer(Kind.REFUSED, "no such intent")
        if receipt:
            return Answer(Kind.REPLAYED, receipt=receipt)
        return self._send(key, json.loads(payload), token)

    def _send(self, key: str, payload: Json, token: int) -> Answer:
        try:
            # An earlier incarnation may have died after its send. The sink knows; this process does not.
            found = self.site.sink.lookup(key, payload, token)
            if found.verdict is Verdict.DONE:
                return self._record(key, Kind.REPLAYED, found.receipt)
            # The sink binds the key, so that a rival which sends at the same moment gets the same receipt.
            answer = self.site.sink.apply(Request(key, payload, token))
        except NoAnswerError:
            # It may have happened. Saying so is the whole point: the next dispatch will ask.
            return Answer(Kind.UNKNOWN, "no answer")
        if answer.verdict in DONE:
            return self._record(key, DONE[answer.verdict], answer.receipt)
        return Answer(Kind.ERROR, answer.verdict)

    def _record(self, key: str, kind: Kind, receipt: str) -> Answer:
        """The effect first, the record of it second: a record must not run ahead."""
        self.table.execute("UPDATE wanted SET receipt = ? WHERE key = ?", (receipt, key))
        return Answer(kind, receipt=receipt)

    def _row(self, key: str) -> tuple[str, str]:
        row: tuple[str, str] | None = self.table.execute(
            "SELECT payload, receipt FROM wanted WHERE key = ?", (key,)
        ).fetchone()
        return row or ("", "")


class MarksBeforeEffect(ToyDispatcher):
    """Mistake: it writes down that a key is done before it is, and believes its own note after a restart."""

    def _send(self, key: str, payload: Json, token: int) -> Answer:
        self._record(key, Kind.OK, "sent")
        return super()._send(key, payload, token)


class RetriesUnderNewKey(ToyDispatcher):
    """Mistake: when no answer comes it sends again at once, under a fresh key that the sink has never heard of."""

    def _send(self, key: str, payload: Json, token: int) -> Answer:
        answer = super()._send(key, payload, token)
        return super()._send(f"{key}-again", payload, token) if answer.kind is Kind.UNKNOWN else answer
