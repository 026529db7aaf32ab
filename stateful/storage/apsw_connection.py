"""A connection of the standard library's ``sqlite3``, whose statements ``apsw`` runs.

It is what dispatchers use of one: statements, scripts, rows, transactions (explicit ones, and those that
``isolation_level`` begins), functions, and the same exceptions. The base class gives it its type and is never
initialised, so that nothing can reach another copy of SQLite by mistake: what is not here is refused by name.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Literal, NoReturn, Self

import apsw

from stateful.storage.apsw_cursor import ApswCursor, changes_rows
from stateful.storage.apsw_errors import FAILURES, translated

TIMEOUT_MS = 5_000
"""How long the standard library waits for a lock, if nobody says otherwise."""
_LEVELS = ("", "DEFERRED", "IMMEDIATE", "EXCLUSIVE")


class ApswConnection(sqlite3.Connection):
    """A connection to a database, by the SQLite of ``apsw``. Raises what ``sqlite3.connect`` raises."""

    def __init__(self, path: str, *, vfs: str | None = None, read_only: bool = False) -> None:
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        self.row_factory, self.text_factory = None, str
        self._level: str | None = None
        try:
            self.raw = apsw.Connection(path, flags, vfs)
            self.raw.set_busy_timeout(TIMEOUT_MS)
        except FAILURES as error:
            raise translated(error) from error

    def _done(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except FAILURES as error:
            raise translated(error) from error

    # -- statements -------------------------------------------------------------------------------------------

    def cursor(self, factory: Any = None, /) -> Any:
        """A cursor."""
        made = factory or ApswCursor
        if not (isinstance(made, type) and issubclass(made, ApswCursor)):
            raise sqlite3.NotSupportedError(
                f"cursor({made!r}): a connection through apsw has cursors of its own alone"
            )
        return made(self)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run one statement."""
        return ApswCursor(self).execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """Run one statement with many parameters."""
        return ApswCursor(self).executemany(sql, parameters)

    def executescript(self, sql: str, /) -> sqlite3.Cursor:
        """Run a script."""
        return ApswCursor(self).executescript(sql)

    # -- transactions -----------------------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is under way."""
        return not self._done(self.raw.get_autocommit)

    @property  # type: ignore[override]  # any string, as sqlite3 has it too
    def isolation_level(self) -> str | None:
        """How a transaction is begun before a statement that changes rows; None if none is."""
        return self._level

    @isolation_level.setter
    def isolation_level(self, level: str | None) -> None:
        if level is not None and level.upper() not in _LEVELS:
            raise ValueError("isolation_level string must be '', 'DEFERRED', 'IMMEDIATE', or 'EXCLUSIVE'")
        self._level = level
        if level is None:
            self._end("COMMIT")

    def begin_if_asked(self, sql: str) -> None:
        """Begin a transaction before a statement, if ``isolation_level`` says so."""
        if self._level is not None and changes_rows(sql) and self.raw.get_autocommit():
            self.raw.execute(f"BEGIN {self._level}")

    def _end(self, statement: str) -> None:
        if self.in_transaction:
            self._done(self.raw.execute, statement)

    def commit(self) -> None:
        """Commit, if a transaction is under way."""
        self._end("COMMIT")

    def rollback(self) -> None:
        """Roll back, if a transaction is under way."""
        self._end("ROLLBACK")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, value: object, trace: object, /) -> Literal[False]:
        """Commit or roll back at the end of a ``with``."""
        if kind is None:
            self.commit()
        else:
            self.rollback()
        return False

    def close(self) -> None:
        """Let go of the database. As with ``sqlite3``, what fails meanwhile fails in silence."""
        self._done(self.raw.close, True)

    # -- what else there is -----------------------------------------------------------------------------------

    @property
    def total_changes(self) -> int:
        """How many rows were changed since it was opened."""
        return int(self._done(self.raw.total_changes))

    def interrupt(self) -> None:
        """Make a statement that is under way in another thread fail."""
        self._done(self.raw.interrupt)

    def create_function(
        self, name: str, narg: int, func: Callable[..., Any] | None, /, *, deterministic: bool = False
    ) -> None:
        """A function for SQL; whatever it raises makes the statement fail."""

        def called(*arguments: Any) -> Any:
            assert func is not None
            try:
                return func(*arguments)
            except Exception as error:
                raise apsw.SQLError("user-defined function raised exception") from error

        function = None if func is None else called
        try:
            self.raw.create_scalar_function(name, function, narg, deterministic=deterministic)
        except FAILURES as error:
            raise translated(error) from error

    def create_collation(self, name: str, callback: Callable[[str, str], Any] | None, /) -> None:
        """An order for text."""
        self._done(self.raw.create_collation, name, callback)

    def serialize(self, *, name: str = "main") -> bytes:
        """The database as bytes."""
        return bytes(self._done(self.raw.serialize, name))


def _refused(name: str) -> Callable[..., NoReturn]:
    def refused(*_: Any, **__: Any) -> NoReturn:
        raise sqlite3.NotSupportedError(
            f"{name}: connections through apsw do not have it, and sqlite3 itself cannot be recorded here; do without "
            "it, or run this with a Python whose sqlite3 module links libsqlite3 dynamically"
        )

    return refused


def _left() -> Iterator[str]:
    """The methods of ``sqlite3.Connection`` that have no counterpart."""
    mine = vars(ApswConnection)
    for name, value in vars(sqlite3.Connection).items():
        if callable(value) and not isinstance(value, type) and not name.startswith("__") and name not in mine:
            yield name


for _name in list(_left()):
    setattr(ApswConnection, _name, _refused(_name))
