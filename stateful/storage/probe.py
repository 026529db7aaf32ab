"""Whether a folder's file system syncs files and folders: where it does not, nothing recorded there means anything."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from stateful.storage.abi import UnsupportedStorageError

_MOUNTS = Path("/proc/self/mountinfo")


def check_syncs(folder: Path) -> None:
    """Sync a new file in a folder, and the folder. Raises UnsupportedStorageError where one of them cannot be done."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(b"?")
        probe.flush()
        _sync(folder, probe.fileno(), "a file")
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(folder, handle, "a folder")
    finally:
        os.close(handle)


def _sync(folder: Path, handle: int, what: str) -> None:
    try:
        os.fsync(handle)
    except OSError as error:
        raise UnsupportedStorageError(
            f"{folder} is on a file system{_kind(folder)} that does not sync {what} ({error.strerror}): nothing written "
            "there is ever known to be durable; make /dev/shm writable, or set TMPDIR to a folder on another file system"
        ) from error


def _kind(folder: Path) -> str:
    """The type of a folder's file system, in brackets; empty where the system does not tell."""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return ""
    device = folder.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    kinds = [line.partition(" - ")[2].split(" ")[0] for line in lines if line.split(" ")[2] == wanted]
    return f" ({kinds[0]})" if kinds else ""
