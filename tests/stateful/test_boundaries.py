"""Boundaries: every way to issue a statement, every file operation, and what is left behind there."""

from __future__ import annotations

import sqlite3

import pytest

from impl.sqlite import RealFiles
from stateful.boundaries import Crash, Gate, GatedConnection, GatedFiles

WAYS = {
    "execute": lambda c: c.execute("INSERT INTO t VALUES (1)"),
    "executemany": lambda c: c.executemany("INSERT INTO t VALUES (?)", [(1,)]),
    "executescript": lambda c: c.executescript("INSERT INTO t VALUES (1)"),
    "cursor.execute": lambda c: c.cursor().execute("INSERT INTO t VALUES (1)"),
    "cursor.executemany": lambda c: c.cursor().executemany("INSERT INTO t VALUES (?)", [(1,)]),
    "cursor.executescript": lambda c: c.cursor().executescript("INSERT INTO t VALUES (1)"),
}


@pytest.fixture
def connection(tmp_path):
    opened = sqlite3.connect(tmp_path / "t.sqlite3", isolation_level=None, factory=GatedConnection)
    opened.gate, opened.store = Gate(), "t.sqlite3"
    opened.execute("CREATE TABLE t (x)")
    yield opened
    opened.drop()


def rows(connection):
    connection.gate = Gate()
    return len(connection.execute("SELECT * FROM t").fetchall())


@pytest.mark.parametrize("way", WAYS)
def test_every_statement_is_a_boundary(connection, way):
    """However a statement is issued, it is counted, and a death at it comes before it."""
    connection.gate.arm()
    WAYS[way](connection)
    counted = connection.gate.passed
    connection.gate.arm(1)
    with pytest.raises(Crash):
        WAYS[way](connection)

    assert (1, 1) == (counted, rows(connection))


@pytest.mark.parametrize("way", ["commit", "with"])
def test_a_commit_is_a_boundary(connection, way):
    """A death at a commit leaves the transaction open, however the commit was asked for."""

    def work():
        connection.execute("BEGIN")
        if way == "commit":
            connection.execute("INSERT INTO t VALUES (1)")
            connection.commit()
        else:
            with connection:
                connection.execute("INSERT INTO t VALUES (1)")

    connection.gate.arm()
    work()
    counted = connection.gate.passed
    connection.gate.arm(counted)
    with pytest.raises(Crash):
        work()
    connection.rollback()

    assert (3, 1) == (counted, rows(connection))


def test_an_error_in_a_with_block_rolls_back(connection):
    """A gated connection is still a connection: its context rolls back what failed."""

    def fail():
        with connection:
            connection.execute("BEGIN")
            connection.execute("INSERT INTO t VALUES (1)")
            raise KeyError

    with pytest.raises(KeyError):
        fail()

    assert 0 == rows(connection)


def test_the_dead_do_nothing_more(connection):
    """After a death nothing passes, not even a roll-back, whoever catches the crash."""
    connection.gate.arm(1)
    for way in ("execute", *WAYS):
        with pytest.raises(Crash):
            WAYS[way](connection)
    with pytest.raises(Crash):
        connection.commit()

    assert 0 == rows(connection)


def test_a_file_is_half_written(tmp_path):
    """A death inside a write leaves half of it; one before it leaves the old file."""
    path, left = tmp_path / "f", []
    for boundary in (1, 2, 3):
        path.write_bytes(b"old")
        gate = Gate()
        gate.arm(boundary)
        files = GatedFiles(RealFiles(), gate)
        try:
            files.write_new(path, b"12345678")
            files.sync(path)
        except Crash:
            left.append(path.read_bytes())

    assert [b"old", b"1234", b"12345678"] == left


def test_every_file_operation_is_a_boundary(tmp_path):
    """Write, the rest of it, sync, rename and the folder's sync count; reading does not."""
    gate = Gate()
    gate.arm()
    files = GatedFiles(RealFiles(), gate)
    files.write_new(tmp_path / "new", b"data")
    files.sync(tmp_path / "new")
    files.rename(tmp_path / "new", tmp_path / "f")
    files.sync_folder(tmp_path)

    assert (5, b"data") == (gate.passed, files.read(tmp_path / "f"))


def test_a_sweep_finds_every_boundary(rig, steps):
    """Boundaries are discovered: killing at 1, 2, 3 ... ends, and the last death comes after the whole operation."""
    lead_up = steps("submit k1 p1", "approve k1 p1", "claim w1 k1")
    effects = []
    played = rig()
    for boundary in range(1, 15):
        played.start()
        for step in (*lead_up, *steps(f"dispatch w1 k1 done!{boundary}")):
            played.do(step)
        effects.append(len(played.judge.stores.slots[0].effects))

    assert (0, 1) == (effects[0], effects[-1])
    assert sorted(effects) == effects
