"""Boundaries: the places where a process can die with another durable state, found by instrumentation.

Every SQL statement and every file operation of a dispatcher passes a *gate*. The gate counts; at the chosen count the
process dies. Nothing lists boundaries by hand, so a refactor cannot lose one. In process a death is ``Crash``, and a
gate that was passed once by a death lets nothing through any more: a subject that swallows the crash gains nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

from impl.protocol import Files


class Crash(BaseException):
    """The process died at a boundary. Not an ``Exception``, and not for a subject to catch."""


class Gate:
    """Counts the boundaries that one process passes, and ends it at one of them.

    ``arm(n)`` starts counting from 0; with n > 0 the n-th boundary from now is the last that is reached: the process
    dies *before* the statement or file operation behind it. ``passed`` is the count since then.
    """

    def __init__(self) -> None:
        self.passed = 0
        self.die_at = 0
        self.dead = False
        self.last: tuple[str, str] = ("", "")

    def arm(self, die_at: int = 0) -> None:
        """Start counting from 0; die at boundary ``die_at``, or never if it is 0."""
        self.passed = 0
        self.die_at = die_at

    def reach(self, where: str, what: str) -> None:
        """A boundary: ``where`` is a store, ``what`` the statement or file operation that comes next."""
        if self.dead:
            raise Crash
        self.passed += 1
        self.last = (where, what)
        if self.passed == self.die_at:
            self.die()

    def die(self) -> None:
        """End this process. Here: nothing passes the gate again, and the caller is unwound."""
        self.dead = True
        raise Crash


class GatedConnection(sqlite3.Connection):
    """A connection each of whose statements is a boundary, however it is issued.

    What it does behind a boundary is whatever comes next in the order of its bases, so that connections of another copy
    of SQLite are gated by the same code.
    """

    gate: Gate
    store: str
    release: Callable[[GatedConnection], None] | None = None
    """Where the connection goes instead of being closed, if it is pooled."""
    ungated: ClassVar[Callable[..., sqlite3.Cursor]] = sqlite3.Connection.execute
    """Run one statement of the harness's own: no boundary."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run one statement behind a boundary."""
        self.gate.reach(self.store, sql)
        return self.ungated(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """Run one statement with many parameters; a boundary before it."""
        self.gate.reach(self.store, sql)
        return super().executemany(sql, parameters)

    def executescript(self, sql: str, /) -> sqlite3.Cursor:
        """Run a script; a boundary before it."""
        self.gate.reach(self.store, sql)
        return super().executescript(sql)

    def commit(self) -> None:
        """Commit behind a boundary."""
        self.gate.reach(self.store, "COMMIT")
        super().commit()

    def __exit__(self, kind: object, value: object, trace: object, /) -> Literal[False]:
        """Commit or roll back at the end of a ``with``: the built-in one does not ask ``commit``."""
        if kind is None:
            self.commit()
        else:
            self.rollback()
        return False

    def cursor(self, factory: Any = None, /) -> Any:
        """A cursor each of whose statements is a boundary."""
        return super().cursor(factory or GatedCursor)

    def close(self) -> None:
        """Close, or go back to the pool."""
        if self.release is not None:
            self.release(self)
        else:
            super().close()

    def close_for_good(self) -> None:
        """Close, pooled or not."""
        super().close()

    def drop(self) -> None:
        """What becomes of a connection when its process dies: the open transaction is rolled back."""
        if self.release is not None:
            self.release(self)
        else:
            super().close()


class GatedCursor(sqlite3.Cursor):
    """A cursor of a gated connection."""

    def execute(self, sql: str, parameters: Any = (), /) -> GatedCursor:
        """Run one statement behind a boundary."""
        connection: Any = self.connection
        connection.gate.reach(connection.store, sql)
        super().execute(sql, parameters)
        return self

    def executemany(self, sql: str, parameters: Any, /) -> GatedCursor:
        """Run one statement with many parameters; a boundary before it."""
        connection: Any = self.connection
        connection.gate.reach(connection.store, sql)
        super().executemany(sql, parameters)
        return self

    def executescript(self, sql: str, /) -> GatedCursor:
        """Run a script; a boundary before it."""
        connection: Any = self.connection
        connection.gate.reach(connection.store, sql)
        super().executescript(sql)
        return self


class GatedFiles:
    """A file layer each of whose operations is a boundary."""

    def __init__(self, files: Files, gate: Gate) -> None:
        self._files = files
        self._gate = gate

    @property
    def gate(self) -> Gate:
        """The gate that each operation passes."""
        return self._gate

    def read(self, path: Path) -> bytes | None:
        """Read a file; reading changes nothing, so that there is no boundary."""
        return self._files.read(path)

    def write_new(self, path: Path, data: bytes) -> None:
        """Create or truncate a file and write it, with boundaries before it and inside it (half written)."""
        self._gate.reach(path.name, "write")
        if len(data) > 1 and self._gate.die_at == self._gate.passed + 1:
            self._files.write_new(path, data[: len(data) // 2])
        self._gate.reach(path.name, "write the rest")
        self._files.write_new(path, data)

    def sync(self, path: Path) -> None:
        """Sync a file behind a boundary."""
        self._gate.reach(path.name, "sync")
        self._files.sync(path)

    def rename(self, source: Path, target: Path) -> None:
        """Rename behind a boundary."""
        self._gate.reach(target.name, "rename")
        self._files.rename(source, target)

    def sync_folder(self, folder: Path) -> None:
        """Sync a folder behind a boundary."""
        self._gate.reach(folder.name, "sync folder")
        self._files.sync_folder(folder)
