"""Logical time: one clock that all workers share, and a wall clock for each that may be wrong."""

from __future__ import annotations

import mmap
import struct

EPOCH_MS = 1_700_000_000_000
"""Where every wall clock starts, plus the worker's offset."""


class SharedTime:
    """The one clock of a system, in milliseconds. It moves when an engine says so, and never back."""

    def __init__(self) -> None:
        self.now_ms = 0


class SharedTimeAcrossProcesses(SharedTime):
    """The same, in memory that forked children share: a stopped process wakes up to the present time."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)

    @property
    def now_ms(self) -> int:
        """The present, as every process sees it."""
        now: int = struct.unpack("<q", self._memory[:8])[0]
        return now

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        self._memory[:8] = struct.pack("<q", value)


class LogicalClock:
    """One worker's view of the time."""

    def __init__(self, time: SharedTime) -> None:
        self._time = time
        self.wall_offset_ms = 0

    def now_ms(self) -> int:
        """Milliseconds on the shared clock."""
        return self._time.now_ms

    def wall_ms(self) -> int:
        """Milliseconds on this worker's wall clock."""
        return EPOCH_MS + self._time.now_ms + self.wall_offset_ms
