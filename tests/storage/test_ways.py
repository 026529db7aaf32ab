"""The ways into SQLite: which one is taken, that both record the same, and what is said where there is none."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve

from model.contracts import Contracts, contracts_from
from stateful.boundaries import Gate
from stateful.cuts import Cuts
from stateful.failing.rig import FaultMedium
from stateful.failures import Failures
from stateful.report import faults, power
from stateful.report.swept import framed
from stateful.shard import Shard, run_shard
from stateful.storage import abi
from stateful.storage.abi import UnsupportedStorageError
from stateful.storage.medium import RecordingMedium
from stateful.storage.plan import Call, FaultPlan
from stateful.storage.ways import Way
from stateful.subject import load_subject
from stateful.verdict import merged


@pytest.fixture
def statically_linked(monkeypatch) -> None:
    """A Python in which SQLite's functions cannot be reached through the module."""
    monkeypatch.setattr(abi, "_candidates", lambda: iter([("libc", "libc.so.6")]))


@pytest.fixture
def without_apsw(monkeypatch) -> None:
    """An environment in which apsw is not installed."""
    monkeypatch.setitem(sys.modules, "apsw", None)
    for name in [n for n in sys.modules if n.startswith("stateful.storage.apsw_")]:
        monkeypatch.delitem(sys.modules, name)


def told(way: Way, journal: str, synchronous: str) -> list[str]:
    """What three transactions and a checkpoint do to the storage, in words."""
    with closing(RecordingMedium(way=way)) as medium:
        connection = medium.connect(Gate(), medium.folder / "a.sqlite3")
        connection.execute(f"PRAGMA journal_mode = {journal}").fetchall()
        connection.execute("PRAGMA wal_autocheckpoint = 6")
        connection.execute("CREATE TABLE a (k INTEGER PRIMARY KEY, text)")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        log = medium.start_recording()
        for key in range(3):
            connection.execute("INSERT INTO a VALUES (?, ?)", (key, f"{key}" * 9_000))
        connection.close_for_good()
        assert [] == medium.strays(log)
        return [log.tell(n) for n in range(len(log))]


@pytest.mark.parametrize("synchronous", ["EXTRA", "NORMAL", "OFF"])
@pytest.mark.parametrize("journal", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def test_both_ways_record_the_same(journal, synchronous) -> None:
    """The same transactions are the same storage operations, whichever copy of SQLite does them.

    Rows are only added: which pages a deletion touches differs from version to version.
    """
    pytest.importorskip("apsw")
    own, other = told(Way.CTYPES, journal, synchronous), told(Way.APSW, journal, synchronous)

    assert own == other
    assert len(own) > 10


@pytest.mark.parametrize("at", range(1, 4))
def test_a_failure_that_sqlite_shrugs_off_is_told_to_nobody(recorded, at) -> None:
    """A commit is done, and then its checkpoint fails: the statement says nothing, as without a recorder."""
    db = recorded("WAL", "FULL")
    db.connection.execute("PRAGMA wal_autocheckpoint = 1")
    plan = FaultPlan(at, Call.WRITE, "a.sqlite3")
    db.fail(plan)
    db.add(1)
    db.add(2)
    db.fail(None)

    assert 1 == plan.fired
    assert [(1,), (2,)] == db.connection.execute("SELECT k FROM b").fetchall()


# -- which way ------------------------------------------------------------------------------------------------


def test_the_modules_own_library_comes_first(in_python, tmp_path) -> None:
    """Where it can be recorded apsw is not even imported."""
    script = """
import sys
from pathlib import Path
from stateful.storage.medium import RecordingMedium
medium = RecordingMedium(Path(sys.argv[1]))
print("apsw" in sys.modules, repr(medium.sqlite_note))
medium.close()
"""
    assert "False ''\n" == in_python(script, tmp_path)


def test_apsw_comes_second(statically_linked) -> None:
    """Where the module's own library is out of reach, the other is recorded, and a note says so with its version."""
    apsw = pytest.importorskip("apsw")
    with closing(RecordingMedium()) as medium:
        connection = medium.connect(Gate(), medium.folder / "a.sqlite3")
        (version,) = connection.execute("SELECT sqlite_version()").fetchone()
        connection.close_for_good()

    assert apsw.sqlite_lib_version() == version
    note = f"recorded through apsw, with SQLite {version}, where the module sqlite3 has {sqlite3.sqlite_version}"
    assert note == medium.sqlite_note


@pytest.mark.usefixtures("without_apsw")
def test_a_way_can_be_asked_for_and_is_not_replaced(statically_linked) -> None:
    """Each way by itself is refused with its own reason, and nothing else is tried."""
    with pytest.raises(UnsupportedStorageError, match="cannot be reached") as own:
        RecordingMedium(way=Way.CTYPES)
    with pytest.raises(UnsupportedStorageError, match="apsw cannot be imported"):
        RecordingMedium(way=Way.APSW)

    assert "apsw" not in str(own.value)


@pytest.mark.usefixtures("statically_linked", "without_apsw")
def test_without_any_way_both_reasons_are_given_and_what_to_do(tmp_path) -> None:
    """Refused when it is made, with why each way is closed and how either is opened; its folder is left alone."""
    with pytest.raises(UnsupportedStorageError) as refused:
        RecordingMedium(tmp_path)
    message = str(refused.value)

    assert "libc: SQLite's functions cannot be reached through it" in message
    assert "run this with a Python whose sqlite3 module links libsqlite3 dynamically" in message
    assert "apsw cannot be imported" in message
    assert message.endswith("pip install 'survives[power]'")
    assert tmp_path.is_dir()


def test_structures_that_are_not_known_are_refused(monkeypatch) -> None:
    """Where apsw itself says that its VFS looks otherwise, nothing is written into it."""
    apsw = pytest.importorskip("apsw")
    details = [{**vfs, "szOsFile": 1} for vfs in apsw.vfs_details()]
    monkeypatch.setattr(apsw, "vfs_details", lambda: details)

    with pytest.raises(UnsupportedStorageError, match="another structure than the one that is known here"):
        RecordingMedium(way=Way.APSW)
    assert not [name for name in apsw.vfs_names() if name.startswith("survives")]


# -- one copy only --------------------------------------------------------------------------------------------


def test_no_other_copy_of_sqlite_opens_what_is_recorded(monkeypatch) -> None:
    """Dispatchers, oracles, those who take locks, and who rolls back what the dead have left: all through apsw."""
    pytest.importorskip("apsw")
    with closing(FaultMedium(way=Way.APSW)) as medium:
        path = medium.folder / "a.sqlite3"
        monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: pytest.fail("another copy opened it"))
        connection = medium.connect(Gate(), path)
        connection.execute("CREATE TABLE t (n)")
        RecordingMedium.look(medium, path).close()
        medium.look(path).close()
        medium.stranger(path).close()
        medium.roll_back()
        connection.close()
        medium.keep_template()
        medium.put_back()


# -- verdicts -------------------------------------------------------------------------------------------------


def shard(engine: str, contracts: Contracts) -> Shard:
    return Shard(
        engine, 0, 1, 0 if engine == "power" else 40, 0, "impl.sqlite:SqliteDispatcher", "", contracts, Path()
    )


@pytest.mark.parametrize(
    ("durability", "broken"),
    [
        ("wal-full", set()),
        ("wal-normal", {"intent-kept", "ack-durable"}),
        ("off", {"intent-kept", "ack-durable"}),
    ],
)
def test_the_power_engine_finds_the_same_by_the_second_way(statically_linked, durability, broken) -> None:
    """What survives with one copy of SQLite survives with the other, and the verdict says which it was."""
    pytest.importorskip("apsw")
    contracts = contracts_from({"durability": durability})
    tally = run_shard(shard("power", contracts))
    done = Cuts(load_subject(), contracts, 1, merged([tally], load_subject().capabilities), (tally,), 0.0)
    said = [line for line in framed(done, power.lines(done)) if "recorded through apsw, with SQLite" in line]

    assert broken <= set(tally.broken) if broken else {} == tally.broken
    assert ([f"  {tally.sqlite_note}"], tally.sqlite_note) == (said, done.to_json()["sqlite_note"])
    quiet = evolve(done, tallies=(evolve(tally, sqlite_note=""),))
    assert not any("apsw" in line for line in framed(quiet, power.lines(quiet)))


def test_who_opens_databases_by_itself_is_found_out(statically_linked) -> None:
    """A subject that asks ``sqlite3`` for its connections is not recorded, and told that it cannot be."""
    pytest.importorskip("apsw")
    subject = "tests.stateful.subjects:OpensByItself"
    tally = run_shard(evolve(shard("power", Contracts()), subject=subject))

    assert tally.unsupported.startswith("it writes files that cannot be recorded: own.sqlite3")


def test_the_faults_engine_runs_by_the_second_way(statically_linked) -> None:
    """Every kind of fault is met, none breaks the dispatcher, and the verdict says which copy of SQLite it was."""
    pytest.importorskip("apsw")
    tally = run_shard(shard("faults", Contracts()))
    done = Failures(load_subject(), Contracts(), 1, merged([tally], load_subject().capabilities), (tally,), 0.0)

    assert ({}, []) == (tally.broken, tally.left_over)
    assert {"write: disk full", "sync: I/O error", "lock: another writes"} <= {one.kind for one in done.by_kind()}
    assert f"  {tally.sqlite_note}" in list(framed(done, faults.lines(done)))
    assert "sqlite_note" not in evolve(done, tallies=(evolve(tally, sqlite_note=""),)).to_json()
