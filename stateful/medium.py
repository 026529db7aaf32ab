"""Where a subject's stores live: files in a folder in memory-backed storage, or SQLite databases in memory.

Files are real and slow; databases in memory run the same SQLite code without the file system, for volume. Either is
reset by putting back a template that the subject itself made when it was first opened.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

from stateful.boundaries import Gate, GatedConnection

_serial = itertools.count()
scratch: Path | None = None
"""Where temporary folders go, if somebody else removes them all in the end."""


def fast_folder(prefix: str = "survives-") -> Path:
    """A new temporary folder, in memory-backed storage where there is some."""
    shared_memory = Path("/dev/shm")  # noqa: S108 - mkdtemp makes a private folder in it
    root = scratch or (shared_memory if os.access(shared_memory, os.W_OK) else None)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=root))


class FolderMedium:
    """Stores as files in ``folder``."""

    in_memory = False

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or fast_folder()
        self._owned = folder is None

    def connect(self, gate: Gate, path: Path) -> sqlite3.Connection:
        """A connection to a database file, behind ``gate``."""
        connection = sqlite3.connect(path, isolation_level=None, factory=GatedConnection)
        connection.gate = gate
        connection.store = path.name
        return connection

    def look(self, path: Path) -> sqlite3.Connection:
        """A connection for an oracle: no gate, and it only reads."""
        return sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)

    def read(self, path: Path) -> bytes | None:
        """A file's content, for an oracle."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def snapshot(self) -> dict[str, bytes]:
        """Every file below the folder, by its relative name."""
        return {
            str(p.relative_to(self.folder)): p.read_bytes() for p in sorted(self.folder.rglob("*")) if p.is_file()
        }

    def restore(self, files: dict[str, bytes]) -> None:
        """Make the files below the folder exactly ``files``."""
        for root, folders, names in os.walk(self.folder):
            for name in names:
                relative = os.path.relpath(os.path.join(root, name), self.folder)  # noqa: PTH118 - hot
                if relative not in files:
                    os.unlink(os.path.join(root, name))  # noqa: PTH108, PTH118 - hot
            del folders
        for relative, data in files.items():
            path = os.path.join(self.folder, relative)  # noqa: PTH118 - hot
            try:
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - hot
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(handle, data)
            os.close(handle)

    def close(self) -> None:
        """Remove the folder if it was made here."""
        if self._owned:
            shutil.rmtree(self.folder, ignore_errors=True)


class MemoryMedium(FolderMedium):
    """Databases in memory, shared by the connections of this process, and pooled.

    The folder is still there for the files that are no databases.
    """

    in_memory = True

    def __init__(self) -> None:
        super().__init__()
        self._name = f"survives-{os.getpid()}-{next(_serial)}"
        self._idle: dict[str, list[GatedConnection]] = {}
        self._anchors: dict[str, sqlite3.Connection] = {}
        self._templates: dict[str, sqlite3.Connection] = {}

    def _uri(self, path: Path) -> str:
        return f"file:/{self._name}-{path.name}?vfs=memdb"

    def connect(self, gate: Gate, path: Path) -> sqlite3.Connection:
        """A connection to the database in memory that stands for ``path``, behind ``gate``."""
        idle = self._idle.setdefault(path.name, [])
        if idle:
            connection = idle.pop()
        else:
            if path.name not in self._anchors:
                self._anchors[path.name] = sqlite3.connect(self._uri(path), uri=True, isolation_level=None)
            connection = sqlite3.connect(self._uri(path), uri=True, isolation_level=None, factory=GatedConnection)
            connection.store = path.name
            connection.release = self._release
        connection.gate = gate
        return connection

    def _release(self, connection: GatedConnection) -> None:
        if connection in self._idle[connection.store]:
            return
        if connection.in_transaction:
            connection.rollback()
        self._idle[connection.store].append(connection)

    def look(self, path: Path) -> sqlite3.Connection:
        """A connection for an oracle."""
        return sqlite3.connect(self._uri(path), uri=True, isolation_level=None)

    def snapshot(self) -> dict[str, bytes]:
        """The files below the folder; the databases are kept as templates."""
        for name, anchor in self._anchors.items():
            template = self._templates[name] = sqlite3.connect(":memory:")
            anchor.backup(template)
        return super().snapshot()

    def restore(self, files: dict[str, bytes]) -> None:
        """Put the templates back."""
        for name, template in self._templates.items():
            template.backup(self._anchors[name])
        super().restore(files)

    def close(self) -> None:
        """Close every connection and remove the folder."""
        for idle in self._idle.values():
            for connection in idle:
                sqlite3.Connection.close(connection)
        for connection in (*self._anchors.values(), *self._templates.values()):
            connection.close()
        super().close()
