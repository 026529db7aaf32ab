"""What a recorder keeps, whichever way it gets into SQLite: the log, the faults, the open files, and what went wrong.

``vfs`` is the way into a copy of SQLite, and ``ways`` says which copies there are.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from attrs import define

from stateful.storage.log import Files, Log
from stateful.storage.plan import Call, Plan


@define(eq=False)
class Handle:
    """A file that SQLite has open."""

    path: str
    """Relative to the recorded folder."""
    identity: tuple[int, int]
    """Device and inode number; no other file has them while this one is open."""
    syncs_folder: bool
    """Whether its first sync takes its folder's along: SQLite syncs the folder of a journal that it may have made."""
    inode: int = 0
    """The log's number for it, while there is a log."""


class Recorder:
    """Records what is done below ``root`` from ``start`` to ``stop``, and fails what its ``plan`` says.

    The plan is asked before each of SQLite's storage calls, recorded or not. Recorders know nothing of each other.
    """

    def __init__(self, root: Path) -> None:
        self.given_root = os.path.abspath(root)  # noqa: PTH100 - a symbolic link stays one
        self.root = os.path.realpath(root)
        """The folder without symbolic links, as SQLite names it."""
        self.log: Log | None = None
        self.plan: Plan | None = None
        self.trouble: BaseException | None = None
        """What was raised inside one of SQLite's calls and has not surfaced yet."""
        self.handles: dict[int, Handle] = {}
        """What is open, by the address of SQLite's own structure."""
        self.lock = threading.Lock()
        """Held while something is done and recorded: the log's order is the order in which it was done."""

    def start(self, base: Files) -> Log:
        """Record from now on, into a new log on top of the files as they are. No transaction may be under way."""
        log = Log(base)
        with self.lock:
            for handle in self.handles.values():
                inode = log.inode_of(handle.path)
                is_there = inode is not None and identity_of(f"{self.root}/{handle.path}") == handle.identity
                handle.inode = inode if inode is not None and is_there else log.nameless(handle.path)
            self.log = log
        return log

    def stop(self) -> None:
        """Record no more. What was raised inside one of SQLite's calls, and has not surfaced, is raised."""
        self.log = None
        self.surface()

    def surface(self, cause: BaseException | None = None) -> None:
        """Raise what was raised inside SQLite's calls since this was last asked."""
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble from cause

    def failed(self, error: BaseException, code: int) -> int:
        """The result code of a call in which something was raised, which surfaces later."""
        # The first is what counts: SQLite reacts to it with other calls, which may raise again.
        if self.trouble is None:
            self.trouble = error
        return code

    def relative(self, path: str) -> str | None:
        """A path relative to the recorded folder, ``""`` being the folder itself; None if it is somewhere else."""
        for root in (self.root, self.given_root):
            if path == root:
                return ""
            if path.startswith(root) and path[len(root)] == "/":
                return path[len(root) + 1 :]
        return None

    def fault(self, call: Call, path: str, inode: int = 0) -> int:
        """The result code with which a call is to fail; 0 if it is to be done."""
        fault = None if self.plan is None else self.plan.before(call, path)
        if fault is None:
            return 0
        if fault.forgets and self.log is not None:
            self.log.forget(inode)
        return fault.code

    def opened(self, address: int, handle: Handle, *, is_new: bool) -> None:
        """SQLite has a file open."""
        if self.log is not None:
            handle.inode = self._numbered(self.log, handle.path, is_new=is_new)
        self.handles[address] = handle

    def _numbered(self, log: Log, path: str, *, is_new: bool) -> int:
        inode = None if is_new else log.inode_of(path)
        if inode is not None:
            return inode
        inode = log.create(path)
        if not is_new:  # somebody made it who does not record; all that is known is what is in it
            content = Path(self.root, path).read_bytes()
            if content:
                log.write(inode, 0, content)
        return inode


def identity_of(path: str) -> tuple[int, int] | None:
    """A file's device and inode number; None if there is no such file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - hot
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
