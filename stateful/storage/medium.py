"""A medium whose databases and files are recorded: a whole rig runs on it as on a folder."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, TypeVar

from stateful.boundaries import GatedConnection
from stateful.medium import FolderMedium, View
from stateful.storage.abi import UnsupportedStorageError
from stateful.storage.disk import Disk, Pending
from stateful.storage.files import RecordingFiles
from stateful.storage.log import Forget, Log
from stateful.storage.probe import check_syncs
from stateful.storage.recorder import Recorder
from stateful.storage.ways import Way, entered

C = TypeVar("C", bound=sqlite3.Connection)
_SHARED_MEMORY = "-shm"
"""Gone after a power cut, and made anew by whoever opens the database next."""


def _data(disk: Disk) -> tuple[Pending, ...]:
    return tuple(p for p in disk.pending if p.is_data)


def _names(disk: Disk) -> tuple[Pending, ...]:
    return tuple(p for p in disk.pending if not p.is_data)


class RecordingMedium(FolderMedium):
    """Stores as files in ``folder``, recorded from ``start_recording`` until ``stop_recording``.

    ``recorder.plan`` makes SQLite's storage calls fail, recorded or not. Putting stores back ends a recording: the
    harness writes them, and not a subject. Every connection to the folder's databases, the harness's own too, goes
    through the copy of SQLite that is recorded: two copies in one process take each other's locks away.

    ``way`` forces one way into SQLite. Raises UnsupportedStorageError where SQLite cannot be recorded, or the folder's
    file system does not sync.
    """

    def __init__(self, folder: Path | None = None, *, way: Way | None = None) -> None:
        super().__init__(folder)
        self.recorder = Recorder(self.folder)
        try:
            check_syncs(self.folder)
            self._entry = entered(self.recorder, way)
        except UnsupportedStorageError:
            super().close()
            raise
        self.files = RecordingFiles(self.recorder)
        """The file layer that a bench gives to its dispatchers."""
        self.sqlite_note = self._entry.note

    @property
    def log(self) -> Log | None:
        """The log that is being written, if any."""
        return self.recorder.log

    def start_recording(self) -> Log:
        """Record from now on; the log's base is the files as they are. No transaction may be under way."""
        return self.recorder.start(self.snapshot())

    def stop_recording(self) -> None:
        """Record no more. What was raised inside SQLite's calls, and has not surfaced, is raised."""
        self.recorder.stop()

    def strays(self, log: Log) -> list[str]:
        """The files that are not what the log says: somebody wrote them who was not recorded.

        A file of which a failed sync has lost something differs by right, and is not named.
        """
        recorded, real = Disk.after(log).files(), self.snapshot()
        forgotten = {log.path_of(o.inode) for o in log.operations if isinstance(o, Forget)}
        return sorted(p for p in {*recorded, *real} - forgotten if recorded.get(p) != real.get(p))

    def left_by_power_cut(self, lost: str) -> dict[str, bytes] | None:
        """What the log says is on disk if everything that is pending is lost, or nothing, or only data or names.

        None where somebody wrote files by ways that are not recorded.
        """
        if self.log is None or self.strays(self.log):
            return None
        disk = Disk.after(self.log)
        kept = {"everything": (), "names": _data(disk), "data": _names(disk), "nothing": None}[lost]
        return dict(disk.files(kept))

    def come_back(self, files: dict[str, bytes]) -> None:
        """Go on with what a power cut has left, recorded as before."""
        self.restore(files)
        self.start_recording()

    def snapshot(self) -> dict[str, bytes]:
        """Every file below the folder, by its relative name, but for the memory that SQLite's connections share."""
        return {path: data for path, data in super().snapshot().items() if not path.endswith(_SHARED_MEMORY)}

    def restore(self, files: dict[str, bytes]) -> None:
        """Make the files below the folder exactly ``files``, and record no more."""
        self.stop_recording()
        super().restore(files)

    def close(self) -> None:
        """Close what is open, and remove the folder if it was made here; then raise what has not surfaced."""
        self._entry.vfs.close()
        super().close()
        self.recorder.surface()

    def look(self, path: Path) -> View:
        """A view for an oracle."""
        return View(self._entry.reading(path), path)

    def stranger(self, path: Path) -> sqlite3.Connection:
        """A connection of somebody else's to one of the databases: neither gated nor recorded."""
        return self._entry.plain(str(path))

    def _open(self, name: str, factory: type[C]) -> C:
        connection: Any
        if not issubclass(factory, GatedConnection):
            connection = self._entry.plain(name)
            return connection  # type: ignore[no-any-return]
        try:
            connection = self._entry.recorded(name)
        except sqlite3.Error as error:
            self.recorder.surface(error)
            raise
        connection.recorder = self.recorder
        return connection  # type: ignore[no-any-return]  # a subclass of what was asked for

    def _raise_anchors(self, databases: list[str]) -> None:
        """None: an anchor would be a writer that is not recorded. Stores are put back as bytes."""
