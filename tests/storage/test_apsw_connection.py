"""A connection through apsw is one of sqlite3's: each call answers, or fails, as with the standard library."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw")

from stateful.storage.apsw_connection import ApswConnection
from stateful.storage.apsw_cursor import ApswCursor

SCHEMA = ("CREATE TABLE t (n INTEGER PRIMARY KEY, u UNIQUE)", "INSERT INTO t VALUES (1, 2), (2, 3), (7, 8)")


@pytest.fixture
def pair(fast: Path) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
    """A connection of the standard library and one through apsw, to equal databases."""
    own, other = sqlite3.connect(fast / "own", isolation_level=None), ApswConnection(str(fast / "other"))
    with closing(own), closing(other):
        for connection in (own, other):
            for statement in SCHEMA:
                connection.execute(statement)
        yield own, other


def outcome(call: Callable[[sqlite3.Connection], Any], connection: sqlite3.Connection) -> Any:
    """What a call returns, or all that an error tells."""
    try:
        return call(connection)
    except Exception as error:  # noqa: BLE001
        code = getattr(error, "sqlite_errorcode", None), getattr(error, "sqlite_errorname", None)
        return type(error), str(error), *code


def executed(sql: str, *parameters: Any) -> Callable[[sqlite3.Connection], Any]:
    """All that a cursor tells of one statement."""

    def call(connection: sqlite3.Connection) -> Any:
        cursor = connection.cursor()
        assert cursor.execute(sql, *parameters) is cursor
        told = cursor.description, cursor.rowcount, cursor.lastrowid
        return told, cursor.fetchmany(2), cursor.fetchone(), cursor.fetchall(), cursor.fetchone(), cursor.rowcount

    return call


def in_with(connection: sqlite3.Connection) -> Any:
    with suppress(KeyError), connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (60, 60)")
        raise KeyError
    with connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (61, 61)")
    return connection.in_transaction, connection.execute("SELECT n FROM t").fetchall()


def begun(connection: sqlite3.Connection) -> Any:
    connection.isolation_level = "IMMEDIATE"
    seen = [connection.in_transaction]
    for sql in ("SELECT 1", "INSERT INTO t VALUES (50, 51)"):
        connection.execute(sql)
        seen.append(connection.in_transaction)
    connection.rollback()
    connection.execute("UPDATE t SET u = -u")
    connection.isolation_level = None
    return seen, connection.in_transaction, connection.execute("SELECT u FROM t").fetchall()


def as_row(connection: sqlite3.Connection) -> Any:
    connection.row_factory = sqlite3.Row
    row = connection.execute('SELECT n, u AS "a""b" FROM t ORDER BY n').fetchone()
    return tuple(row), row.keys(), row["n"]


def as_dict(connection: sqlite3.Connection) -> Any:
    connection.row_factory = lambda cursor, row: dict(zip([c[0] for c in cursor.description], row, strict=True))
    return connection.execute("SELECT n, u FROM t").fetchall()


def as_bytes(connection: sqlite3.Connection) -> Any:
    connection.text_factory = bytes
    return connection.execute("SELECT 'x', 1, x'00', NULL").fetchall()


def by_function(connection: sqlite3.Connection) -> Any:
    connection.create_function("plus", 1, lambda x: x + 1, deterministic=True)
    return connection.execute("SELECT plus(2)").fetchone(), outcome(executed("SELECT plus('a')"), connection)


def by_collation(connection: sqlite3.Connection) -> Any:
    connection.create_collation("backwards", lambda a, b: (a < b) - (a > b))
    return connection.execute("SELECT * FROM (VALUES ('a'), ('b')) ORDER BY 1 COLLATE backwards").fetchall()


def closed_cursor(connection: sqlite3.Connection) -> Any:
    cursor = connection.execute("SELECT 1")
    cursor.close()
    return outcome(lambda _: cursor.fetchone(), connection), outcome(lambda _: cursor.execute("SELECT 1"), connection)


def closed(connection: sqlite3.Connection) -> Any:
    connection.close()
    connection.close()
    calls = (executed("SELECT 1"), lambda c: c.in_transaction, lambda c: c.commit(), lambda c: c.total_changes)
    return [outcome(call, connection) for call in calls]


STATEMENTS: tuple[tuple[Any, ...], ...] = (
    ("INSERT INTO t VALUES (10, 11), (12, 13)",),
    ("INSERT INTO t VALUES (?, ?)", (20, 21)),
    ("INSERT INTO t VALUES (:a, :b)", {"a": 30, "b": 31}),
    ("INSERT INTO t VALUES (:a, :b)", {"a": 30}),
    ("INSERT INTO t VALUES (1, 9)",),
    ("INSERT INTO t VALUES (99, 2)",),
    ("-- who\n /* what */ UPDATE t SET u = u + 100 RETURNING n",),
    ("DELETE FROM t",),
    ("SELECT n AS a, u b, 1 FROM t",),
    ("SELECT n AS a FROM t WHERE 0",),
    ("SELECT ?",),
    ("SELECT ?", (object(),)),
    ("SELECT ?", 3),
    ("SELECT ?, ?", (True, bytearray(b"x"))),
    ("SELECT 1; SELECT 2",),
    ("SELECT 1 WHERE ? = 1; SELECT 2", (1,)),
    ("SELECT ';';  -- nothing more\n /* ; */",),
    ("selec",),
    ("SELECT * FROM nothing",),
    ("PRAGMA journal_mode = WAL",),
    ("BEGIN",),
    ("COMMIT",),
)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement[0])
def test_a_statement_is_what_it_is_with_sqlite3(pair, statement) -> None:
    """Rows, description, counts, or the error with its class, message, code and name."""
    own, other = pair

    assert outcome(executed(*statement), own) == outcome(executed(*statement), other)


CALLS: dict[str, Callable[[sqlite3.Connection], Any]] = {
    "in_with": in_with,
    "begun": begun,
    "as_row": as_row,
    "as_dict": as_dict,
    "as_bytes": as_bytes,
    "by_function": by_function,
    "by_collation": by_collation,
    "closed_cursor": closed_cursor,
    "closed": closed,
    "fresh cursor": lambda c: (c.cursor().fetchone(), c.cursor().description, c.cursor().rowcount),
    "many": lambda c: (c.executemany("INSERT INTO t VALUES (?, ?)", [(20, 21), (22, 23)]).rowcount, c.total_changes),
    "many rows": lambda c: c.executemany("SELECT ?", [(1,)]),
    "script": lambda c: (c.executescript("BEGIN; DELETE FROM t; COMMIT; SELECT 1").fetchall(), c.in_transaction),
    "script commits": lambda c: (c.execute("BEGIN"), c.executescript("SELECT 1"), c.in_transaction)[2],
    "ends": lambda c: (c.commit(), c.rollback(), c.isolation_level),
    "no level": lambda c: setattr(c, "isolation_level", "x"),
    "iterated": lambda c: list(c.execute("SELECT n FROM t")),
    "patience": lambda c: c.execute("PRAGMA busy_timeout").fetchone(),
    "bytes": lambda c: len(c.serialize()),
    "types": lambda c: (isinstance(c, sqlite3.Connection), isinstance(c.execute("SELECT 1"), sqlite3.Cursor)),
    "home": lambda c: c.execute("SELECT 1").connection is c,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_does_what_it_does_with_sqlite3(pair, name) -> None:
    """Transactions, rows and their factories, functions, scripts, and what is closed."""
    own, other = pair

    assert outcome(CALLS[name], own) == outcome(CALLS[name], other)


def test_a_statement_ends_with_its_last_row(pair, fast) -> None:
    """Once the only row is taken nothing is locked any more, though the cursor is still there."""
    for connection, name in zip(pair, ("own", "other"), strict=True):
        cursor = connection.execute("SELECT count(*) FROM t")
        assert (3,) == cursor.fetchone()
        other = sqlite3.connect(fast / name, isolation_level=None, timeout=0) if name == "own" else None
        with closing(other or ApswConnection(str(fast / name))) as somebody:
            somebody.execute("PRAGMA busy_timeout = 0")
            somebody.execute("BEGIN EXCLUSIVE")


def test_who_is_locked_out_reads_busy(pair, fast) -> None:
    """The error that a dispatcher tells from others by its code and its message."""
    _, other = pair
    other.execute("BEGIN EXCLUSIVE")
    with closing(ApswConnection(str(fast / "other"))) as second:
        second.execute("PRAGMA busy_timeout = 0")
        with pytest.raises(sqlite3.OperationalError, match=r"^database is locked$") as busy:
            second.execute("BEGIN IMMEDIATE")

    assert (sqlite3.SQLITE_BUSY, "SQLITE_BUSY") == (busy.value.sqlite_errorcode, busy.value.sqlite_errorname)


def test_what_cannot_be_opened_says_so(tmp_path) -> None:
    """The class, message and code of the standard library."""
    paths = str(tmp_path / "nowhere" / "a.sqlite3")

    assert outcome(lambda _: sqlite3.connect(paths), None) == outcome(lambda _: ApswConnection(paths), None)


@pytest.mark.parametrize("name", ["backup", "set_authorizer", "set_trace_callback", "iterdump", "create_aggregate"])
def test_what_it_does_not_have_is_refused_by_name(pair, name) -> None:
    """Nothing reaches another copy of SQLite by mistake: the call is refused, with what to do."""
    _, other = pair
    with pytest.raises(sqlite3.NotSupportedError, match=rf"^{name}: .* do without it, or run this with a Python"):
        getattr(other, name)()


def test_a_cursor_of_another_kind_is_refused(pair) -> None:
    """A cursor class that is not made for it could only ask another copy of SQLite."""
    _, other = pair
    with pytest.raises(sqlite3.NotSupportedError, match="cursors of its own alone"):
        other.cursor(sqlite3.Cursor)

    assert isinstance(other.cursor(ApswCursor), ApswCursor)
