"""The faults engine: it finds each call by counting, catches what only faults show, and accuses nobody else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from impl.mistakes import MISTAKES
from impl.sqlite import Ledger
from model.contracts import Durability, contracts_from
from stateful.boundaries import Gate
from stateful.engines import faults
from stateful.failing import damage
from stateful.failing.kinds import KINDS
from stateful.failing.locks import Lock, LockingGate
from stateful.failing.rig import FaultRig
from stateful.failing.sweeper import Sweeper
from stateful.storage.plan import Call, FaultPlan
from stateful.verdict import Tally

SAMPLE = ("submit p1 -> ok", "acknowledge -> ok", "checkpoint -> ok", "claim -> ok", "dispatch done -> ok")
CAUGHT = {
    "M124": "submit p1 -> ok",
    "M125": "acknowledge -> ok",
    "M128": "submit p1 -> ok",
    "M211": "submit p1 -> ok",
    "M212": "submit p1 -> ok",
    "M213": "checkpoint -> ok",
    "M214": "checkpoint -> ok",
}
"""For each mistake that a failing call shows, an operation during which it does."""
BEFORE_ANYBODY_OPENED_IT = {"M127", "M129"}
"""Mistakes about what was wrong with a store already."""


@pytest.fixture
def failing(subject) -> Iterator[Callable[..., FaultRig]]:
    """A rig whose storage can fail, for a subject under the named contract choices, closed in the end."""
    with ExitStack() as stack:

        def make(name: str = "", *, mistake: str = "", **choices: str) -> FaultRig:
            return stack.enter_context(FaultRig(subject(name, mistake), contracts_from(choices)))

        yield make


def swept(rig: FaultRig, *names: str, kinds: str = "") -> Tally:
    """What comes of failing the named operations, by the kinds that begin so."""
    tally = Tally("faults")
    sweeper = Sweeper(rig, tally)
    chosen = tuple(kind for kind in KINDS if kind.name.startswith(kinds))
    for target in faults.catalogue(rig, 0):
        if target.name in names:
            sweeper.sweep(target, chosen)
    sweeper.close()
    return tally


def damaged(rig: FaultRig) -> Tally:
    """What comes of damaging each store."""
    tally = Tally("faults")
    damage.run(rig, tally)
    return tally


def told(tally: Tally) -> dict[str, str]:
    """Each promise that broke, and how that was told."""
    return {property_id: broken.detail for property_id, broken in tally.broken.items()}


# -- what there is to fail ------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["delete-extra", "wal-full", "truncate-full", "persist-full"])
def test_the_dispatcher_survives_each_fault(failing, durability):
    """No call that fails, at any n, breaks a promise of the dispatcher as it is; many do fail, and none is left over."""
    tally = swept(failing(durability=durability), *SAMPLE)

    assert ({}, []) == (told(tally), tally.left_over)
    assert sum(tally.boundaries.values()) > 200
    assert tally.orders > 200


@pytest.mark.parametrize(("call", "kind"), [(Call.WRITE, "write: I/O error"), (Call.SYNC, "sync: I/O error")])
def test_calls_are_counted_and_not_listed(failing, call, kind):
    """As many calls fail as an operation makes when none does: each once, and no other."""
    rig = failing()
    tally = swept(rig, "submit p1 -> ok", kinds=kind)
    rig.start()
    plan = rig.recording.recorder.plan = FaultPlan(0, call)
    rig.bench.processes[-1].dispatcher.submit("k1", {"room": "101"})
    rig.recording.recorder.plan = None
    made = sum(count for (made, _), count in plan.counts.items() if made is call)

    assert made == tally.boundaries[f"submit p1 -> ok: {kind}"] > 2


def test_every_kind_meets_something(failing):
    """Over the journal modes each kind of fault finds a call to fail, but for those of locks that harm nobody."""
    met = set()
    for durability in ("delete-extra", "truncate-full"):
        tally = swept(failing(durability=durability), "checkpoint -> ok", "submit p1 -> ok")
        met |= {name.split(" -> ok: ", 1)[1] for name in tally.boundaries}

    assert {"lock: another commits"} == {kind.name for kind in KINDS} - met


def test_a_sweep_that_is_cut_says_so(failing, monkeypatch):
    """An operation with more calls than are failed is left over, by name."""
    monkeypatch.setattr("stateful.failing.sweeper.CALLS_MAX", 3)
    tally = swept(failing(), "submit p1 -> ok", kinds="write: disk full")

    assert ["submit p1 -> ok: more than 3 calls to fail (write: disk full)"] == tally.left_over[:1]


def test_the_same_seed_fails_the_same(failing):
    """Two sweeps come to the same counts and the same answers."""
    first, second = (swept(failing(), "acknowledge -> ok", "claim -> ok") for _ in range(2))

    assert (first.boundaries, first.faults, first.steps) == (second.boundaries, second.faults, second.steps)


def test_parts_share_the_catalogue(failing):
    """Each operation is in one part, and only the first damages stores."""
    rig = failing()
    parts = [Tally("faults", part) for part in range(2)]
    kinds = tuple(kind for kind in KINDS if kind.name == "delete: I/O error")
    for tally in parts:
        faults.run(rig, 0, tally.shard, 2, tally, kinds)
    first, second = ({name.partition(": ")[0] for name in t.boundaries} for t in parts)

    assert set() == first & second
    assert ("opened" in first, "opened" in second) == (True, False)


def test_without_a_ledger_it_is_unsupported(failing):
    """Whose rows cannot be read cannot be judged here, and that is said."""
    tally = Tally("faults")
    faults.run(failing("NegativeToken"), 0, 0, 1, tally)

    assert (faults.NO_LEDGER, 0) == (tally.unsupported, tally.orders)


# -- what it catches ------------------------------------------------------------------------------------------


def test_there_is_an_operation_for_each_mistake():
    """Each mistake that only faults show has a test here."""
    assert {m.id for m in MISTAKES.values() if m.shown_by == "faults"} == set(CAUGHT) | BEFORE_ANYBODY_OPENED_IT


@pytest.mark.parametrize("name", CAUGHT)
def test_a_mistake_is_caught(failing, name):
    """A call that fails breaks the promise that the mistake is about, and the story says which call it was."""
    tally = swept(failing(mistake=name), CAUGHT[name])

    assert MISTAKES[name].breaks in told(tally)
    assert " failing (" in told(tally)[MISTAKES[name].breaks]


@pytest.mark.parametrize("name", sorted(BEFORE_ANYBODY_OPENED_IT))
def test_a_mistake_about_what_was_wrong_before_is_caught(failing, name):
    """A damaged store that is replaced, and a handle that is carried over a fork."""
    assert MISTAKES[name].breaks in told(damaged(failing(mistake=name)))


def test_a_refusal_that_a_crash_makes_a_lie_is_caught(failing, monkeypatch):
    """Frames that stand in the log, unsynced and whole, are read by whoever opens it after a crash."""
    monkeypatch.setattr(Ledger, "_touch", lambda self: None)
    tally = swept(failing(durability="wal-full"), "submit p1 -> ok", kinds="sync: I/O error")

    assert "and a crash right after it, answered refused" in told(tally)["refusal-changes-nothing"]


def test_a_transaction_that_is_left_open_is_caught(failing, monkeypatch):
    """Whoever asks again, of the same process, is told that there is one already."""
    monkeypatch.setattr("impl.sqlite.store.roll_back", lambda connection: None)
    tally = swept(failing(), "submit p1 -> ok", kinds="open: cannot")

    assert "cannot start a transaction within a transaction" in told(tally)["answers"]


def test_a_process_that_is_the_worse_for_it_is_caught(failing):
    """One fault is no reason to refuse what comes afterwards."""
    tally = swept(failing("Sulks"), "submit p1 -> ok", kinds="write: disk full")

    assert "answered refused (not again)" in told(tally)["conforms"]
    assert "asked again after call 1 failing (write: disk full of ledger)" in told(tally)["conforms"]


def test_an_error_of_sqlite_is_no_answer(failing):
    """What SQLite raises is for the dispatcher to understand."""
    tally = swept(failing("Talkative"), "submit p1 -> ok", kinds="write: disk full")

    assert "it raised OperationalError: database or disk is full" in told(tally)["answers"]


# -- damage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", list(Durability))
def test_damage_is_refused_and_left_as_it_is(failing, durability):
    """In each way in which a store can be damaged, the dispatcher stops, and not a byte is changed."""
    tally = damaged(failing(durability=durability))
    ends = {name.rpartition(" | ")[2] for name in tally.faults}

    assert ({}, {"stopped"}) == (told(tally), ends)
    assert sum(len(one.stores) for one in damage.DAMAGES) + 3 == tally.orders


def test_a_read_only_store_that_is_written_in_words_alone_is_caught(failing):
    """An answer that all is well, where nothing could be stored."""
    assert "with ledger.sqlite3 read-only, answered ok" in told(damaged(failing("Optimist")))["conforms"]


def test_damage_that_nobody_names_is_caught(failing):
    """Whoever is to repair it must be told which file it is."""
    said = told(damaged(failing("Anonymous")))["conforms"]

    assert "everything was refused, and nobody told which file it was" in said


# -- locks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def locked(tmp_path) -> Iterator[Callable[..., tuple[LockingGate, sqlite3.Connection]]]:
    """A database with a table, a gate for it, and a connection of somebody else."""
    path: Path = tmp_path / "a.sqlite3"
    with ExitStack() as stack:

        def make(lock: Lock, at: int = 1) -> tuple[LockingGate, sqlite3.Connection]:
            connection = sqlite3.connect(path, isolation_level=None, timeout=0)
            stack.callback(connection.close)
            connection.execute("CREATE TABLE IF NOT EXISTS t (x)")
            gate = LockingGate(at, lock, {path.name: path}, lambda path: sqlite3.connect(path, isolation_level=None))
            gate.is_armed = True
            return gate, connection

        yield make


@pytest.mark.parametrize(
    ("lock", "fails"),
    [
        (Lock.WRITES, "BEGIN IMMEDIATE"),
        (Lock.READS, "COMMIT"),
        (Lock.ALONE, "BEGIN IMMEDIATE"),
        (Lock.COMMITS, ""),
    ],
)
def test_a_lock_is_in_the_way_of_what_it_says(locked, lock, fails):
    """The first statement that it makes fail with BUSY, and none after it has been given back."""
    gate, connection = locked(lock)
    gate.reach("a.sqlite3", "BEGIN IMMEDIATE")
    failed = ""
    try:
        for statement in ("BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)", "COMMIT"):
            failed = statement
            connection.execute(statement)
        failed = ""
    except sqlite3.OperationalError:
        connection.rollback()
    gate.let_go()
    connection.execute("INSERT INTO t VALUES (2)")

    assert ("a.sqlite3", fails) == (gate.taken, failed)


def test_a_lock_that_cannot_be_had_is_not_taken(locked):
    """Whoever is under way has it already."""
    gate, connection = locked(Lock.WRITES)
    connection.execute("BEGIN IMMEDIATE")
    gate.reach("a.sqlite3", "INSERT")
    connection.execute("COMMIT")

    assert ("", 1) == (gate.taken, gate.met)


def test_only_statements_to_databases_are_counted(locked):
    """A file operation is a boundary, and no place for a lock."""
    gate, _ = locked(Lock.WRITES)
    gate.reach("checkpoint.json.new", "write")

    assert ("", 0, 1) == (gate.taken, gate.met, gate.passed)
    assert isinstance(gate, Gate)
