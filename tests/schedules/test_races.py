"""Well-known races over a database are found, and what is right passes."""

from __future__ import annotations

import sqlite3

import pytest

from stateful.schedules.raw import RawProgram

FREE = (
    "CREATE TABLE job (id INTEGER PRIMARY KEY, owner TEXT, done INTEGER DEFAULT 0); INSERT INTO job (id) VALUES (1);"
)
ONCE = "CREATE TABLE effect (key TEXT PRIMARY KEY);"


def select_then_update(name: str):
    """Look whether the job is free, then take it."""

    def body(connection: sqlite3.Connection) -> bool:
        (owner,) = connection.execute("SELECT owner FROM job").fetchone()
        if owner is not None:
            return False
        connection.execute("UPDATE job SET owner = ?", (name,))
        return True

    return body


def compare_and_set(name: str):
    """Take the job if it is free, in one statement."""

    def body(connection: sqlite3.Connection) -> bool:
        return connection.execute("UPDATE job SET owner = ? WHERE owner IS NULL", (name,)).rowcount == 1

    return body


def insert(*, looks: bool):
    """Leave a mark that the effect was done, and do it if the mark is ours; or whoever's it is."""

    def body(connection: sqlite3.Connection) -> bool:
        marked = connection.execute("INSERT OR IGNORE INTO effect VALUES ('k1')").rowcount
        return marked == 1 or not looks

    return body


def add_one(connection: sqlite3.Connection) -> None:
    """Read, then write what was read and one more."""
    (done,) = connection.execute("SELECT done FROM job").fetchone()
    connection.execute("UPDATE job SET done = ?", (done + 1,))


def winners(found) -> set[int]:
    """How many lanes believed that it was they."""
    return {sum(lane.told[0] for lane in ending.lanes) for ending in found.endings}


@pytest.mark.parametrize(
    ("schema", "bodies", "expected"),
    [
        (FREE, (select_then_update("w1"), select_then_update("w2")), {1, 2}),
        (FREE, (compare_and_set("w1"), compare_and_set("w2")), {1}),
        (ONCE, (insert(looks=False), insert(looks=False)), {2}),
        (ONCE, (insert(looks=True), insert(looks=True)), {1}),
    ],
    ids=["select then update", "compare and set", "insert or ignore, unchecked", "insert or ignore, checked"],
)
def test_who_wins(searched, schema: str, bodies, expected: set[int]) -> None:
    """A claim that looks first has two winners in some schedule; one that is a single statement never has."""
    assert expected == winners(searched(RawProgram((schema,), bodies)))


def test_an_update_is_lost(searched) -> None:
    """A read and then a write in autocommit lose an increment in some schedule."""
    found = searched(RawProgram((FREE,), (add_one, add_one)))

    assert {1, 2} == {ending.rows("job")[0][2] for ending in found.endings}
