"""Mistakes of time: which clock is read, in which unit."""

from __future__ import annotations

from typing import Final

from impl.mistakes.registry import mistake
from impl.sqlite import Ledger
from impl.sqlite.rows import Entry
from impl.sqlite.rules import Operation

EPOCH_MS: Final = 1_700_000_000_000
"""From when these mistakes count on the wall clock: 2023-11-14 22:13:20 UTC."""


@mistake(
    "M117",
    "K21",
    "Time is read from the worker's wall clock, so that setting it ends a lease of another or keeps its own.",
    breaks="one-lease",
)
class WallClockForLeases(Ledger):
    """A clock that somebody may set measures how long a lease lasts."""

    def _now_ms(self) -> int:
        return self.clock.wall_ms() - EPOCH_MS


@mistake(
    "M118",
    "K21",
    "A lease's expiry is written by the clock that all share, and judged by each worker's wall clock.",
    breaks="one-lease",
)
class JudgedByAnotherClock(Ledger):
    """Two clocks stand on the two sides of one comparison."""

    def _lease_is_valid(self, entry: Entry, now_ms: int, operation: Operation) -> bool:
        return super()._lease_is_valid(entry, self.clock.wall_ms() - EPOCH_MS, operation)


@mistake("M120", "K21", "A lease's expiry in milliseconds is compared with seconds.", breaks="one-lease")
class SecondsForMilliseconds(Ledger):
    """A lease lasts a thousand times as long as it should."""

    def _lease_is_valid(self, entry: Entry, now_ms: int, operation: Operation) -> bool:
        return super()._lease_is_valid(entry, now_ms // 1000, operation)
