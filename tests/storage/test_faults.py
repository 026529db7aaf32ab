"""Each of SQLite's storage calls is failed, the first, the second ... until there is none left, and none is fatal."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from stateful.storage.disk import Disk
from stateful.storage.log import Forget, Sync
from stateful.storage.materialise import damage, materialise
from stateful.storage.plan import CODES, Call, FaultPlan, Until

CALLS_MAX = 200
"""More than any of the sweeps has, so that one that does not end is a failure."""


def told_as(code: int) -> set[int]:
    """The codes under which a failed call may reach the caller: its own, or that of its kind."""
    return {code, code & 0xFF}


def sweep(recorded, journal: str, call: Call | None, **options) -> Iterator[tuple[FaultPlan, int]]:
    """The same transaction with the n-th call failing, n = 1, 2 ...; the error's code, 0 if there was none."""
    for at in range(1, CALLS_MAX):
        db = recorded(journal, "EXTRA")
        db.add(1)
        plan = FaultPlan(at, call, **options)
        db.fail(plan)
        code = 0
        try:
            db.add(2)
        except sqlite3.Error as error:
            code = error.sqlite_errorcode
        db.fail(None)
        if db.connection.in_transaction:
            db.connection.execute("ROLLBACK")
        assert ("ok",) == db.connection.execute("PRAGMA integrity_check").fetchone()
        assert not db.connection.execute("SELECT k FROM a EXCEPT SELECT k FROM b").fetchall()
        if not plan.fired:
            return
        yield plan, code
    pytest.fail("the sweep does not end")


@pytest.mark.parametrize("journal", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
@pytest.mark.parametrize("call", [Call.WRITE, Call.SYNC, Call.TRUNCATE, Call.DELETE, Call.OPEN])
def test_each_call_of_a_kind_fails_as_what_it_is(recorded, journal, call) -> None:
    """The error that reaches the caller is the one of the failed call, and the database stays whole."""
    swept = list(sweep(recorded, journal, call))
    codes = {code for _, code in swept}

    assert codes <= told_as(CODES[call]) | {0}
    assert list(range(1, len(swept) + 1)) == [plan.at for plan, _ in swept]
    assert all(plan.fired == 1 for plan, _ in swept)
    assert all(kind in Call and path.startswith("a.sqlite3") for plan, _ in swept for kind, path in plan.counts)


@pytest.mark.parametrize(
    ("journal", "call", "least"),
    [
        ("DELETE", Call.WRITE, 6),
        ("DELETE", Call.SYNC, 3),
        ("DELETE", Call.OPEN, 1),
        ("DELETE", Call.DELETE, 1),
        ("TRUNCATE", Call.TRUNCATE, 1),
        ("WAL", Call.WRITE, 4),
        ("WAL", Call.SYNC, 1),
    ],
)
def test_a_sweep_meets_every_call_that_there_is(recorded, journal, call, least) -> None:
    """The kinds of call that a journal mode needs for a commit are met, and their failure is not hidden."""
    swept = list(sweep(recorded, journal, call))

    assert len(swept) >= least
    assert any(code for _, code in swept)


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_full_disk_says_so(recorded, journal) -> None:
    """From the n-th write on there is no room: the caller reads SQLITE_FULL, and nothing is damaged."""
    swept = list(sweep(recorded, journal, Call.WRITE, code=sqlite3.SQLITE_FULL, until=Until.FOR_EVER))

    assert {sqlite3.SQLITE_FULL} == {code for _, code in swept}


@pytest.mark.parametrize("journal", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def test_a_power_cut_at_each_call_leaves_a_whole_database(recorded, journal, fast) -> None:
    """Nothing reaches the disk from the n-th call on, whatever SQLite tries; what is there can be recovered."""
    seen = 0
    for at in range(1, CALLS_MAX):
        db = recorded(journal, "EXTRA")
        db.add(1)
        plan = FaultPlan(at, until=Until.POWER_CUT)
        db.fail(plan)
        log = db.medium.start_recording()
        try:
            db.add(2)
        except sqlite3.Error:
            assert plan.fired
        materialise(db.medium.snapshot(), fast)
        assert "" == damage(fast / "a.sqlite3")
        assert [] == db.medium.strays(log)
        db.fail(None)
        if not plan.fired:
            break
        seen += 1
    assert seen > 5


def test_a_failed_sync_that_later_succeeds_has_lost_the_data(recorded) -> None:
    """The log forgets what the file had pending, and the sync that says it succeeded does not bring it back."""
    db = recorded("WAL", "FULL")
    log = db.medium.start_recording()
    db.fail(FaultPlan(1, Call.SYNC, until=Until.FORGOTTEN))
    with pytest.raises(sqlite3.OperationalError):
        db.add(1)
    db.medium.stop_recording()
    wal = log.inode_of("a.sqlite3-wal")
    log.sync(wal)
    cache, disk, real = Disk.after(log).files(), Disk.after(log).files(()), db.medium.snapshot()

    assert [Forget(wal), Sync(wal)] == [o for o in log.operations if o in {Forget(wal), Sync(wal)}]
    assert log.base["a.sqlite3-wal"] == cache["a.sqlite3-wal"] == disk["a.sqlite3-wal"] != real["a.sqlite3-wal"]
    assert [] == db.medium.strays(log)


def test_a_plan_can_be_for_one_file(recorded) -> None:
    """Only the calls to the named file are counted towards the fault; all are counted."""
    db = recorded("DELETE", "EXTRA")
    plan = FaultPlan(1, Call.WRITE, "a.sqlite3")
    db.fail(plan)
    with pytest.raises(sqlite3.OperationalError):
        db.add(1)

    assert (1, True) == (plan.fired, plan.counts[Call.WRITE, "a.sqlite3"] > 0)
    assert plan.counts[Call.WRITE, "a.sqlite3-journal"] > 3


def test_another_file_is_not_hit(recorded) -> None:
    """A plan for a file that nobody uses never fires."""
    db = recorded()
    plan = FaultPlan(1, path="other.sqlite3", until=Until.FOR_EVER)
    db.fail(plan)
    db.add(1)

    assert (0, True) == (plan.fired, plan.counts.total() > 0)


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_opening_can_fail(recorded, journal) -> None:
    """A database that cannot be opened raises, and its connection can be tried again."""
    db = recorded(journal)
    db.fail(FaultPlan(1, Call.OPEN))
    with pytest.raises(sqlite3.OperationalError, match="unable to open database file"):
        db.connect("other.sqlite3")
    db.fail(None)

    assert [(1,)] == db.connect("other.sqlite3").execute("SELECT 1").fetchall()


class Stumbling:
    """A plan that has a mistake in it."""

    def __init__(self, at: int, error: BaseException) -> None:
        self.left, self.error = at, error

    def before(self, call: Call, path: str) -> None:
        self.left -= 1
        if not self.left:
            raise self.error


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), KeyboardInterrupt()])
@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_what_a_callback_raises_reaches_the_caller(recorded, journal, error) -> None:
    """At each call: the very error comes out of the statement, not one of SQLite's, and not a line on stderr."""
    for at in range(1, CALLS_MAX):
        db = recorded(journal, "EXTRA")
        plan = Stumbling(at, error)
        db.fail(plan)
        raised = None
        try:
            db.add(1)
        except BaseException as caught:  # noqa: BLE001
            raised = caught
        db.fail(None)
        if plan.left > 0:
            break
        assert error is raised
        assert ("ok",) == db.connection.execute("PRAGMA integrity_check").fetchone()
    assert at > 5


def test_what_surfaces_nowhere_else_surfaces_in_the_end(recorded) -> None:
    """Closing a connection cannot fail, so what was raised meanwhile comes out when the recording is stopped."""
    db = recorded("WAL")
    db.medium.start_recording()
    db.add(1)
    db.fail(Stumbling(1, ZeroDivisionError("mine")))
    db.connection.close_for_good()
    with pytest.raises(ZeroDivisionError, match="mine"):
        db.medium.stop_recording()


def test_a_cursor_and_a_script_surface_it_too(recorded) -> None:
    """However a statement is issued, what was raised in it is raised by it."""
    ways = (
        lambda c: c.cursor().execute("INSERT INTO b VALUES (1)"),
        lambda c: c.cursor().executemany("INSERT INTO b VALUES (?)", [(1,)]),
        lambda c: c.cursor().executescript("INSERT INTO b VALUES (1)"),
        lambda c: c.executemany("INSERT INTO b VALUES (?)", [(1,)]),
        lambda c: c.executescript("INSERT INTO b VALUES (1)"),
    )
    for way in ways:
        db = recorded()
        db.fail(Stumbling(1, ZeroDivisionError("mine")))
        with pytest.raises(ZeroDivisionError, match="mine"):
            way(db.connection)
