"""The part of SQLite's binary interface that a VFS of one's own needs, and the library that ``sqlite3`` itself uses.

A process may hold more than one copy of SQLite, and each has VFSs of its own: a ``Library`` is one of them.

https://www.sqlite.org/c3ref/vfs.html and https://www.sqlite.org/c3ref/io_methods.html
"""

from __future__ import annotations

import _sqlite3
import ctypes
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Protocol

OPEN = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p
)
DELETE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
CLOSE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
TRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
SYNC = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)

OPEN_CREATE = 0x4
OPEN_JOURNALS = 0x800 | 0x4000 | 0x80000
"""SQLITE_OPEN_MAIN_JOURNAL, _SUPER_JOURNAL and _WAL."""
IO_METHODS_VERSION, VFS_VERSION = 3, 3
"""The newest versions of the structures that are known here; a newer one would be longer than what is copied."""


class IoMethods(ctypes.Structure):
    """What SQLite calls to use an open file."""

    _fields_ = [
        ("iVersion", ctypes.c_int),
        ("xClose", CLOSE),
        ("xRead", ctypes.c_void_p),
        ("xWrite", WRITE),
        ("xTruncate", TRUNCATE),
        ("xSync", SYNC),
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("xFileSize", "xLock", "xUnlock", "xCheckReservedLock", "xFileControl", "xSectorSize"),
                *("xDeviceCharacteristics", "xShmMap", "xShmLock", "xShmBarrier", "xShmUnmap", "xFetch", "xUnfetch"),
            )
        ),
    ]


class Vfs(ctypes.Structure):
    """What SQLite calls to open and delete files, and what it asks the system for."""

    _fields_ = [
        ("iVersion", ctypes.c_int),
        ("szOsFile", ctypes.c_int),
        ("mxPathname", ctypes.c_int),
        ("pNext", ctypes.c_void_p),
        ("zName", ctypes.c_char_p),
        ("pAppData", ctypes.c_void_p),
        ("xOpen", OPEN),
        ("xDelete", DELETE),
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("xAccess", "xFullPathname", "xDlOpen", "xDlError", "xDlSym", "xDlClose", "xRandomness", "xSleep"),
                *("xCurrentTime", "xGetLastError", "xCurrentTimeInt64"),
                *("xSetSystemCall", "xGetSystemCall", "xNextSystemCall"),
            )
        ),
    ]


class Library(Protocol):
    """One copy of SQLite, as far as a VFS of one's own needs it."""

    def default(self) -> Vfs:
        """Its own default VFS, in its own memory."""

    def register(self, vfs: Vfs) -> None:
        """Make a VFS known to it by its name. The structure must live as long as a connection is open through it."""

    def unregister(self, vfs: Vfs) -> None:
        """Take it away again, for new connections."""

    def check_shared(self, name: str) -> None:
        """Raise UnsupportedStorageError unless connections can be opened through a VFS that was registered here."""

    def syncs_folders(self) -> bool:
        """Whether it was built to sync folders at all."""


class UnsupportedStorageError(Exception):
    """Storage cannot be recorded here. The message says what is missing, why it is needed, and what to do."""


def _unsupported(value: str, why: str) -> UnsupportedStorageError:
    return UnsupportedStorageError(
        f"{value}: {why}; run this with a Python whose sqlite3 module links libsqlite3 dynamically, such as a "
        "distribution's or one that was built against the system's library"
    )


def _candidates() -> Iterator[tuple[str, str | None]]:
    """Where the module's own library may be found: what a look-up in the module finds is what the module itself uses."""
    module: str | None = getattr(_sqlite3, "__file__", None)
    yield (module, module) if module else ("the interpreter, which has sqlite3 built in", None)


def load() -> Any:
    """The library that the module ``sqlite3`` uses. Raises UnsupportedStorageError."""
    reasons = []
    for name, path in _candidates():
        try:
            library = ctypes.CDLL(path)
            _declare(library)
        except (OSError, AttributeError) as error:
            reasons.append(_unsupported(name, f"SQLite's functions cannot be reached through it ({error})"))
            continue
        why = _difference(library)
        if not why:
            return library
        reasons.append(_unsupported(name, why))
    raise reasons[0]


def _declare(library: Any) -> None:
    """Give the functions their types. Raises AttributeError if one is missing."""
    library.sqlite3_vfs_find.restype = ctypes.c_void_p
    library.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
    library.sqlite3_vfs_register.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.sqlite3_vfs_unregister.argtypes = [ctypes.c_void_p]
    for function in (library.sqlite3_libversion, library.sqlite3_sourceid):
        function.restype = ctypes.c_char_p


def _difference(library: Any) -> str:
    """Why a library is not the one that ``sqlite3`` uses, or not usable; empty if it is."""
    with closing(sqlite3.connect(":memory:")) as connection:
        source = connection.execute("SELECT sqlite_source_id()").fetchone()[0]
    found = library.sqlite3_libversion().decode(), library.sqlite3_sourceid().decode()
    if found != (sqlite3.sqlite_version, source):
        return (
            f"it is SQLite {found[0]} ({found[1]}), and the module sqlite3 uses {sqlite3.sqlite_version} ({source})"
        )
    address = library.sqlite3_vfs_find(None)
    if not address:
        return "SQLite was built without a default VFS"
    version = Vfs.from_address(address).iVersion
    if version > VFS_VERSION:
        return f"its VFS has version {version}, and {VFS_VERSION} is the newest that is known here"
    return ""


def check_version(methods: IoMethods) -> None:
    """Raise UnsupportedStorageError if a table of file methods is longer than what is copied of it."""
    if methods.iVersion > IO_METHODS_VERSION:
        raise _unsupported(
            f"file methods of version {methods.iVersion}", f"{IO_METHODS_VERSION} is the newest that is known here"
        )


class OwnLibrary:
    """The library that the module ``sqlite3`` uses. Raises UnsupportedStorageError where it is out of reach."""

    def __init__(self) -> None:
        self._functions = load()

    def default(self) -> Vfs:
        """Its own default VFS, in its own memory."""
        return Vfs.from_address(self._functions.sqlite3_vfs_find(None))

    def register(self, vfs: Vfs) -> None:
        """Make a VFS known to it by its name."""
        self._functions.sqlite3_vfs_register(ctypes.addressof(vfs), 0)

    def unregister(self, vfs: Vfs) -> None:
        """Take it away again, for new connections."""
        self._functions.sqlite3_vfs_unregister(ctypes.addressof(vfs))

    def check_shared(self, name: str) -> None:
        """Raise UnsupportedStorageError unless the module ``sqlite3`` knows a VFS that was registered here.

        Two copies of one library have the same version and source, and each has its own list.
        """
        try:
            sqlite3.connect(f"file::memory:?vfs={name}", uri=True).close()
        except sqlite3.OperationalError as error:
            raise _unsupported(
                f"SQLite {sqlite3.sqlite_version}", f"the module sqlite3 uses a copy of its own ({error})"
            ) from error

    def syncs_folders(self) -> bool:
        """Whether it was built to sync folders at all."""
        with closing(sqlite3.connect(":memory:")) as connection:
            options = {row[0] for row in connection.execute("PRAGMA compile_options")}
        return "DISABLE_DIRSYNC" not in options
