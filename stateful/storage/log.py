"""The storage log: every operation on the files below one folder, in the order in which it was done.

Paths are relative to that folder, ``""`` being the folder itself. A file's data belong to its inode, which a name
leads to: after a rename or an unlink whoever has the file open goes on with the same inode. Directories are folders of
names, each of which has to be synced by itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

Files = Mapping[str, bytes]
"""Every file below a folder: its relative path and its content."""


class Create(NamedTuple):
    """A new, empty inode under a name that was free."""

    path: str
    inode: int


class Write(NamedTuple):
    """Bytes at an offset; a gap before it reads as zeros."""

    inode: int
    offset: int
    data: bytes


class Truncate(NamedTuple):
    """Cut a file to a size, or fill it up with zeros."""

    inode: int
    size: int


class Sync(NamedTuple):
    """What was written to an inode until now is durable. Its name need not be."""

    inode: int


class Forget(NamedTuple):
    """A sync failed and the system let go of the inode's pending data: no later sync will write them.

    A running process reads them from the page cache all the same. https://lwn.net/Articles/752063/
    """

    inode: int


class Delete(NamedTuple):
    """A name is removed; the inode lives while somebody has it open."""

    path: str
    inode: int


class Rename(NamedTuple):
    """A name takes another's place at once."""

    source: str
    target: str
    inode: int


class SyncFolder(NamedTuple):
    """The names in one folder, not those in the folders below it, are durable."""

    path: str


class Mark(NamedTuple):
    """Something that happened in between, such as an acknowledgement to a client. It touches no file."""

    value: Hashable


Operation = Create | Write | Truncate | Sync | Forget | Delete | Rename | SyncFolder | Mark
DataOperation = Write | Truncate
NameOperation = Create | Delete | Rename


def folder_of(path: str) -> str:
    """The folder that a name stands in."""
    return path.rpartition("/")[0]


class Log:
    """Operations on top of ``base``, the files that were there, and durable, when recording began.

    Recorders append through the methods, which number the inodes: first those of ``base`` in the order of its paths.
    """

    def __init__(self, base: Files) -> None:
        self.base: dict[str, bytes] = {path: base[path] for path in sorted(base)}
        self.operations: list[Operation] = []
        self._inodes = {path: number for number, path in enumerate(self.base, 1)}
        self._first_paths = list(self.base)

    def __len__(self) -> int:
        return len(self.operations)

    def inode_of(self, path: str) -> int | None:
        """The inode that a name leads to now; None if there is no such name."""
        return self._inodes.get(path)

    def path_of(self, inode: int) -> str:
        """The name under which an inode was first known; empty for one that had lost its name before."""
        return self._first_paths[inode - 1]

    def create(self, path: str) -> int:
        """A new file; its inode."""
        inode = self.nameless(path)
        self._inodes[path] = inode
        self.operations.append(Create(path, inode))
        return inode

    def nameless(self, path: str = "") -> int:
        """An inode that no name leads to: somebody opened the file, and then its name went."""
        self._first_paths.append(path)
        return len(self._first_paths)

    def write(self, inode: int, offset: int, data: bytes) -> None:
        """Bytes at an offset."""
        self.operations.append(Write(inode, offset, data))

    def truncate(self, inode: int, size: int) -> None:
        """Another size."""
        self.operations.append(Truncate(inode, size))

    def sync(self, inode: int) -> None:
        """A file's data are durable."""
        self.operations.append(Sync(inode))

    def forget(self, inode: int) -> None:
        """A file's pending data never will be."""
        self.operations.append(Forget(inode))

    def delete(self, path: str) -> None:
        """Remove a name; nothing if it was not known."""
        inode = self._inodes.pop(path, None)
        if inode is not None:
            self.operations.append(Delete(path, inode))

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, at the expense of what had it. Raises KeyError if it was not known."""
        inode = self._inodes.pop(source)
        self._inodes[target] = inode
        self.operations.append(Rename(source, target, inode))

    def sync_folder(self, path: str) -> None:
        """A folder's names are durable."""
        self.operations.append(SyncFolder(path))

    def mark(self, value: Hashable) -> None:
        """Note that something has happened: what was done before it must be found after any later power cut."""
        self.operations.append(Mark(value))

    def tell(self, position: int) -> str:
        """An operation in a few words: ``write 512 bytes at 0 of sink/sink.sqlite3-journal``."""
        match self.operations[position]:
            case Create(path, _):
                return f"create {path}"
            case Write(inode, offset, data):
                return f"write {len(data)} bytes at {offset} of {self.path_of(inode)}"
            case Truncate(inode, size):
                return f"truncate {self.path_of(inode)} to {size} bytes"
            case Sync(inode):
                return f"sync {self.path_of(inode)}"
            case Forget(inode):
                return f"a failed sync lets go of what {self.path_of(inode)} had pending"
            case Delete(path, _):
                return f"delete {path}"
            case Rename(source, target, _):
                return f"rename {source} to {target}"
            case SyncFolder(path):
                return f"sync the folder {path or '.'}"
            case Mark(value):
                return f"mark {value!r}"
