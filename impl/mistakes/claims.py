"""Mistakes of the claim: who gets a key, and with which token."""

from __future__ import annotations

import zlib

from impl.mistakes.registry import mistake
from impl.protocol import Answer, Request
from impl.sqlite import Ledger
from impl.sqlite.rows import Entry
from model.words import IN_FLIGHT, Kind, State


@mistake("M002", "K02", "The token is not raised when a key is claimed again.", breaks="no-stale-token")
class TokenNotRaised(Ledger):
    """Each owner of a key gets the token of the first."""

    def _next_token(self, entry: Entry) -> int:
        return max(entry.token_high, 1)


@mistake(
    "M003",
    "K02",
    "The token is made of the worker's name, which is used again after a restart.",
    breaks="no-stale-token",
)
class TokenIsName(Ledger):
    """Two incarnations of one name cannot be told apart, and tokens do not rise."""

    def _next_token(self, entry: Entry) -> int:
        return zlib.crc32(self.site.worker.encode())


@mistake(
    "M016",
    "K09",
    "A claim looks for keys that nobody works on by their state, which the claim itself does not change.",
    breaks="one-lease",
)
class FilterFieldNotStamped(Ledger):
    """Between the claim and the dispatch a key still looks free."""

    def _bars_claim(self, entry: Entry, now_ms: int) -> bool:
        return entry.state in IN_FLIGHT and super()._bars_claim(entry, now_ms)


@mistake(
    "M018",
    "K09",
    "A claim inserts its lease unless there is one, does not look at the row count, and reads back another's lease.",
    breaks="no-stale-token",
)
class RowCountNotChecked(Ledger):
    """The loser of a claim is told the winner's token."""

    def _claim(self, now_ms: int, key: str, known_to_sink: int) -> Answer | Request:
        entry = self._entry(key)
        if entry is not None and self._bars_claim(entry, now_ms):
            return Answer(Kind.OK, token=entry.lease_token)
        return super()._claim(now_ms, key, known_to_sink)


@mistake("M021", "K01", "A worker may claim what it already has in hand.", breaks="one-lease")
class OwnLeaseDoesNotBar(Ledger):
    """A second task of one worker joins the first."""

    def _bars_claim(self, entry: Entry, now_ms: int) -> bool:
        return entry.lease_owner != self.site.worker and super()._bars_claim(entry, now_ms)


@mistake(
    "M024",
    "K03",
    "The cut-off of a takeover is inclusive by one tick: a lease is taken over in its last millisecond.",
    breaks="one-lease",
)
class TakeoverOneTickEarly(Ledger):
    """The owner and its successor each think that the last tick is theirs."""

    def _bars_claim(self, entry: Entry, now_ms: int) -> bool:
        return super()._bars_claim(entry, now_ms + 1)


@mistake(
    "M032",
    "K10",
    "An attempt in flight bars every claim, and that mark has no expiry.",
    breaks="progress",
)
class MarkerWithoutExpiry(Ledger):
    """Whoever dies in an attempt leaves a key that nobody can take over."""

    def _bars_claim(self, entry: Entry, now_ms: int) -> bool:
        return entry.state in IN_FLIGHT or super()._bars_claim(entry, now_ms)


@mistake(
    "M036",
    "K04",
    "An intent is taken off the ledger when a worker claims it.",
    breaks="intent-kept",
)
class DeletedOnClaim(Ledger):
    """A queue that forgets what it hands out."""

    RAISE_HIGHEST = "DELETE FROM intents WHERE ? > 0 AND key = ?"


@mistake(
    "M014",
    "K01",
    "A key is taken over while its former owner still has a send under way, and the sink is not told.",
    breaks="no-stale-token",
)
class TakeoverUnknownToSink(Ledger):
    """A send that was frozen on its way lands after the newer grant."""

    def _must_tell_sink(self, entry: Entry) -> bool:
        return False


@mistake(
    "M115",
    "K16",
    "A claim resumes an intent that was cancelled.",
    breaks="cancel-honoured",
)
class CancelledIsClaimed(Ledger):
    """The path by which work is resumed has no check of its own."""

    def _claim(self, now_ms: int, key: str, known_to_sink: int) -> Answer | Request:
        entry = self._entry(key)
        if entry is None or entry.state != State.CANCELLED:
            return super()._claim(now_ms, key, known_to_sink)
        token = self._next_token(entry)
        self._execute(self.RAISE_HIGHEST, (token, key))
        self._lease(key, token, now_ms)
        return Answer(Kind.OK, token=token)
