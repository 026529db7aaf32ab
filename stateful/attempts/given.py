"""What a worker is given on a virtual clock: files in memory, the loop's clock, draws that are no gamble."""

from __future__ import annotations

from pathlib import Path

from stateful.clock import EPOCH_MS
from stateful.virtual import VirtualLoop


class Longest:
    """Draws that are always the largest: the longest waits, and the same ones each time."""

    @staticmethod
    def randint(a: int, b: int) -> int:
        """The upper bound."""
        return b


class MemoryFiles:
    """Files that are kept in memory: what a checkpoint is worth on disk is another engine's question."""

    def __init__(self) -> None:
        self.content: dict[Path, bytes] = {}

    def read(self, path: Path) -> bytes | None:
        """The content, or None."""
        return self.content.get(path)

    def write_new(self, path: Path, data: bytes) -> None:
        """Write a file."""
        self.content[path] = data

    def sync(self, path: Path) -> None:
        """Nothing."""

    def rename(self, source: Path, target: Path) -> None:
        """Replace a file by another."""
        self.content[target] = self.content.pop(source)

    def sync_folder(self, folder: Path) -> None:
        """Nothing."""


class LoopClock:
    """The clock of all workers: the loop's."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        """Milliseconds on the shared clock."""
        return self._loop.now_us // 1000

    def wall_ms(self) -> int:
        """Milliseconds on the wall."""
        return EPOCH_MS + self.now_ms()
