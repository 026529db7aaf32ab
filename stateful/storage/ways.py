"""The ways into SQLite: the library of the module ``sqlite3`` where it can be reached, or else the package ``apsw``.

``apsw`` brings a copy of SQLite of its own, another version as a rule. It is imported only where it is needed.
"""

from __future__ import annotations

import sqlite3
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from stateful.storage.abi import OwnLibrary, UnsupportedStorageError
from stateful.storage.connections import RecordedConnection
from stateful.storage.recorder import Recorder
from stateful.storage.vfs import RecordingVfs

REMEDY = "pip install 'survives[power]'"


class Way(StrEnum):
    """How a recorder gets into SQLite."""

    CTYPES = "ctypes"
    """Into the library that the module ``sqlite3`` is linked to."""
    APSW = "apsw"
    """Into the one that the package ``apsw`` brings."""


class Entry(Protocol):
    """One recorder's way into one copy of SQLite, and how its databases are opened."""

    vfs: RecordingVfs
    note: str
    """What a verdict has to say of this copy; empty for the module's own."""

    def recorded(self, name: str) -> RecordedConnection:
        """A connection that is recorded. It still needs its recorder. Raises sqlite3.Error."""

    def plain(self, name: str) -> sqlite3.Connection:
        """A connection that is not. Raises sqlite3.Error."""

    def reading(self, path: Path) -> sqlite3.Connection:
        """A connection that only reads, and is not recorded. Raises sqlite3.Error."""


class OwnEntry:
    """The way into the library that the module ``sqlite3`` uses. Raises UnsupportedStorageError."""

    note = ""

    def __init__(self, recorder: Recorder) -> None:
        self.vfs = RecordingVfs(recorder, OwnLibrary())

    def recorded(self, name: str) -> RecordedConnection:
        """A connection that is recorded."""
        uri = f"file:{quote(name)}?vfs={self.vfs.name}"
        return sqlite3.connect(uri, uri=True, isolation_level=None, factory=RecordedConnection)

    def plain(self, name: str) -> sqlite3.Connection:
        """A connection that is not."""
        return sqlite3.connect(name, isolation_level=None)

    def reading(self, path: Path) -> sqlite3.Connection:
        """A connection that only reads, and is not recorded."""
        return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)


def entered(recorder: Recorder, way: Way | None = None) -> Entry:
    """A recorder's way into SQLite: the one that is asked for, or else the first that there is.

    Raises UnsupportedStorageError, with the reason why each of them is closed.
    """
    if way is Way.APSW:
        return _through_apsw(recorder)
    try:
        return OwnEntry(recorder)
    except UnsupportedStorageError as closed:
        if way is Way.CTYPES:
            raise
        try:
            return _through_apsw(recorder)
        except UnsupportedStorageError as also:
            raise UnsupportedStorageError(f"{closed}; nor is there another way in: {also}") from also


def _through_apsw(recorder: Recorder) -> Entry:
    try:
        from stateful.storage.apsw_entry import ApswEntry
    except ImportError as error:
        raise UnsupportedStorageError(f"apsw cannot be imported ({error}); {REMEDY}") from error
    return ApswEntry(recorder)
