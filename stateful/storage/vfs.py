"""A VFS for one copy of SQLite that records what SQLite writes below a folder, and makes it fail.

It is SQLite's own default VFS under a name of its own: a copy of its structure, with a copy of each table of file
methods, in which opening, deleting, writing, truncating, syncing and closing lead through Python. Everything else is
the original: locks, shared memory, reading. Nothing is compiled, and no other connection notices.

Nothing may be raised through SQLite's own frames. What is raised in a callback makes the call fail, is kept by the
recorder, and surfaces in the statement, if the connection asks for it, as those of ``RecordingMedium`` do.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sqlite3
from collections.abc import Callable
from typing import Any

from stateful.storage import abi
from stateful.storage.log import folder_of
from stateful.storage.plan import CODES, Call
from stateful.storage.recorder import Handle, Recorder, identity_of

Method = Callable[..., int]
_serial = itertools.count(1)


class RecordingVfs:
    """The way of one recorder into a copy of SQLite, for connections that are opened with the VFS called ``name``.

    Raises UnsupportedStorageError where there is no way in.
    """

    def __init__(self, recorder: Recorder, library: abi.Library) -> None:
        self.name = f"survives-{os.getpid()}-{next(_serial)}"
        self._recorder = recorder
        self._library = library
        self._syncs_folders = library.syncs_folders()
        self._tables: dict[int, abi.IoMethods] = {}
        self._thunks: list[Any] = []
        self._vfs = self._copied()
        # SQLite calls these as long as a connection is open, up to the last moment of the interpreter, and nothing says
        # when that is: they are never collected. What a recorder has recorded is, for ``close`` lets go of it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        library.register(self._vfs)
        try:
            library.check_shared(self.name)
        except abi.UnsupportedStorageError:
            self.close()
            raise

    def close(self) -> None:
        """Take it away from SQLite, for new connections; those that are open are recorded no more."""
        self._library.unregister(self._vfs)
        self._recorder.log = self._recorder.plan = None

    def _copied(self) -> abi.Vfs:
        default = self._library.default()
        vfs = abi.Vfs.from_buffer_copy(default)
        vfs.zName, vfs.pNext = self.name.encode(), None
        vfs.xOpen = self._kept(abi.OPEN, self._opening(default.xOpen))
        vfs.xDelete = self._kept(abi.DELETE, self._deleting(default.xDelete))
        return vfs

    def _table(self, address: int) -> abi.IoMethods:
        """A copy of SQLite's file methods at an address, with ours in it."""
        table = self._tables.get(address)
        if table is None:
            original = abi.IoMethods.from_address(address)
            abi.check_version(original)
            table = self._tables[address] = abi.IoMethods.from_buffer_copy(original)
            table.xWrite = self._kept(abi.WRITE, self._writing(original.xWrite))
            table.xTruncate = self._kept(abi.TRUNCATE, self._truncating(original.xTruncate))
            table.xSync = self._kept(abi.SYNC, self._syncing(original.xSync))
            table.xClose = self._kept(abi.CLOSE, self._closing(original.xClose))
        return table

    def _kept(self, kind: Any, method: Method) -> Any:
        thunk = kind(method)
        self._thunks.append(thunk)
        return thunk

    # -- files ------------------------------------------------------------------------------------------------

    def _opening(self, original: Method) -> Method:
        recorder = self._recorder

        def x_open(vfs: int, name: int | None, file: int, flags: int, out: int | None) -> int:
            methods = ctypes.c_void_p.from_address(file)
            try:
                full = os.fsdecode(ctypes.string_at(name)) if name else ""
                path = recorder.relative(full)
                if path is None:  # a temporary file, or one of somebody else
                    return original(vfs, name, file, flags, out)
                methods.value = None  # SQLite closes a file that could not be opened if it finds methods there
                code = recorder.fault(Call.OPEN, path)
                if code:
                    return code
                with recorder.lock:
                    before = identity_of(full)
                    code = original(vfs, name, file, flags, out)
                    if not code:
                        self._opened(file, path, flags, before)
            except BaseException as error:  # noqa: BLE001 - it surfaces later
                # If the file is open it still has its original methods, and SQLite will close it by them.
                return recorder.failed(error, CODES[Call.OPEN])
            return code

        return x_open

    def _opened(self, file: int, path: str, flags: int, before: tuple[int, int] | None) -> None:
        methods = ctypes.c_void_p.from_address(file)
        assert methods.value is not None
        table = self._table(methods.value)
        identity = before or identity_of(f"{self._recorder.root}/{path}")
        assert identity is not None
        # unixOpen: whoever asks for a journal to be created, whether there is one already or not, is to sync its folder.
        syncs_folder = bool(self._syncs_folders and flags & abi.OPEN_CREATE and flags & abi.OPEN_JOURNALS)
        self._recorder.opened(file, Handle(path, identity, syncs_folder), is_new=before is None)
        methods.value = ctypes.addressof(table)

    def _deleting(self, original: Method) -> Method:
        recorder = self._recorder

        def x_delete(vfs: int, name: int, syncs_folder: int) -> int:
            try:
                path = recorder.relative(os.fsdecode(ctypes.string_at(name)))
                if path is None:
                    return original(vfs, name, syncs_folder)
                code = recorder.fault(Call.DELETE, path)
                if code:
                    return code
                with recorder.lock:
                    code = original(vfs, name, syncs_folder)
                    if recorder.log is not None and code in {sqlite3.SQLITE_OK, sqlite3.SQLITE_IOERR_DIR_FSYNC}:
                        recorder.log.delete(path)
                        if syncs_folder and self._syncs_folders and not code:
                            recorder.log.sync_folder(folder_of(path))
            except BaseException as error:  # noqa: BLE001
                return recorder.failed(error, CODES[Call.DELETE])
            return code

        return x_delete

    # -- data -------------------------------------------------------------------------------------------------

    def _writing(self, original: Method) -> Method:
        recorder, lock, handles = self._recorder, self._recorder.lock, self._recorder.handles

        def x_write(file: int, data: int, count: int, offset: int) -> int:
            try:
                handle = handles[file]
                if recorder.plan is not None:
                    code = recorder.fault(Call.WRITE, handle.path)
                    if code:
                        return code
                with lock:
                    code = original(file, data, count, offset)
                    if recorder.log is not None and not code:
                        recorder.log.write(handle.inode, offset, ctypes.string_at(data, count))
            except BaseException as error:  # noqa: BLE001
                return recorder.failed(error, CODES[Call.WRITE])
            return code

        return x_write

    def _truncating(self, original: Method) -> Method:
        recorder = self._recorder

        def x_truncate(file: int, size: int) -> int:
            try:
                handle = recorder.handles[file]
                code = recorder.fault(Call.TRUNCATE, handle.path)
                if code:
                    return code
                with recorder.lock:
                    code = original(file, size)
                    if recorder.log is not None and not code:
                        recorder.log.truncate(handle.inode, size)
            except BaseException as error:  # noqa: BLE001
                return recorder.failed(error, CODES[Call.TRUNCATE])
            return code

        return x_truncate

    def _syncing(self, original: Method) -> Method:
        recorder = self._recorder

        def x_sync(file: int, flags: int) -> int:
            try:
                handle = recorder.handles[file]
                code = recorder.fault(Call.SYNC, handle.path, handle.inode)
                if code:
                    return code
                with recorder.lock:
                    code = original(file, flags)
                    if not code:
                        self._synced(handle)
            except BaseException as error:  # noqa: BLE001
                return recorder.failed(error, CODES[Call.SYNC])
            return code

        return x_sync

    def _synced(self, handle: Handle) -> None:
        # unixSync: the file, and then, if it is the first time, its folder. https://sqlite.org/src/file/src/os_unix.c
        syncs_folder, handle.syncs_folder = handle.syncs_folder, False
        log = self._recorder.log
        if log is not None:
            log.sync(handle.inode)
            if syncs_folder:
                log.sync_folder(folder_of(handle.path))

    def _closing(self, original: Method) -> Method:
        handles = self._recorder.handles

        def x_close(file: int) -> int:
            # Only what is in its cells: it may be called while the interpreter ends, when modules have lost their names.
            handles.pop(file, None)
            return original(file)

        return x_close
