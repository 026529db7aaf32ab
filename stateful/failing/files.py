"""A file layer that fails: what a dispatcher does with files, until the n-th operation raises an OSError."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from attrs import define, field

from impl.protocol import Files


@define
class FilePlan:
    """Fails the file operation number ``at`` (from 1), or each from then on, with an error number."""

    at: int
    number: int
    from_then_on: bool = False
    met: int = field(default=0, init=False)
    fired: int = field(default=0, init=False)

    def before(self, path: Path) -> None:
        """Count one operation. Raises OSError if it is to fail."""
        self.met += 1
        if self.met == self.at or (self.from_then_on and self.met > self.at):
            self.fired += 1
            raise OSError(self.number, os.strerror(self.number), str(path))


class FailingFiles:
    """A file layer whose ``plan``, while there is one, is asked before each operation."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.plan: FilePlan | None = None

    def _ask(self, path: Path) -> None:
        if self.plan is not None:
            self.plan.before(path)

    def read(self, path: Path) -> bytes | None:
        """The file's content, or None. A disk that is full can still be read."""
        if self.plan is not None and self.plan.number != errno.ENOSPC:
            self.plan.before(path)
        return self._files.read(path)

    def write_new(self, path: Path, data: bytes) -> None:
        """Create or truncate ``path`` and write ``data``; of a write that fails one half is there."""
        try:
            self._ask(path)
        except OSError:
            self._files.write_new(path, data[: len(data) // 2])
            raise
        self._files.write_new(path, data)

    def sync(self, path: Path) -> None:
        """Make the file's content durable."""
        self._ask(path)
        self._files.sync(path)

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` by ``source`` atomically."""
        self._ask(target)
        self._files.rename(source, target)

    def sync_folder(self, folder: Path) -> None:
        """Make the folder's names durable."""
        self._ask(folder)
        self._files.sync_folder(folder)
