"""BUSY is a lane that waits, not a failure; only where nobody can go on is somebody told."""

from __future__ import annotations

import sqlite3

import pytest

READ, ADD = "SELECT n FROM a", "UPDATE a SET n = n + 1"
IMMEDIATE = ("BEGIN IMMEDIATE", READ, ADD, "COMMIT")
DEFERRED = ("BEGIN", READ, ADD, "COMMIT")
JOURNALS = pytest.mark.parametrize("wal", [False, True], ids=["journal", "wal"])


def errors(found) -> set[str]:
    """What lanes were ended by."""
    return {lane.error for ending in found.endings for lane in ending.lanes} - {""}


def counters(found) -> set[int]:
    """What the counter came to."""
    return {ending.rows("a")[0][1] for ending in found.endings}


@JOURNALS
@pytest.mark.parametrize("lanes", [2, 3])
def test_a_counter_under_begin_immediate_is_right(searched, program, wal: bool, lanes: int) -> None:
    """Under BEGIN IMMEDIATE nobody sees BUSY, and no increment is lost."""
    found = searched(program(*[IMMEDIATE] * lanes, wal=wal))

    assert ({lanes}, set(), 0) == (counters(found), errors(found), found.system.deadlocks)


@JOURNALS
def test_an_autocommit_write_waits(searched, program, wal: bool) -> None:
    """A write outside a transaction waits for a transaction's lock, and no increment is lost."""
    found = searched(program((ADD, ADD), IMMEDIATE, wal=wal))

    assert ({3}, set(), 0) == (counters(found), errors(found), found.system.deadlocks)


def test_two_readers_that_both_write_are_a_deadlock(searched, program) -> None:
    """Two deferred transactions that read and then write wait for each other; the first way there is kept."""
    found = searched(program(DEFERRED, DEFERRED))

    assert {"OperationalError: database is locked"} == errors(found)
    assert {1, 2} == counters(found)
    assert ("w1",) * 2 == found.system.first_deadlock[:2]
    assert sorted(found.system.first_deadlock) == ["w1"] * 3 + ["w2"] * 2


def test_a_deadlock_ends_for_either_lane(searched, program) -> None:
    """Each of two lanes in a deadlock is the one that is told BUSY, in some run."""
    found = searched(program(DEFERRED, DEFERRED))

    told = {tuple(bool(lane.error) for lane in ending.lanes) for ending in found.endings}
    assert {(False, False), (True, False), (False, True)} == told


@JOURNALS
def test_who_is_told_busy_can_try_again(searched, program, wal: bool) -> None:
    """A lane that rolls back when it is told BUSY, and begins again, loses no increment."""

    def body(connection: sqlite3.Connection) -> int:
        tries = 0
        while True:
            tries += 1
            try:
                for sql in DEFERRED:
                    connection.execute(sql)
            except sqlite3.OperationalError:
                connection.execute("ROLLBACK")
            else:
                return tries

    found = searched(program(body, body, wal=wal), schedules=500)

    assert ({2}, set()) == (counters(found), errors(found))
    assert any(lane.told[0] > 1 for ending in found.endings for lane in ending.lanes)


def test_a_stale_snapshot_is_told_at_once(searched, program) -> None:
    """A write on a snapshot of a write-ahead log that is no longer the newest fails without a deadlock."""
    found = searched(program(DEFERRED, (ADD,), wal=True))

    assert ({"OperationalError: database is locked"}, 0) == (errors(found), found.system.deadlocks)


def test_a_wait_may_end_early(searched, program) -> None:
    """With ``waits_end`` a lane may be told BUSY although another could go on, and that is no deadlock."""
    found = searched(program(IMMEDIATE, (ADD,), waits_end=True))

    assert ({"OperationalError: database is locked"}, 0) == (errors(found), found.system.deadlocks)
    assert {1, 2} == counters(found)


def test_either_wait_may_end_first(searched, program) -> None:
    """In a deadlock the lane that is told BUSY first may read on until the other is told too: no order is left out."""

    def noting(*statements: str):
        def body(connection: sqlite3.Connection) -> list[object]:
            told: list[object] = []
            for sql in statements:
                try:
                    told.append(connection.execute(sql).fetchall())
                except sqlite3.OperationalError as error:
                    told.append(str(error))
            return told

        return body

    lanes = noting(*DEFERRED, "ROLLBACK"), noting(*DEFERRED[:3], READ, ADD, "ROLLBACK")
    everything, reduced = (searched(program(*lanes), reduce=reduce) for reduce in (False, True))

    both_told = [e for e in reduced.endings if all("database is locked" in lane.told[0] for lane in e.lanes)]
    assert both_told
    assert everything.all == reduced.all
