"""A cursor of the standard library's ``sqlite3``, whose statements ``apsw`` runs."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from itertools import repeat
from typing import Any, Protocol, Self, cast

import apsw

from stateful.storage.apsw_errors import FAILURES, translated

_GAP = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_CHANGES = re.compile(_GAP + r"(?:INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE | re.DOTALL)
_NOTHING = re.compile(f"{_GAP}$", re.DOTALL)
_END = cast("tuple[Any, ...]", object())
"""Stands for a row where there is none left."""
_shapes = sqlite3.connect(":memory:", check_same_thread=False)
"""Has no tables: ``sqlite3.Row`` reads the columns out of a cursor's own structure, which only ``sqlite3`` can fill."""


@lru_cache(maxsize=4096)
def changes_rows(sql: str) -> bool:
    """Whether it is a statement before which ``sqlite3`` begins a transaction, and after which it counts rows."""
    return _CHANGES.match(sql) is not None


class Database(Protocol):
    """What a cursor needs of its connection."""

    raw: apsw.Connection
    row_factory: Any
    text_factory: Any

    def begin_if_asked(self, sql: str) -> None:
        """Begin a transaction before a statement, if one is to be begun."""


class ApswCursor(sqlite3.Cursor):
    """A cursor of a connection. It reads one row ahead, so that a statement ends when its last row is taken."""

    def __init__(self, connection: Database, /) -> None:
        super().__init__(_shapes)
        self._connection = connection
        try:
            self._raw = connection.raw.cursor()
        except FAILURES as error:
            raise translated(error) from error
        self.row_factory = connection.row_factory
        self._text = connection.text_factory
        self._row = _END
        self._asked: tuple[str, Any] | None = None
        self._columns: tuple[str, ...] | None = None
        self._rowcount = -1
        self._rowid: int | None = None

    @property
    def connection(self) -> Any:
        """The connection that it belongs to."""
        return self._connection

    # -- statements -------------------------------------------------------------------------------------------

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        """Run one statement, up to its first row."""
        self._row, self._asked, self._columns = _END, (sql, parameters), None
        try:
            self._refuse_more(sql, parameters)
            self._connection.begin_if_asked(sql)
            self._raw.execute(sql, parameters)
            self._row = next(self._raw, _END)
            self._count(sql)
            self._rowid = self._connection.raw.last_insert_rowid()
        except FAILURES as error:
            raise translated(error) from error
        return self

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Self:
        """Run one statement that changes rows with many parameters."""
        if not changes_rows(sql):
            raise sqlite3.ProgrammingError("executemany() can only execute DML statements.")
        self._row, self._asked, self._columns = _END, None, None
        changed = 0
        try:
            self._connection.begin_if_asked(sql)
            for number, some in enumerate(parameters):
                if not number:
                    self._refuse_more(sql, some)
                for _ in self._raw.execute(sql, some):
                    raise sqlite3.ProgrammingError("executemany() can only execute DML statements.")
                changed += self._connection.raw.changes()
        except FAILURES as error:
            raise translated(error) from error
        self._rowcount = changed
        return self

    def executescript(self, sql: str, /) -> Self:
        """Run a script, after committing what is under way."""
        self._row, self._asked, self._columns = _END, None, None
        try:
            if not self._connection.raw.get_autocommit():
                self._raw.execute("COMMIT")
            for _ in self._raw.execute(sql):
                pass
        except FAILURES as error:
            raise translated(error) from error
        return self

    def _refuse_more(self, sql: str, parameters: Any) -> None:
        """Raise ProgrammingError for a second statement, before the first is run."""
        if ";" in sql and ";" in sql.rstrip("; \t\r\n"):
            first, _ = self._prepared(sql, parameters)
            if not _NOTHING.match(sql.removeprefix(first)):
                raise sqlite3.ProgrammingError("You can only execute one statement at a time.")

    def _prepared(self, sql: str, parameters: Any) -> tuple[str, tuple[str, ...]]:
        """The first statement of some SQL, and its columns, without running it."""
        found: tuple[str, tuple[str, ...]] = "", ()

        def trace(cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
            nonlocal found
            found = statement, tuple(column[0] for column in cursor.get_description())
            return False

        cursor = self._connection.raw.cursor()
        cursor.exec_trace = trace
        with suppress(apsw.ExecTraceAbort):
            cursor.execute(sql, parameters)
        return found

    def _count(self, sql: str) -> None:
        self._rowcount = -1
        if changes_rows(sql):
            self._rowcount = self._connection.raw.changes() if self._row is _END else 0

    # -- rows -------------------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        row = self._row
        if row is _END:
            self._check_open()
            raise StopIteration
        try:
            self._row = next(self._raw, _END)
        except FAILURES as error:
            self._row = _END
            raise translated(error) from error
        if self._row is _END and self._rowcount == 0:
            self._rowcount = self._connection.raw.changes()
        return self._made(row)

    def fetchone(self) -> Any:
        """The next row; None if there is none left."""
        return next(self, None)

    def fetchmany(self, size: int | None = None) -> list[Any]:
        """The next rows, ``arraysize`` of them if it is not said how many."""
        wanted = self.arraysize if size is None else size
        return [row for _, row in zip(repeat(None, wanted), self, strict=False)]

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        return list(self)

    def _made(self, row: tuple[Any, ...]) -> Any:
        """A row as the factories make it."""
        if self._text is not str:
            factory = bytes if self._text is bytes else self._text
            row = tuple(factory(v.encode()) if isinstance(v, str) else v for v in row)
        if self.row_factory is None:
            return row
        if self._columns is None:
            names = (name.replace('"', '""') for name in self._names())
            columns = ", ".join(f'NULL AS "{name}"' for name in names)
            sqlite3.Cursor.execute(self, f"SELECT {columns} WHERE 0")
        return self.row_factory(self, row)

    def _names(self) -> tuple[str, ...]:
        if self._columns is None:
            self._columns = () if self._asked is None else self._prepared(*self._asked)[1]
        return self._columns

    # -- what it says of itself -------------------------------------------------------------------------------

    @property
    def description(self) -> Any:
        """The columns, each a name and six times None; None where there are none."""
        return tuple((name, *repeat(None, 6)) for name in self._names()) or None

    @property
    def rowcount(self) -> int:
        """How many rows were changed; -1 where none could be."""
        return self._rowcount

    @property
    def lastrowid(self) -> int | None:
        """The row that was last inserted."""
        return self._rowid

    def _check_open(self) -> None:
        try:
            self._raw.connection  # noqa: B018 - raises where it is closed
        except FAILURES as error:
            raise translated(error) from error

    def close(self) -> None:
        """Let go of the statement."""
        self._row = _END
        self._raw.close(True)
