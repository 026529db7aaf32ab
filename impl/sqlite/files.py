"""File operations on the real file system."""

from __future__ import annotations

import os
from pathlib import Path

_CHUNK_BYTES = 1 << 16


class RealFiles:
    """What a dispatcher does with files, done by the operating system."""

    def read(self, path: Path) -> bytes | None:
        """The file's content, or None if there is no such file."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            chunks = []
            while chunk := os.read(fd, _CHUNK_BYTES):
                chunks.append(chunk)
        finally:
            os.close(fd)
        return b"".join(chunks)

    def write_new(self, path: Path, data: bytes) -> None:
        """Create or truncate ``path`` and write ``data``; not durable before ``sync``."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
        finally:
            os.close(fd)

    def sync(self, path: Path) -> None:
        """Make the file's content durable."""
        _fsync(path, os.O_RDONLY)

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` by ``source`` atomically; not durable before ``sync_folder``."""
        os.replace(source, target)  # noqa: PTH105  # the layer of system calls

    def sync_folder(self, folder: Path) -> None:
        """Make the folder's names durable."""
        _fsync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _fsync(path: Path, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
