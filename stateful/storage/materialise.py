"""Crash states as real files: what a power cut left is put into a folder, and databases are looked into."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from stateful.storage.log import Files

_UNTOUCHED_NS = 0
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


def materialise(files: Files, folder: Path, previous: Files | None = None) -> None:
    """Make the files below ``folder`` exactly ``files``; nobody may have one of them open.

    ``previous`` is what was materialised there last, whatever has been done to it since: what has not changed is not
    written again. Files get a time of change in 1970, so that whoever has written to one shows.
    """
    held = previous or {}
    root = str(folder)
    unwritten = set(files)
    for path in list(_below(root, "")):
        full = f"{root}/{path}"
        data = files.get(path)
        if data is None:
            os.unlink(full)  # noqa: PTH108 - hot
        elif held.get(path) == data and os.stat(full).st_mtime_ns == _UNTOUCHED_NS:  # noqa: PTH116
            unwritten.discard(path)
    for path in sorted(unwritten):
        _write(f"{root}/{path}", files[path])


def _below(root: str, prefix: str) -> Iterator[str]:
    """The relative paths of all files below a folder."""
    with os.scandir(f"{root}/{prefix}") as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _below(root, f"{prefix}{entry.name}/")
            else:
                yield prefix + entry.name


def _write(path: str, data: bytes) -> None:
    try:
        handle = os.open(path, _FLAGS, 0o600)
    except FileNotFoundError:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, _FLAGS, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.utime(handle, ns=(_UNTOUCHED_NS, _UNTOUCHED_NS))
    finally:
        os.close(handle)


def opened(path: Path) -> sqlite3.Connection:
    """A connection to a materialised database, to recover it and read it; what it writes need not last.

    Raises sqlite3.DatabaseError if the database cannot be recovered.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = OFF")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def damage(path: Path) -> str:
    """Why a materialised database is corrupt, found by recovering it and checking each page; empty if it is not."""
    try:
        with closing(opened(path)) as connection:
            rows = connection.execute("PRAGMA integrity_check").fetchall()
    except sqlite3.DatabaseError as error:
        return str(error)
    return "" if rows == [("ok",)] else "; ".join(str(row[0]) for row in rows)
