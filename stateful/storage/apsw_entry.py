"""The way into the copy of SQLite that ``apsw`` brings: its VFS, and connections that are gated and recorded as any."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from stateful.storage import apsw_library
from stateful.storage.apsw_connection import ApswConnection
from stateful.storage.apsw_cursor import ApswCursor
from stateful.storage.apsw_library import ApswLibrary
from stateful.storage.connections import RecordedConnection, RecordedCursor
from stateful.storage.recorder import Recorder
from stateful.storage.vfs import RecordingVfs


class RecordedApswCursor(RecordedCursor, ApswCursor):
    """A recorded cursor, whose statements ``apsw`` runs."""


class RecordedApswConnection(RecordedConnection, ApswConnection):
    """A recorded connection, whose statements ``apsw`` runs."""

    ungated = ApswConnection.execute

    def cursor(self, factory: Any = None, /) -> Any:
        """A cursor each of whose statements is a boundary."""
        return super().cursor(factory or RecordedApswCursor)


class ApswEntry:
    """The way into the SQLite of ``apsw``. Raises UnsupportedStorageError."""

    def __init__(self, recorder: Recorder) -> None:
        self.vfs = RecordingVfs(recorder, ApswLibrary())
        self.note = (
            f"recorded through apsw, with SQLite {apsw_library.version()}, "
            f"where the module sqlite3 has {sqlite3.sqlite_version}"
        )

    def recorded(self, name: str) -> RecordedConnection:
        """A connection that is recorded."""
        return RecordedApswConnection(name, vfs=self.vfs.name)

    def plain(self, name: str) -> sqlite3.Connection:
        """A connection that is not."""
        return ApswConnection(name)

    def reading(self, path: Path) -> sqlite3.Connection:
        """A connection that only reads, and is not recorded."""
        return ApswConnection(str(path), read_only=True)
