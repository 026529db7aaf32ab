"""The copy of SQLite that ``apsw`` brings, as one into which a recording VFS can be put.

``apsw`` has a VFS class to derive from, and what its methods raise comes out of the statement even where SQLite shrugs it
off: a checkpoint that fails after a commit, a journal that cannot be deleted. A dispatcher would be told of a failure of
which SQLite tells nobody. So ``apsw`` only registers a VFS here, and its structure is filled with the methods that a
recorder uses everywhere: they answer by result codes, as SQLite asks.
"""

from __future__ import annotations

import ctypes
from contextlib import closing

import apsw

from stateful.storage.abi import VFS_VERSION, UnsupportedStorageError, Vfs

_KEPT = ("pNext", "zName")
"""What stays of a structure that ``apsw`` has registered: SQLite's list, and the name in memory that ``apsw`` owns."""
_UPGRADE = "pip install --upgrade apsw"


def version() -> str:
    """The version of its SQLite: ``3.46.0``."""
    return apsw.sqlite_lib_version()


def name_of(code: int) -> str:
    """The name of one of SQLite's result codes; ``unknown`` where there is none."""
    found = apsw.mapping_extended_result_codes.get(code) or apsw.mapping_result_codes.get(code)
    return str(found or "unknown")


def _unsupported(value: str, why: str) -> UnsupportedStorageError:
    return UnsupportedStorageError(
        f"apsw {apsw.apsw_version()}: {value}: {why}; {_UPGRADE}, or choose another version"
    )


def _vfs_of(name: str | None) -> Vfs:
    """The structure behind a VFS, or behind the default one, as SQLite itself has it."""
    pointer = ctypes.c_void_p()
    with closing(apsw.Connection(":memory:", vfs=name)) as connection:
        found = connection.file_control("main", apsw.SQLITE_FCNTL_VFS_POINTER, ctypes.addressof(pointer))
    if not found or not pointer.value:
        raise _unsupported(f"the VFS {name or 'of its default'}", "SQLite does not say where it is")
    return Vfs.from_address(pointer.value)


class ApswLibrary:
    """The SQLite in ``apsw``. Raises UnsupportedStorageError where its structures are not those that are known here."""

    def __init__(self) -> None:
        self._registered: apsw.VFS | None = None
        default = _vfs_of(None)
        if default.iVersion > VFS_VERSION:
            raise _unsupported(
                f"its VFS has version {default.iVersion}", f"{VFS_VERSION} is the newest that is known here"
            )
        said = next((vfs for vfs in apsw.vfs_details() if vfs["zName"] == default.zName.decode()), None)
        fields = ("iVersion", "szOsFile", "mxPathname")
        if said is None or any(said[field] != getattr(default, field) for field in fields):
            raise _unsupported("its default VFS", "it has another structure than the one that is known here")

    def default(self) -> Vfs:
        """Its own default VFS, in its own memory."""
        return _vfs_of(None)

    def register(self, vfs: Vfs) -> None:
        """Make a VFS known to it by its name: ``apsw`` registers one, which then becomes what ``vfs`` is."""
        name = vfs.zName.decode()
        # Like the recorder's methods it lives as long as anything might be open through it: see RecordingVfs.
        self._registered = apsw.VFS(name, "")
        place = _vfs_of(name)
        kept = {field: _word(place, field).value for field in _KEPT}
        ctypes.memmove(ctypes.addressof(place), ctypes.addressof(vfs), ctypes.sizeof(Vfs))
        for field, value in kept.items():
            _word(place, field).value = value

    def unregister(self, vfs: Vfs) -> None:
        """Take it away again, for new connections."""
        if self._registered is not None:
            self._registered.unregister()

    def check_shared(self, name: str) -> None:
        """Raise UnsupportedStorageError unless connections can be opened through a VFS that was registered here."""
        try:
            found = _vfs_of(name).szOsFile
        except apsw.Error as error:
            raise _unsupported(f"the VFS {name}", f"it cannot be used ({error})") from error
        if found != self.default().szOsFile:
            raise _unsupported(f"the VFS {name}", "its structure was not replaced")

    def syncs_folders(self) -> bool:
        """Whether it was built to sync folders at all."""
        return "DISABLE_DIRSYNC" not in apsw.compile_options


def _word(vfs: Vfs, field: str) -> ctypes.c_void_p:
    """A pointer in a structure, as a number that can be read and set."""
    return ctypes.c_void_p.from_address(ctypes.addressof(vfs) + getattr(Vfs, field).offset)
