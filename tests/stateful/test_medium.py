"""Stores are put back beneath open connections, and everybody who has one open notices."""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from pathlib import Path

import pytest

from stateful.boundaries import Gate
from stateful.medium import FolderMedium, MemoryMedium

ROWS = "SELECT n FROM t ORDER BY n"


@pytest.fixture(params=[FolderMedium, MemoryMedium])
def medium(request):
    medium = request.param()
    yield medium
    medium.close()


def path_of(medium: FolderMedium) -> Path:
    return medium.folder / "a.sqlite3"


def connected(medium: FolderMedium) -> sqlite3.Connection:
    return medium.connect(Gate(), path_of(medium))


def with_template(medium: FolderMedium, journal: str = "DELETE") -> None:
    """A template of one table with the row 1."""
    connection = connected(medium)
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")
    connection.execute("INSERT INTO t (n) VALUES (1)")
    connection.close()
    medium.keep_template()


def rows(connection) -> list[int]:
    return [n for (n,) in connection.execute(ROWS)]


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_connections_stay_open_and_read_what_was_put_back(medium, journal) -> None:
    """A writer, a reader and an oracle's view, none of them reopened, all see the template, order after order."""
    with_template(medium, journal)
    writer, reader, view = connected(medium), connected(medium), medium.look(path_of(medium))
    for n in range(2, 30):
        writer.execute("INSERT INTO t (n, text) VALUES (?, ?)", (n, "x" * 9_000))  # more pages than the template has
        assert [1, n] == rows(reader) == [r[0] for r in view.rows(ROWS)]
        medium.put_back()
        assert [1] == rows(writer) == rows(reader) == [r[0] for r in view.rows(ROWS)]
        assert ("ok",) == reader.execute("PRAGMA integrity_check").fetchone()
    view.close()


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_stamp_differs_after_every_commit_and_every_put_back(medium, journal) -> None:
    """An oracle that reads again only where the stamp differs misses nothing."""
    with_template(medium, journal)
    writer, view = connected(medium), medium.look(path_of(medium))
    stamps = [view.stamp()]
    for _ in range(10):
        writer.execute("UPDATE t SET text = 'a'")
        stamps.append(view.stamp())
        writer.execute("UPDATE t SET text = 'b'")
        stamps.append(view.stamp())
        medium.put_back()
        stamps.append(view.stamp())
    assert all(one != next_ for one, next_ in pairwise(stamps))
    view.close()


def test_a_stamp_stays_while_nobody_writes(medium) -> None:
    """A transaction that is rolled back is no news."""
    with_template(medium)
    writer, view = connected(medium), medium.look(path_of(medium))
    before = view.stamp()
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE t SET text = 'a'")
    writer.execute("ROLLBACK")
    assert before == view.stamp()
    view.close()


def test_a_schema_that_an_order_changed_is_put_back_too(medium) -> None:
    """Whoever was asleep meanwhile knows neither the table that is gone nor takes the next one for it."""
    with_template(medium)
    writer, light_sleeper, deep_sleeper = connected(medium), connected(medium), connected(medium)
    writer.execute("CREATE TABLE first (a)")
    for sleeper in (light_sleeper, deep_sleeper):
        assert [] == sleeper.execute("SELECT a FROM first").fetchall()
    medium.put_back()
    with pytest.raises(sqlite3.OperationalError, match="no such table: first"):
        light_sleeper.execute("SELECT a FROM first")
    writer.execute("CREATE TABLE second (b)")
    with pytest.raises(sqlite3.OperationalError, match="no such table: first"):
        deep_sleeper.execute("SELECT a FROM first")
    assert [] == deep_sleeper.execute("SELECT b FROM second").fetchall()


def test_a_statement_that_a_dead_process_left_unfinished_holds_nothing_up(medium) -> None:
    """Its connection is closed, the stores are put back, and the next process finds the template."""
    with_template(medium)
    dead = connected(medium)
    dead.execute("INSERT INTO t (n) VALUES (2), (3)")
    unfinished = dead.execute(ROWS)
    assert (1,) == unfinished.fetchone()
    dead.drop()
    medium.put_back()
    assert [1] == rows(connected(medium))
    with pytest.raises(sqlite3.ProgrammingError):
        unfinished.fetchone()


def test_a_connection_goes_on_to_the_next_process_without_the_last_ones_transaction(medium) -> None:
    """Pooled or not, what was not committed is rolled back, and the next process's gate is the one that counts."""
    with_template(medium)
    first = connected(medium)
    first.row_factory = sqlite3.Row
    first.execute("BEGIN IMMEDIATE")
    first.execute("INSERT INTO t (n) VALUES (2)")
    first.drop()
    gate = Gate()
    second = medium.connect(gate, path_of(medium))
    assert first is second
    assert [1] == rows(second)
    assert 1 == gate.passed


def test_a_database_that_is_no_part_of_the_template_is_gone(medium) -> None:
    """One that an order opened first does not last into the next, nor does another file."""
    with_template(medium)
    other, note = medium.folder / "later.sqlite3", medium.folder / "note.txt"
    later = medium.connect(Gate(), other)
    later.execute("CREATE TABLE u (n)")
    later.close()
    note.write_text("left over")
    medium.put_back()
    assert [] == medium.connect(Gate(), other).execute("SELECT * FROM sqlite_master").fetchall()
    assert not note.exists()


def test_nothing_is_open_once_the_medium_has_let_go() -> None:
    """A process may then fork, and bytes may be written into the files."""
    medium = FolderMedium()
    with_template(medium)
    connected(medium).close()
    before = medium.snapshot()
    connection = connected(medium)
    connection.execute("INSERT INTO t (n) VALUES (2)")
    connection.close()
    medium.restore(before)
    assert [] == [link for link in open_files() if link.startswith(str(medium.folder))]
    assert [1] == rows(connected(medium))
    medium.put_back()
    assert [1] == rows(connected(medium))
    medium.close()


def open_files() -> list[str]:
    links = []
    for fd in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(fd.readlink()))
        except FileNotFoundError:
            continue
    return links
