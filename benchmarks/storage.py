"""Crash states judged a second, of one database and of ledger, sink and checkpoint; and what recording costs.

A state is judged when it was enumerated, materialised, opened, recovered, checked page by page, and read once.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.rows import Row, by_turns, rate_of
from model.actions import Alphabet, Step
from model.contracts import Contracts
from stateful.boundaries import Gate
from stateful.medium import FolderMedium, fast_folder
from stateful.storage.crashes import Crashes
from stateful.storage.log import Log
from stateful.storage.materialise import materialise, opened
from stateful.storage.medium import RecordingMedium
from stateful.storage.rig import RecordingRig
from stateful.subject import load_subject

ONE_PER_SECOND, ALL_PER_SECOND = 1_200, 700
"""What a short script with the same model of a disk reaches."""
COST_MAX = 3
COMMITS = 2_000
ORDER = (
    *("submit k1 p1", "approve k1 p1", "claim w1 k1"),
    *("dispatch w1 k1 done", "acknowledge w1 k1", "checkpoint w1 k1"),
)
JOURNALS = {"delete + extra": ("DELETE", "EXTRA"), "wal + full": ("WAL", "FULL")}


def _prepared(medium: FolderMedium, journal: str, synchronous: str) -> sqlite3.Connection:
    connection = medium.connect(Gate(), medium.folder / "a.sqlite3")
    connection.execute(f"PRAGMA journal_mode = {journal}").fetchall()
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    return connection


def _committed(connection: sqlite3.Connection) -> int:
    connection.execute("DELETE FROM t")
    for n in range(COMMITS):
        connection.execute("INSERT INTO t VALUES (?, ?)", (n, "x" * 100))
    return COMMITS


def _log_of_one() -> Log:
    """Three transactions on one database."""
    with closing(RecordingMedium()) as medium, closing(_prepared(medium, "DELETE", "EXTRA")) as connection:
        log = medium.start_recording()
        for n in range(3):
            connection.execute("INSERT INTO t VALUES (?, ?)", (n, "x" * 700))
            log.mark(n)
        medium.stop_recording()
    return log


def _log_of_all() -> Log:
    """A short order of the SQLite dispatcher."""
    by_label = Alphabet(2, 2).by_label
    with RecordingRig(load_subject(), Contracts()) as rig:
        assert rig.start() is None
        log = rig.recording.start_recording()
        for label in ORDER:
            assert rig.do(Step(by_label[label])) is None
            log.mark(label)
        rig.recording.stop_recording()
    return log


def _judged(log: Log, folder: Path, queries: dict[str, str], files: Sequence[str] = ()) -> int:
    previous = None
    crashes = Crashes(log)
    for state in crashes:
        materialise(state.files, folder, previous)
        previous = state.files
        for name, query in queries.items():
            with closing(opened(folder / name)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                connection.execute(query).fetchall()
        for name in files:
            path = folder / name
            assert not path.exists() or path.read_bytes()
    return crashes.counts.distinct


def _states(what: str, log: Log, target: int, judge: Callable[[Log, Path], int]) -> Row:
    folder = fast_folder()
    try:
        (rate,) = by_turns(lambda: rate_of(lambda: judge(log, folder)))
    finally:
        shutil.rmtree(folder)
    return Row(what, f"{target:,}", "states/s", rate, target, 1)


def _cost(name: str, journal: str, synchronous: str) -> Row:
    """Seconds of a thousand commits, recorded and not."""
    with closing(RecordingMedium()) as recording, closing(FolderMedium()) as plain:
        ours, theirs = (_prepared(medium, journal, synchronous) for medium in (recording, plain))

        def recorded() -> float:
            recording.start_recording()
            rate = rate_of(lambda: _committed(ours))
            recording.stop_recording()
            return 1_000 / rate

        seconds, floor = by_turns(recorded, lambda: 1_000 / rate_of(lambda: _committed(theirs)))
        for connection in (ours, theirs):
            connection.close_for_good()
    what = f"1,000 recorded commits, {name}"
    return Row(what, "unrecorded", "s", seconds, floor, COST_MAX, higher_is_better=False)


def rows() -> list[Row]:
    """Judged states a second against what a short script reaches, and recorded commits against unrecorded ones."""
    one = {"a.sqlite3": "SELECT count(*) FROM t"}
    stores = {"ledger.sqlite3": "SELECT * FROM intents", "sink/sink.sqlite3": "SELECT * FROM effects"}
    checkpoint = ("checkpoint/checkpoint.json",)
    return [
        _states("crash states, one database", _log_of_one(), ONE_PER_SECOND, lambda log, f: _judged(log, f, one)),
        _states(
            "crash states, all stores",
            _log_of_all(),
            ALL_PER_SECOND,
            lambda log, f: _judged(log, f, stores, checkpoint),
        ),
        *(_cost(name, *setting) for name, setting in JOURNALS.items()),
    ]
