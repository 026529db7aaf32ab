"""However a statement is issued, it is a transition, and what it touched is known."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from stateful.schedules.raw import RawProgram

ADD, READ = "UPDATE a SET n = n + 1 WHERE id = 1", "SELECT n FROM a"
DOUBLE = "UPDATE a SET n = n * 2"


def legacy(connection: sqlite3.Connection) -> object:
    """Python's own transactions: begun before the first write, ended by ``commit``."""
    connection.isolation_level = ""
    before = connection.execute(READ).fetchone()
    connection.execute(ADD)
    connection.commit()
    return before


def legacy_with(connection: sqlite3.Connection) -> object:
    """The same with a block, which is left by an error."""
    connection.isolation_level = ""
    try:
        with connection:
            connection.execute(ADD)
            connection.execute("INSERT INTO a VALUES (1, 1)")
    except sqlite3.IntegrityError:
        return connection.execute(READ).fetchone()
    return None


def legacy_rollback(connection: sqlite3.Connection) -> object:
    """The same, rolled back."""
    connection.isolation_level = "IMMEDIATE"
    connection.execute(ADD)
    during = connection.execute(READ).fetchone()
    connection.rollback()
    return during, connection.execute(READ).fetchone()


def many(connection: sqlite3.Connection) -> object:
    """Many rows from a generator, which can be asked only once."""
    return connection.executemany("INSERT INTO b VALUES (?, 0)", ((n,) for n in (5, 6))).rowcount


def script(connection: sqlite3.Connection) -> object:
    """A script with a transaction, which ends the one that is open."""
    connection.isolation_level = ""
    connection.execute(ADD)
    connection.executescript(f"BEGIN; {ADD}; COMMIT; {ADD} -- the last")
    return connection.in_transaction


def cursor(connection: sqlite3.Connection) -> object:
    """One cursor for everything, which was not asked for by name."""
    with closing(connection.execute(READ)) as one:
        first = one.fetchone()
        one.execute(ADD)
        return first, one.execute(READ).fetchmany(2)


def loop(connection: sqlite3.Connection) -> object:
    """A read that is still open while something else is written."""
    out = []
    for row in connection.execute("SELECT id FROM a UNION SELECT id + 1 FROM a"):
        connection.execute("UPDATE b SET n = n + ?", row)
        out.append(row)
    return out


def returning(connection: sqlite3.Connection) -> object:
    """A write that returns rows of which not all are fetched."""
    return connection.execute("UPDATE a SET n = n + 1 RETURNING n").fetchone()


def replaced(connection: sqlite3.Connection) -> object:
    """A refusal that rolls the transaction back."""
    connection.execute("BEGIN")
    connection.execute(ADD)
    try:
        connection.execute("INSERT OR ROLLBACK INTO a VALUES (1, 1)")
    except sqlite3.IntegrityError:
        return connection.in_transaction
    return None


def closed(connection: sqlite3.Connection) -> object:
    """A connection that is closed in the middle of a transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(ADD)
    connection.close()
    return None


BODIES: list[tuple[Callable[[sqlite3.Connection], object], int]] = [
    (legacy, 3),
    (legacy_with, 3),
    (legacy_rollback, 3),
    (many, 1),
    (script, 6),
    (cursor, 3),
    (loop, 3),
    (returning, 1),
    (replaced, 3),
    (closed, 2),
]
NAMED = pytest.mark.parametrize(("body", "boundaries"), BODIES, ids=[body.__name__ for body, _ in BODIES])


@NAMED
def test_every_statement_is_a_boundary(searched, program, body, boundaries: int) -> None:
    """A body stops before each statement that it issues."""
    assert boundaries == searched(program(body)).counts.deepest


@pytest.mark.parametrize("wal", [False, True], ids=["journal", "wal"])
@pytest.mark.parametrize(
    "other",
    [(READ, DOUBLE), ("BEGIN IMMEDIATE", DOUBLE, "COMMIT"), ("BEGIN", READ, "SELECT id FROM b", "COMMIT"), legacy],
    ids=["autocommit", "immediate", "deferred", "legacy"],
)
@NAMED
def test_nothing_is_lost(searched, program, body, boundaries: int, other, wal: bool) -> None:
    """Beside another lane, sleep sets lose nothing of it, and nobody is left waiting for a lock that is free."""
    everything, reduced = (searched(program(body, other, wal=wal), reduce=reduce) for reduce in (False, True))

    assert everything.counts.exhausted
    assert everything.all == reduced.all


@NAMED
def test_no_lock_is_left_behind(searched, program, body, boundaries: int) -> None:
    """Beside one immediate transaction a body ends, and is never in a deadlock."""
    found = searched(program(body, ("BEGIN IMMEDIATE", DOUBLE, "COMMIT")))

    assert 0 == found.system.deadlocks
    assert {""} == {lane.error for ending in found.endings for lane in ending.lanes}


def test_an_open_read_does_not_hold_its_lock(searched, program) -> None:
    """A cursor that is kept open outside a transaction keeps nobody waiting."""

    def body(connection: sqlite3.Connection) -> object:
        kept = connection.execute("SELECT id FROM a UNION SELECT id + 1 FROM a")
        connection.execute("SELECT n FROM b").fetchall()
        return kept.fetchall()

    found = searched(program(body, (ADD,)), reduce=False)

    assert (3, 0) == (found.counts.schedules, found.system.deadlocks)


def test_a_wait_repeats_all_rows(searched, program) -> None:
    """Who waits in ``executemany`` writes every row of a generator in the end."""

    def body(connection: sqlite3.Connection) -> object:
        connection.execute(READ)
        return many(connection)

    found = searched(program(body, ("BEGIN", "SELECT n FROM b", "SELECT id FROM b", "COMMIT")), reduce=False)

    assert {((1, 0), (5, 0), (6, 0))} == {ending.rows("b") for ending in found.endings}


@pytest.mark.parametrize("order", [1, -1])
def test_an_attached_database_is_no_blind_spot(searched, schema: str, order: int) -> None:
    """Who reaches another lane's database under another name commutes with nobody."""

    def attaching(first: sqlite3.Connection, second: sqlite3.Connection) -> object:
        (path,) = (row[2] for row in second.execute("PRAGMA database_list"))
        first.execute("ATTACH ? AS x", (path,))
        seen = first.execute("SELECT n FROM x.a").fetchall()
        first.execute("UPDATE x.a SET n = n + 1")
        return seen

    def direct(first: sqlite3.Connection, second: sqlite3.Connection) -> object:
        return [second.execute(READ).fetchall() for _ in range(3)]

    raw = RawProgram((schema, schema), (attaching, direct)[::order])
    everything, reduced = (searched(raw, reduce=reduce) for reduce in (False, True))

    assert everything.all == reduced.all
    assert 1 < len(everything.endings)
