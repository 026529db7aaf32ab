"""Raw programs: lists of statements, or functions of a connection, and what a run of them comes to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

Sql = str | tuple[str, Sequence[Any]]
Body = Callable[..., Any]
"""Called with a connection to each database; what it returns is what it was told."""
Table = tuple[str, tuple[tuple[Any, ...], ...]]
Tables = tuple[Table, ...]


@frozen
class RawProgram:
    """What is run side by side: the scripts that make each database, and a body or a list of statements for each lane.

    Statements in a list go to the first database. A lane that ends inside a transaction rolls it back.
    """

    schemas: tuple[str, ...]
    lanes: tuple[Body | Sequence[Sql], ...]
    wal: bool = False
    """Whether the databases have a write-ahead log; a rollback journal otherwise."""
    kills: int = 0
    """How many lanes may die in one run."""
    waits_end: bool = False
    """Whether a wait for a lock may end with BUSY although somebody else could go on."""


@frozen
class LaneEnd:
    """How one lane's part of a run ended."""

    told: tuple[Any, ...] = ()
    """What its statements returned: rows, or the count of changed rows. A body's is what it returned."""
    error: str = ""
    """What it was ended by: ``IntegrityError: ...``."""
    died_at: int = 0
    """The boundary before which it died, counted from 1; 0 if it did not."""


@frozen
class Ending:
    """What a complete run came to."""

    tables: Tables
    """By name; those of a second database are called ``2.name``."""
    lanes: tuple[LaneEnd, ...]

    def rows(self, table: str) -> tuple[tuple[Any, ...], ...]:
        """The rows of one table, in the order of their rowid."""
        return dict(self.tables)[table]


def told_by(connection: sqlite3.Connection, statement: Sql) -> Any:
    """What a statement returns: its rows, or how many it has changed; None if it is about neither."""
    sql, parameters = (statement, ()) if isinstance(statement, str) else statement
    cursor = connection.execute(sql, parameters)
    if cursor.description is not None:
        return tuple(cursor.fetchall())
    return cursor.rowcount if cursor.rowcount >= 0 else None


def plain(value: Any) -> Any:
    """A value that can be hashed and compared."""
    if isinstance(value, list | tuple | sqlite3.Row):
        return tuple(map(plain, value))
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def tables_of(rows: Callable[[str], Any], prefix: str) -> list[Table]:
    """Every table of a database, with its rows in the order of their rowid, all read under one lock."""
    rows("BEGIN")
    try:
        names = [name for (name,) in rows("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
        return [(f"{prefix}{name}", tuple(rows(f'SELECT * FROM "{name}"').fetchall())) for name in sorted(names)]  # noqa: S608
    finally:
        rows("COMMIT")
