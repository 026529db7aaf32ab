"""Where a subject's stores live: files in a folder in memory-backed storage, or SQLite databases in memory.

Files are real and slow; databases in memory run the same SQLite code without the file system, for volume. Either is
reset by putting back a template that the subject itself made when it was first opened.

Opening a database costs more than a step. Connections are therefore pooled: one that its process has closed, or died
with, serves the next process, its transaction rolled back. Putting the template back is a transaction of SQLite's
own, so that every connection that is still open notices. What SQLite keeps for a connection alone (pragmas, temporary
tables) outlives a process here; the kills engine, which forks, opens each connection anew.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from stateful.boundaries import Gate, GatedConnection
from stateful.trouble import NoRoomError

C = TypeVar("C", bound=sqlite3.Connection)

_serial = itertools.count()
scratch: Path | None = None
"""Where temporary folders go, if somebody else removes them all in the end."""

RUN_PREFIX, OWNER = "survives-run-", ".owner"
SCARCE_BYTES = 16 << 20
PROBE_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 16
_HEADER = slice(18, 40)
_ROLLBACK_JOURNAL = b"\x01\x01"
"""The file format's write and read version, at offset 18; a write-ahead log has 2. The change counter that every
commit raises stands at offset 24. https://www.sqlite.org/fileformat2.html#the_database_header"""
_HEADER_BYTES, _COUNTER, _SCHEMA, _VALID_FOR, _WORD = 100, 24, 40, 92, 0xFFFFFFFF
"""How long the header is, and where it has the change counter, the schema's version, and the counter for which the
size and the version in it are valid: 32 bits each."""


def fast_folder(prefix: str = "survives-") -> Path:
    """A new temporary folder, in memory-backed storage where there is some. Raises NoRoomError."""
    root = scratch or _root()
    try:
        return Path(tempfile.mkdtemp(prefix=prefix, dir=root))
    except OSError as error:
        raise NoRoomError(_no_room(root, error)) from error


def _root() -> Path:
    """Where temporary folders go: memory, unless it is all but full and TMPDIR names another place."""
    memory = Path("/dev/shm")  # noqa: S108 - mkdtemp makes a private folder in it
    if not os.access(memory, os.W_OK):
        return Path(tempfile.gettempdir())
    free = os.statvfs(memory)
    scarce = free.f_bavail * free.f_frsize < SCARCE_BYTES
    return Path(os.environ["TMPDIR"]) if scarce and os.environ.get("TMPDIR") else memory


def no_room(folder: Path) -> str:
    """Why a folder can take no more, and what to do; empty if it can."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
    except OSError as error:
        return _no_room(folder, error)
    return ""


def _no_room(folder: Path, error: OSError) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"no space left in {folder}; free some or set TMPDIR"
    return f"{folder} cannot be written: {error.strerror}; make it writable or set TMPDIR"


def run_folder() -> tuple[Path, int]:
    """A folder for one run, and the handle of the lock that shows others that its owner lives.

    Folders of runs whose owner has gone, by SIGKILL for one, are removed.
    """
    _sweep(scratch or _root())
    folder = fast_folder(f"{RUN_PREFIX}{os.getpid()}-")
    try:
        handle = os.open(folder / OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise NoRoomError(_no_room(folder.parent, error)) from error
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return folder, handle


@contextmanager
def run_scratch() -> Iterator[Path]:
    """A folder for one run, removed in the end; one whose owner was killed is removed by whoever runs next."""
    folder, lock = run_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _sweep(root: Path) -> None:
    for folder in root.glob(f"{RUN_PREFIX}*-*"):
        number = folder.name.removeprefix(RUN_PREFIX).partition("-")[0]
        with suppress(OSError):
            if number.isdecimal() and folder.stat().st_uid == os.getuid() and _has_ended(int(number), folder):
                shutil.rmtree(folder, ignore_errors=True)


def _has_ended(pid: int, folder: Path) -> bool:
    """Whether the owner of a run's folder has gone; one in another container has another number, and holds its lock."""
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            handle = os.open(folder / OWNER, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            finally:
                os.close(handle)
            return True
    return False


class View:
    """An oracle's view of one database: it only reads."""

    def __init__(self, connection: sqlite3.Connection, path: Path | None = None) -> None:
        self._connection = connection
        self._path = path
        self._header = -1
        self.rows = connection.execute

    def stamp(self) -> Any:
        """What differs whenever a transaction was committed in between. It asks the database, not its writers."""
        if self._path is not None:
            if self._header < 0:
                self._header = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            header = os.pread(self._header, _HEADER.stop - _HEADER.start, _HEADER.start)
            if header.startswith(_ROLLBACK_JOURNAL):
                return header
        return self.rows("PRAGMA data_version").fetchone()

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()
        if self._header >= 0:
            os.close(self._header)
            self._header = -1


class Anchor:
    """The harness's own connection to one database, which makes it what its template was."""

    def __init__(self, connection: sqlite3.Connection, path: str | None = None) -> None:
        self._connection = connection
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA synchronous = OFF")
        self.has_log = self._ask("PRAGMA journal_mode") == "wal"
        if not self.has_log:
            connection.execute("PRAGMA journal_mode = MEMORY")
        self._schema_version = self._ask("PRAGMA schema_version")
        self._version: Any = -1
        self._image: bytes = b""
        # Closed only with the anchor: to close any handle of a file drops all locks that a process has on it.
        self._handle = -1 if self.has_log or path is None else os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _ask(self, sql: str) -> Any:
        return self._connection.execute(sql).fetchone()[0]

    def copied(self) -> sqlite3.Connection:
        """A copy in memory, to serve as a template."""
        copy = sqlite3.connect(":memory:")
        self._connection.backup(copy)
        return copy

    def put_back(self, template: sqlite3.Connection) -> None:
        """Make the database what ``template`` is. Raises sqlite3.Error where somebody still holds a lock on it."""
        if self._version == self._stamp():
            return  # nobody has written since it was last put back
        self._connection.execute("BEGIN EXCLUSIVE")
        try:
            is_written = self._handle >= 0 and self._overwrite(template)
        finally:
            self._connection.execute("ROLLBACK")
        if not is_written:
            self._back_up(template)
        self._version = self._stamp()

    def _stamp(self) -> Any:
        """What differs whenever a transaction was committed in between, as in a view."""
        if self._handle >= 0:
            header = os.pread(self._handle, _HEADER.stop - _HEADER.start, _HEADER.start)
            if header.startswith(_ROLLBACK_JOURNAL):
                return header
        return self._ask("PRAGMA data_version")

    def _back_up(self, template: sqlite3.Connection) -> None:
        schema_version = self._ask("PRAGMA schema_version")
        template.backup(self._connection)
        # A backup changes the schema version, and every open connection would prepare all its statements again. If
        # the order has left the schema alone, the version may be what it was; if not, it keeps one never used before.
        if schema_version == self._schema_version:
            self._connection.execute(f"PRAGMA schema_version = {schema_version}")
        else:
            self._schema_version = self._ask("PRAGMA schema_version")

    def _overwrite(self, template: sqlite3.Connection) -> bool:
        """Write the template's bytes, under the lock that shuts everybody out; in a third of a backup's time.

        A new change counter tells every connection, as after any commit. Not if there is a log of late.
        """
        header = os.pread(self._handle, _HEADER_BYTES, 0)
        if not header.startswith(_ROLLBACK_JOURNAL, _HEADER.start) or len(header) < _HEADER_BYTES:
            return False
        self._image = self._image or template.serialize()
        counter, schema_version = (int.from_bytes(header[at : at + 4], "big") for at in (_COUNTER, _SCHEMA))
        if schema_version != self._schema_version:
            schema_version = self._schema_version = max(schema_version, self._schema_version) + 1
        image = bytearray(self._image)
        for at, number in ((_COUNTER, counter + 1), (_SCHEMA, schema_version), (_VALID_FOR, counter + 1)):
            image[at : at + 4] = (number & _WORD).to_bytes(4, "big")
        if os.pwrite(self._handle, image, 0) < len(image):
            return False
        if os.fstat(self._handle).st_size != len(image):
            os.ftruncate(self._handle, len(image))
        return True


class FolderMedium:
    """Stores as files in ``folder``."""

    in_memory = False
    sqlite_note = ""
    """What a verdict has to say of the SQLite that the stores are in, where it is not the module's own."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or fast_folder()
        self._owned = folder is None
        self._idle: dict[str, list[GatedConnection]] = {}
        self._anchors: dict[str, Anchor] = {}
        self._templates: dict[str, sqlite3.Connection] = {}
        self._template: dict[str, bytes] = {}
        self._pools = True
        self.generation = 0
        """How often everything was closed. What was opened in another generation must not be used."""

    # -- connections ------------------------------------------------------------------------------------------

    def connect(self, gate: Gate, path: Path) -> sqlite3.Connection:
        """A connection to a database, behind ``gate``."""
        name = str(path)
        idle = self._idle.setdefault(name, [])
        connection = idle.pop() if idle else self._opened(name)
        connection.gate = gate
        return connection

    def _opened(self, name: str) -> GatedConnection:
        connection = self._open(name, GatedConnection)
        connection.store = os.path.basename(name)  # noqa: PTH119 - hot
        idle = self._idle[name]

        def release(done: GatedConnection) -> None:
            if not self._pools or self._idle.get(name) is not idle:
                done.close_for_good()
            elif done not in idle:
                if done.in_transaction:
                    done.rollback()
                done.isolation_level, done.row_factory, done.text_factory = None, None, str
                idle.append(done)

        connection.release = release
        return connection

    def _open(self, name: str, factory: type[C]) -> C:
        return sqlite3.connect(name, isolation_level=None, factory=factory)

    def look(self, path: Path) -> View:
        """A view for an oracle."""
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
        return View(connection, path)

    def roll_back(self) -> None:
        """Roll back what a dead process has left in the middle of, as SQLite does for whoever reads and may write."""
        for name in self._idle:
            with suppress(sqlite3.Error), closing(self._open(name, sqlite3.Connection)) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def let_go(self) -> None:
        """Close every connection that no process has, so that files may be written, or a process forked."""
        self.generation += 1
        idle, self._idle = self._idle, {}
        for connections in idle.values():
            self._close_idle(connections)
        for anchor in self._anchors.values():
            anchor.close()
        self._anchors = {}

    @staticmethod
    def _close_idle(connections: list[GatedConnection]) -> None:
        for connection in connections:
            connection.close_for_good()

    def close(self) -> None:
        """Close what is open, and remove the folder if it was made here."""
        self.let_go()
        for template in self._templates.values():
            template.close()
        if self._owned:
            shutil.rmtree(self.folder, ignore_errors=True)

    # -- the template -----------------------------------------------------------------------------------------

    # -- power cuts -------------------------------------------------------------------------------------------

    def left_by_power_cut(self, lost: str) -> dict[str, bytes] | None:
        """What a power cut would leave on disk; None where nothing is known of what was synced: nothing is lost."""
        return None

    def come_back(self, files: dict[str, bytes]) -> None:
        """Go on with what a power cut has left. No process may be running."""
        self.restore(files)

    def keep_template(self) -> None:
        """Remember the stores as they are, for ``put_back``. No process may be running."""
        databases = list(self._idle)
        self.let_go()
        self._template = self.snapshot()
        self._raise_anchors(databases)
        self._templates = {name: anchor.copied() for name, anchor in self._anchors.items()}

    def put_back(self) -> None:
        """Make the stores what they were when the template was kept. No process may be running."""
        if self._anchors and self._is_there():
            for name in [n for n in self._idle if n not in self._anchors]:
                self._close_idle(self._idle.pop(name))
            try:
                for name, anchor in self._anchors.items():
                    anchor.put_back(self._templates[name])
            except sqlite3.Error:
                pass  # a statement that a dead process left behind holds a lock, or the file is damaged
            else:
                self._tidy()
                return
        self.restore(self._template)
        self._raise_anchors(list(self._templates))

    def _is_there(self) -> bool:
        """Whether every file that an anchor holds is still where it was: a subject may have taken it away."""
        return os.access(self.folder, os.F_OK) and all(os.access(a, os.F_OK) for a in self._anchors)

    def _raise_anchors(self, databases: list[str]) -> None:
        self._anchors = {name: self._anchor(name) for name in databases}
        # Readers of a write-ahead log do not get into the way of a backup, and so cannot be found out by it.
        self._pools = not any(anchor.has_log for anchor in self._anchors.values())

    def _anchor(self, name: str) -> Anchor:
        return Anchor(self._open(name, sqlite3.Connection), name)

    def _tidy(self) -> None:
        """Put back the files that are no databases."""
        prefix = len(str(self.folder)) + 1
        databases = tuple(self._anchors)
        for path in _files(str(self.folder)):
            if not path.startswith(databases) and path[prefix:] not in self._template:
                os.unlink(path)  # noqa: PTH108 - hot
        for relative, data in self._template.items():
            path = f"{self.folder}/{relative}"
            if not path.startswith(databases):
                _write(path, data)

    # -- bytes ------------------------------------------------------------------------------------------------

    def read(self, path: str | Path) -> bytes | None:
        """A file's content, for an oracle; None where there is no file."""
        if not os.access(path, os.F_OK):  # an exception would cost more than the question
            return None
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(handle, _CHUNK_BYTES)
            while chunk := os.read(handle, _CHUNK_BYTES) if len(data) % _CHUNK_BYTES == 0 else b"":
                data += chunk
        finally:
            os.close(handle)
        return data

    def snapshot(self) -> dict[str, bytes]:
        """Every file below the folder, by its relative name."""
        paths = sorted(_files(str(self.folder)))
        return {os.path.relpath(p, self.folder): Path(p).read_bytes() for p in paths if os.path.isfile(p)}  # noqa: PTH113

    def restore(self, files: dict[str, bytes]) -> None:
        """Make the files below the folder exactly ``files``; no process and no oracle may have one open."""
        self.let_go()
        os.makedirs(self.folder, exist_ok=True)  # noqa: PTH103 - hot
        prefix = len(str(self.folder)) + 1
        for path in list(_files(str(self.folder))):
            if path[prefix:] not in files:
                os.unlink(path)  # noqa: PTH108 - hot
        for relative, data in files.items():
            _write(f"{self.folder}/{relative}", data)


class MemoryMedium(FolderMedium):
    """Databases in memory, shared by the connections of this process.

    The folder is still there for the files that are no databases.
    """

    in_memory = True

    def __init__(self) -> None:
        super().__init__()
        self._serial = next(_serial)

    def _is_there(self) -> bool:
        return os.access(self.folder, os.F_OK)

    def _open(self, name: str, factory: type[C]) -> C:
        # A name of its own in each generation: what a subject may still hold open is not met again.
        uri = f"file:/{os.getpid()}-{self._serial}-{self.generation}{quote(name)}?vfs=memdb"
        return sqlite3.connect(uri, uri=True, isolation_level=None, factory=factory)

    def look(self, path: Path) -> View:
        """A view for an oracle."""
        return View(self._open(str(path), sqlite3.Connection))

    def keep_template(self) -> None:
        """Remember the stores as they are, for ``put_back``. No process may be running."""
        self._template = self.snapshot()
        self._raise_anchors(list(self._idle))
        self._templates = {name: anchor.copied() for name, anchor in self._anchors.items()}

    def _anchor(self, name: str) -> Anchor:
        connection = self._open(name, sqlite3.Connection)
        if name in self._templates:
            self._templates[name].backup(connection)
        return Anchor(connection)


def _files(folder: str) -> Iterator[str]:
    if not os.access(folder, os.F_OK):
        return  # a subject has taken it away
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry.path


def _write(path: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - hot
        handle = os.open(path, flags, 0o600)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)
