"""Connections through a recorder: gated, and what was raised inside one of SQLite's calls is raised by the statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from stateful.boundaries import GatedConnection, GatedCursor
from stateful.storage.recorder import Recorder

T = TypeVar("T")


class RecordedConnection(GatedConnection):
    """A gated connection through a recorder. What was raised inside SQLite's calls is raised by the statement."""

    recorder: Recorder

    def checked(self, call: Callable[..., T], *arguments: Any) -> T:
        """What a call returns, unless something was raised in a callback meanwhile."""
        try:
            result = call(*arguments)
        except sqlite3.Error as error:
            self.recorder.surface(error)
            raise
        self.recorder.surface()
        return result

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run one statement behind a boundary."""
        return self.checked(super().execute, sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """Run one statement with many parameters; a boundary before it."""
        return self.checked(super().executemany, sql, parameters)

    def executescript(self, sql: str, /) -> sqlite3.Cursor:
        """Run a script; a boundary before it."""
        return self.checked(super().executescript, sql)

    def commit(self) -> None:
        """Commit behind a boundary."""
        self.checked(super().commit)

    def rollback(self) -> None:
        """Roll back; no boundary, as with any gated connection."""
        self.checked(super().rollback)

    def cursor(self, factory: Any = None, /) -> Any:
        """A cursor each of whose statements is a boundary."""
        return super().cursor(factory or RecordedCursor)


class RecordedCursor(GatedCursor):
    """A cursor of a recorded connection."""

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Run one statement behind a boundary."""
        return self._checked(super().execute, sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """Run one statement with many parameters; a boundary before it."""
        return self._checked(super().executemany, sql, parameters)

    def executescript(self, sql: str, /) -> Any:
        """Run a script; a boundary before it."""
        return self._checked(super().executescript, sql)

    def _checked(self, call: Callable[..., T], *arguments: Any) -> T:
        connection: Any = self.connection
        result: T = connection.checked(call, *arguments)
        return result
