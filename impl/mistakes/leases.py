"""Mistakes of a lease's life: how long it lasts, and who may use, renew or end it."""

from __future__ import annotations

from impl.mistakes.registry import mistake
from impl.sqlite import Ledger
from impl.sqlite.rows import Entry
from impl.sqlite.rules import Operation


@mistake("M008", "K02", "A renewal does not compare the token.", breaks="no-stale-token")
class RenewIgnoresToken(Ledger):
    """A former owner renews its successor's lease, and makes it its own."""

    def _is_lease_token(self, entry: Entry, token: int, operation: Operation) -> bool:
        return operation == "renew" or super()._is_lease_token(entry, token, operation)


@mistake("M009", "K02", "A lease that ran out is renewed.", breaks="one-lease")
class RenewAfterExpiry(Ledger):
    """A worker comes back from the dead without asking."""

    def _lease_is_valid(self, entry: Entry, now_ms: int, operation: Operation) -> bool:
        return operation == "renew" or super()._lease_is_valid(entry, now_ms, operation)


@mistake(
    "M015",
    "K01",
    "The lease starts when the intent was submitted, and not when it is claimed.",
    breaks="progress",
)
class LeaseStartsAtSubmission(Ledger):
    """What waited for longer than a lease is handed out with a lease that is over."""

    def _lease(self, key: str, token: int, now_ms: int) -> None:
        entry = self._entry(key)
        submitted_ms = now_ms if entry is None else entry.deadline_ms - self.limits.deadline_ms
        super()._lease(key, token, submitted_ms)


@mistake(
    "M020",
    "K08",
    "A lease's expiry is stored, and neither a claim nor the reaper looks at it.",
    breaks="progress",
)
class ExpiryNeverEnforced(Ledger):
    """The lease of a dead worker is never over."""

    def _lease_is_valid(self, entry: Entry, now_ms: int, operation: Operation) -> bool:
        if operation in {"claim", "reap"}:
            return entry.lease_token > 0
        return super()._lease_is_valid(entry, now_ms, operation)


@mistake(
    "M027",
    "K08",
    "A lease in a worker's own name counts as alive to it, so that a worker that restarts cannot take over its own.",
    breaks="progress",
)
class OwnNameLooksAlive(Ledger):
    """With one name for all incarnations an orphan has a living parent."""

    def _lease_is_valid(self, entry: Entry, now_ms: int, operation: Operation) -> bool:
        orphaned = operation in {"claim", "reap"} and entry.lease_owner == self.site.worker
        return orphaned or super()._lease_is_valid(entry, now_ms, operation)


@mistake(
    "M033",
    "K12",
    "The lease lasts as long as the deadline is away, and not as long as a lease.",
    breaks="conforms",
)
class LeaseGetsLongLifetime(Ledger):
    """A mark that is to last for seconds is given the life of the record that it marks."""

    def _lease_expiry_ms(self, now_ms: int) -> int:
        return now_ms + self.limits.deadline_ms


@mistake(
    "M061",
    "K24",
    "A worker that wakes without the lease is authorised all the same, whoever has the key in hand.",
    breaks="no-stale-token",
)
class DispatchIgnoresToken(Ledger):
    """What is in flight under one worker is started by another."""

    def _is_lease_token(self, entry: Entry, token: int, operation: Operation) -> bool:
        return operation == "dispatch" or super()._is_lease_token(entry, token, operation)


@mistake(
    "M136",
    "K08",
    "A lease is ended by the worker that holds it and by nobody else, however long ago it ran out.",
    breaks="progress",
)
class OnlyTheOwnerUnlocks(Ledger):
    """A lock outlives the process that took it."""

    def _lease_is_valid(self, entry: Entry, now_ms: int, operation: Operation) -> bool:
        if operation in {"claim", "reap"} and entry.lease_owner not in {"", self.site.worker}:
            return True
        return super()._lease_is_valid(entry, now_ms, operation)
