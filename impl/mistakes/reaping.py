"""Mistakes of recovery: what is cleared, and on which view of it."""

from __future__ import annotations

from impl.mistakes.registry import mistake
from impl.protocol import Answer, Overdue
from impl.sqlite import Ledger
from impl.sqlite.rows import Entry
from model.words import TERMINAL, State


@mistake(
    "M022",
    "K03",
    "The reaper puts what it saw overdue in doubt by its key alone, whatever has become of it since.",
    breaks="terminal-stays",
)
class ReapedByKeyAlone(Ledger):
    """An old view overwrites a new state."""

    def _reap_one(self, now_ms: int, seen: Overdue) -> bool:
        if not super()._reap_one(now_ms, seen):
            self._execute(self.DOUBT, (seen.key,))
        return True


@mistake(
    "M023",
    "K03",
    "The reaper drops the lease of a key that it saw overdue, without comparing token and expiry again.",
    breaks="lease-kept",
)
class ReapedWithoutToken(Ledger):
    """The lease that is cleared is another one than the lease that was seen."""

    def _reap_one(self, now_ms: int, seen: Overdue) -> bool:
        if not super()._reap_one(now_ms, seen):
            self._end_lease(seen.key, "reap")
        return True


@mistake(
    "M025",
    "K03",
    "The reaper takes the leases of its own process for leftovers of an earlier one.",
    breaks="lease-kept",
)
class ReapsItsOwn(Ledger):
    """A worker clears what it is working on."""

    def _is_overdue(self, entry: Entry, now_ms: int) -> bool:
        return entry.lease_owner == self.site.worker or super()._is_overdue(entry, now_ms)


@mistake(
    "M026",
    "K08",
    "The reaper drops a dead owner's lease first, and then finds no owner whose attempts it could look for.",
    breaks="conforms",
)
class OwnerPrunedFirst(Ledger):
    """An attempt is left in flight, and nobody has it in hand."""

    def _reap_one(self, now_ms: int, seen: Overdue) -> bool:
        entry = self._entry(seen.key)
        in_flight = entry is not None and entry.state == State.DISPATCHING
        reaped = super()._reap_one(now_ms, seen)
        if reaped and in_flight:
            self._execute("UPDATE intents SET state = 'dispatching', in_doubt = 0 WHERE key = ?", (seen.key,))
        return reaped


@mistake(
    "M077",
    "K12",
    "Each sweep of the reaper collects the records that have ended, though a retry may still ask for them.",
    breaks="intent-kept",
)
class SweepCollectsRecords(Ledger):
    """Whoever comes back after the sweep starts the effect anew."""

    def _reap(self, now_ms: int, seen: tuple[Overdue, ...]) -> Answer:
        answer = super()._reap(now_ms, seen)
        for state in TERMINAL:
            self._execute("DELETE FROM intents WHERE state = ?", (state.value,))
        return answer
