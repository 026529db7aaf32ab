"""A file layer that does the real thing and records it into the same log as the databases."""

from __future__ import annotations

import os
from pathlib import Path

from impl.protocol import Files
from impl.sqlite import RealFiles
from stateful.storage.log import Log
from stateful.storage.recorder import Recorder


class RecordingFiles:
    """What a dispatcher does with files, recorded while its recorder records."""

    def __init__(self, recorder: Recorder, files: Files | None = None) -> None:
        self._recorder = recorder
        self._files = files or RealFiles()

    def _recorded(self, path: Path) -> tuple[Log | None, str]:
        """The log that is written to, and the path in it; no log for a file elsewhere."""
        relative = self._recorder.relative(os.path.abspath(path))  # noqa: PTH100 - a symbolic link stays one
        return (None, "") if relative is None else (self._recorder.log, relative)

    def read(self, path: Path) -> bytes | None:
        """The file's content, or None if there is no such file."""
        return self._files.read(path)

    def write_new(self, path: Path, data: bytes) -> None:
        """Create or truncate ``path`` and write ``data``: two operations, and no sync."""
        log, name = self._recorded(path)
        before = None if log is None else log.inode_of(name)
        self._files.write_new(path, data)
        if log is None:
            return
        if before is None:
            before = log.create(name)
        else:
            log.truncate(before, 0)
        if data:
            log.write(before, 0, bytes(data))

    def sync(self, path: Path) -> None:
        """Make the file's content durable."""
        self._files.sync(path)
        log, name = self._recorded(path)
        inode = None if log is None else log.inode_of(name)
        if log is not None and inode is not None:
            log.sync(inode)

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` by ``source`` atomically."""
        self._files.rename(source, target)
        log, old = self._recorded(source)
        _, new = self._recorded(target)
        if log is not None and new:
            log.rename(old, new)

    def sync_folder(self, folder: Path) -> None:
        """Make the folder's names durable."""
        self._files.sync_folder(folder)
        log, name = self._recorded(folder)
        if log is not None:
            log.sync_folder(name)
