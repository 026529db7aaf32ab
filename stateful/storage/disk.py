"""A model of a disk: what of a log is durable, what is pending, and which files are there if some of it survives.

It promises what POSIX does, and not what one file system happens to keep: data and names are written in any order,
``fsync`` of a file says nothing of its name, and a name is durable when its own folder was synced. A rename is atomic;
one from a folder to another is durable when both were synced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stateful.storage.log import (
    Create,
    DataOperation,
    Delete,
    Files,
    Forget,
    Log,
    NameOperation,
    Operation,
    Rename,
    Sync,
    SyncFolder,
    Truncate,
    Write,
    folder_of,
)


class Pending(NamedTuple):
    """An operation whose fate is open. ``serial`` differs between any two of a disk's, also between parts of one."""

    serial: int
    position: int
    """Which of the log's operations it is, from 0."""
    operation: DataOperation | NameOperation
    folders: frozenset[str] = frozenset()
    """For an operation on names: the folders that have not been synced since."""

    @property
    def is_data(self) -> bool:
        """Whether it changes a file's data, and not names."""
        return not self.folders


class Disk:
    """Durable data and names, and what is pending, after the operations that ``apply`` was told of.

    With ``ignore_syncs`` a sync does nothing: a disk that lies.
    """

    def __init__(self, base: Files, *, ignore_syncs: bool = False) -> None:
        self.names: dict[str, int] = {path: number for number, path in enumerate(sorted(base), 1)}
        self.data: dict[int, bytes] = {number: base[path] for path, number in self.names.items()}
        self.pending: list[Pending] = []
        self.epochs: dict[int, int] = {}
        """How often an inode's durable data changed."""
        self._ignore_syncs = ignore_syncs
        self._serial = 0
        self._position = -1

    @classmethod
    def after(cls, log: Log, position: int | None = None, *, ignore_syncs: bool = False) -> Disk:
        """The disk after a log's first ``position`` operations, or all of them."""
        disk = cls(log.base, ignore_syncs=ignore_syncs)
        for operation in log.operations[:position]:
            disk.apply(operation)
        return disk

    def next_serial(self) -> int:
        """A number that nothing pending has."""
        self._serial += 1
        return self._serial

    def apply(self, operation: Operation) -> None:
        """Take in one operation; a mark changes nothing."""
        self._position += 1
        match operation:
            case Write() | Truncate():
                self._await(operation)
            case Create(path, _) | Delete(path, _):
                self._await(operation, folder_of(path))
            case Rename(source, target, _):
                self._await(operation, folder_of(source), folder_of(target))
            case Sync(inode) if not self._ignore_syncs:
                self._sync(inode)
            case SyncFolder(path) if not self._ignore_syncs:
                self._sync_folder(path)
            case Forget(inode):
                self.pending = [p for p in self.pending if not (p.is_data and _inode(p) == inode)]

    def _await(self, operation: DataOperation | NameOperation, *folders: str) -> None:
        self.pending.append(Pending(self.next_serial(), self._position, operation, frozenset(folders)))

    def _sync(self, inode: int) -> None:
        mine = [p for p in self.pending if p.is_data and _inode(p) == inode]
        if mine:
            self.data[inode] = self.content(inode, mine)
            self.epochs[inode] = self.epochs.get(inode, 0) + 1
            self.pending = [p for p in self.pending if not (p.is_data and _inode(p) == inode)]

    def _sync_folder(self, path: str) -> None:
        pending = []
        for p in self.pending:
            left = p.folders - {path}
            if p.is_data or left:
                pending.append(p if p.is_data else p._replace(folders=left))
            else:
                _rename_in(self.names, p.operation)
        self.pending = pending

    # -- what is there ----------------------------------------------------------------------------------------

    def content(self, inode: int, survivors: Iterable[Pending] = ()) -> bytes:
        """An inode's durable data with some of its pending operations done to it, in their order."""
        content = bytearray(self.data.get(inode, b""))
        for survivor in survivors:
            _change(content, survivor.operation)
        return bytes(content)

    def tree(self, survivors: Iterable[Pending]) -> dict[str, int]:
        """Names and inodes if, of what is pending, the operations on names among ``survivors`` have been done."""
        names = dict(self.names)
        for survivor in survivors:
            if not survivor.is_data:
                _rename_in(names, survivor.operation)
        return names

    def files(self, survivors: Sequence[Pending] | None = None) -> dict[str, bytes]:
        """The files if exactly ``survivors`` of what is pending have been done, or all of it: the page cache."""
        survivors = self.pending if survivors is None else survivors
        mine: dict[int, list[Pending]] = {}
        for survivor in survivors:
            if survivor.is_data:
                mine.setdefault(_inode(survivor), []).append(survivor)
        return {path: self.content(inode, mine.get(inode, ())) for path, inode in self.tree(survivors).items()}


def _inode(pending: Pending) -> int:
    return pending.operation.inode


def _change(content: bytearray, operation: DataOperation | NameOperation) -> None:
    """Do a write or a truncation to a file's content."""
    if isinstance(operation, Write):
        _, offset, data = operation
        if len(content) < offset:
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data
    elif isinstance(operation, Truncate):
        del content[operation.size :]
        content.extend(bytes(operation.size - len(content)))


def _rename_in(names: dict[str, int], operation: DataOperation | NameOperation) -> None:
    """Do a creation, a deletion or a rename to the names, whatever became of those before it."""
    match operation:
        case Create(path, inode):
            names[path] = inode
        case Delete(path, _):
            names.pop(path, None)
        case Rename(source, target, inode):
            if names.get(source) == inode:
                del names[source]
            names[target] = inode
