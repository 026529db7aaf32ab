"""Mistakes about what is done: the payload, its digest, and what is compared with it."""

from __future__ import annotations

import hashlib
import json

from impl.mistakes.registry import mistake
from impl.protocol import Json
from impl.sqlite import Ledger
from impl.sqlite.rows import Entry
from impl.sqlite.rules import Operation


@mistake("M065", "K11", "A second submission with another payload replaces the first.", breaks="right-payload")
class LastPayloadWins(Ledger):
    """What was approved is not what is stored."""

    def _may_change_payload(self, entry: Entry) -> bool:
        return True


@mistake(
    "M067",
    "K10",
    "The error path of a submission that was refused for its payload drops the lease on the key of the first.",
    breaks="refusal-changes-nothing",
)
class LoserTidiesUp(Ledger):
    """The loser of a race cleans up after the winner."""

    def _may_change_payload(self, entry: Entry) -> bool:
        may = super()._may_change_payload(entry)
        if not may:
            self._execute(self.DROP_LEASE, (entry.key,))
        return may


@mistake(
    "M069",
    "K10",
    "The digest is worked out again at the completion, of a payload that has got the receipt added to it.",
    breaks="right-payload",
)
class DigestOfChangedPayload(Ledger):
    """A retry of the very same wish is not known any more."""

    def _complete(self, entry: Entry, receipt: str, operation: Operation) -> None:
        super()._complete(entry, receipt, operation)
        digest = self._digest({"payload": self._sent_payload(entry), "receipt": receipt})
        self._execute("UPDATE intents SET digest = ? WHERE key = ?", (digest, entry.key))


@mistake(
    "M070",
    "K11",
    "The payload is not compared where the answer is at hand already.",
    breaks="right-payload",
)
class CachedAnswerForAnyPayload(Ledger):
    """Another wish under the same key is told that it is done."""

    def _is_same_payload(self, entry: Entry, digest: str) -> bool:
        return entry.receipt != "" or super()._is_same_payload(entry, digest)


@mistake("M071", "K11", "The statement that completes an intent drops its digest.", breaks="right-payload")
class CompletionDropsDigest(Ledger):
    """Nothing is left that a retry could be compared with."""

    COMPLETE = "UPDATE intents SET state = 'completed', receipt = ?, in_doubt = 0, digest = '' WHERE key = ?"


@mistake("M072", "K11", "The digest is taken of JSON whose members stand as they came.", breaks="right-payload")
class DigestOfUnorderedJson(Ledger):
    """Equal meaning gives two digests, and no grant fits."""

    def _digest(self, payload: Json) -> str:
        return hashlib.sha256(json.dumps(payload, separators=(",", ":")).encode()).hexdigest()


@mistake(
    "M087",
    "K19",
    "Arguments are normalised after the grant: digits in a string become a number on the way to the sink.",
    breaks="right-payload",
)
class NormalisedAfterGrant(Ledger):
    """What is sent is not what was approved."""

    def _sent_payload(self, entry: Entry) -> Json:
        payload = super()._sent_payload(entry)
        if not isinstance(payload, dict):
            return payload
        return {
            name: int(value) if isinstance(value, str) and value.isdecimal() else value
            for name, value in payload.items()
        }
