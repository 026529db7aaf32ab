"""A rig whose storage can be made to fail: SQLite's calls, the dispatcher's files, and locks that others hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from stateful.bench import SINK_FILE, Bench
from stateful.boundaries import Gate
from stateful.clock import SharedTime
from stateful.failing.files import FailingFiles
from stateful.medium import FolderMedium, View
from stateful.oracle import LEDGER_FILE
from stateful.storage.connections import RecordedConnection
from stateful.storage.medium import RecordingMedium
from stateful.storage.rig import RecordingRig
from stateful.storage.ways import Way

C = TypeVar("C", bound=sqlite3.Connection)
T = TypeVar("T")
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class FaultMedium(RecordingMedium):
    """A recording medium that counts how often a subject was told BUSY, and whose oracles recover what they look at."""

    told_busy = 0
    connections_asked_for = 0

    def __init__(self, folder: Path | None = None, *, way: Way | None = None) -> None:
        super().__init__(folder, way=way)
        self.read_only: set[str] = set()
        """The databases that nobody may write to, by their file names."""

    def connect(self, gate: Gate, path: Path) -> sqlite3.Connection:
        """A connection to a database, behind ``gate``."""
        self.connections_asked_for += 1
        return super().connect(gate, path)

    def look(self, path: Path) -> View:
        """A view that plays back a journal which a fault has left behind, as any process would that came next."""
        return View(self.stranger(path))

    def _open(self, name: str, factory: type[C]) -> C:
        connection = super()._open(name, factory)
        if isinstance(connection, RecordedConnection):
            checked = connection.checked

            def counted(call: Callable[..., T], *arguments: Any) -> T:
                try:
                    return checked(call, *arguments)
                except sqlite3.Error as error:
                    self.told_busy += getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY
                    raise

            connection.checked = counted  # type: ignore[method-assign]
            connection.ungated("PRAGMA busy_timeout = 0")  # nobody waits for what will not come
            if Path(name).name in self.read_only:
                # The same errors as with a file that may not be written, which no file is for root.
                connection.ungated("PRAGMA query_only = ON")
        return connection


class FaultRig(RecordingRig):
    """A recording rig of which any part can fail. ``recording.recorder.plan`` and ``files.plan`` say how."""

    recording: FaultMedium
    files: FailingFiles

    def databases(self) -> dict[str, Path]:
        """The databases by their file names."""
        return {path.name: self.medium.folder / path for path in (Path(LEDGER_FILE), SINK_FILE)}

    def _new_medium(self, *, in_memory: bool, folder: Path | None) -> FolderMedium:
        self.recording = FaultMedium(folder, way=self._way)
        return self.recording

    def _new_bench(self, time: SharedTime) -> Bench:
        self.files = FailingFiles(self.recording.files)
        return Bench(self.subject, self.model, self.medium, time=time, files=self.files)
