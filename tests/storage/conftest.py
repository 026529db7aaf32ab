"""Recorded databases, what is left of them after a power cut, and what other processes see and print."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from attrs import field, frozen

from stateful.boundaries import Gate
from stateful.medium import fast_folder
from stateful.storage.connections import RecordedConnection
from stateful.storage.crashes import Bounds, Counts, Crashes
from stateful.storage.log import Log
from stateful.storage.materialise import damage, materialise, opened
from stateful.storage.medium import RecordingMedium
from stateful.storage.plan import Plan
from stateful.storage.ways import Way

SCHEMA = ("CREATE TABLE a (k INTEGER PRIMARY KEY, text TEXT)", "CREATE TABLE b (k INTEGER PRIMARY KEY)")


@frozen
class Recorded:
    """A recorded database with two tables, each transaction of which puts one row into both."""

    medium: RecordingMedium
    stack: ExitStack
    connection: RecordedConnection = field(init=False)

    @connection.default
    def _first(self) -> RecordedConnection:
        return self.connect()

    def fail(self, plan: Plan | None) -> None:
        """Ask a plan before each storage call from now on; None for no more."""
        self.medium.recorder.plan = plan

    def connect(self, name: str = "a.sqlite3") -> RecordedConnection:
        connection = self.medium.connect(Gate(), self.medium.folder / name)
        assert isinstance(connection, RecordedConnection)
        self.stack.callback(connection.close_for_good)
        return connection

    def add(self, key: int, connection: sqlite3.Connection | None = None) -> None:
        """One transaction."""
        execute = (connection or self.connection).execute
        execute("BEGIN IMMEDIATE")
        execute("INSERT INTO a VALUES (?, ?)", (key, f"{key}" * 700))
        execute("INSERT INTO b VALUES (?)", (key,))
        execute("COMMIT")

    def transactions(self, count: int = 3) -> Log:
        """Record some transactions, each acknowledged by a mark when it has been committed."""
        log = self.medium.start_recording()
        for key in range(1, count + 1):
            self.add(key)
            log.mark(key)
        self.medium.stop_recording()
        return log


@pytest.fixture(params=Way)
def way(request: pytest.FixtureRequest) -> Way:
    """Each way into SQLite."""
    if request.param is Way.APSW:
        pytest.importorskip("apsw")
    return request.param


@pytest.fixture
def recorded(way: Way) -> Iterator[Callable[..., Recorded]]:
    """A recorded database under a journal mode and a setting of ``synchronous``, closed in the end."""
    with ExitStack() as stack:

        def make(journal: str = "DELETE", synchronous: str = "EXTRA") -> Recorded:
            medium = RecordingMedium(way=way)
            stack.callback(medium.close)
            db = Recorded(medium, stack)
            execute = db.connection.execute
            assert journal.lower() == execute(f"PRAGMA journal_mode = {journal}").fetchone()[0]
            for statement in SCHEMA:
                execute(statement)
            execute(f"PRAGMA synchronous = {synchronous}")
            execute("PRAGMA wal_autocheckpoint = 6")  # so that a short recording has a checkpoint in it
            return db

        yield make


@frozen
class Survey:
    """How many of a log's crash states are what: ``fine``, ``lost``, ``corrupt`` or ``torn``."""

    verdicts: Counter[str]
    counts: Counts

    @property
    def bad(self) -> set[str]:
        return set(self.verdicts) - {"fine"}


@pytest.fixture
def fast() -> Iterator[Path]:
    """A folder in memory, removed in the end."""
    folder = fast_folder()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def survey(fast: Path) -> Callable[..., Survey]:
    """Materialise every crash state of a log of ``Recorded.transactions``, open it, and judge it."""

    def go(log: Log, bounds: Bounds | None = None, *, seed: int = 0, ignore_syncs: bool = False) -> Survey:
        crashes = Crashes(log, bounds, seed=seed, ignore_syncs=ignore_syncs)
        previous, verdicts = None, Counter[str]()
        for state in crashes:
            materialise(state.files, fast, previous)
            previous = state.files
            verdicts[verdict_on(fast / "a.sqlite3", int(state.mark or 0))] += 1
        return Survey(verdicts, crashes.counts)

    return go


def verdict_on(path, acknowledged: int) -> str:
    if damage(path):
        return "corrupt"
    try:
        with closing(opened(path)) as connection:
            a, b = ([k for (k,) in connection.execute(f"SELECT k FROM {table} ORDER BY k")] for table in "ab")  # noqa: S608
    except sqlite3.OperationalError:
        return "lost"  # with all its tables
    if a != b:
        return "torn"
    return "fine" if a[:acknowledged] == list(range(1, acknowledged + 1)) else "lost"


@pytest.fixture
def in_python() -> Callable[..., str]:
    """What a script prints that runs in an interpreter of its own."""

    def run(script: str, *arguments: object) -> str:
        command = [sys.executable, "-c", script, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (0, "") == (done.returncode, done.stderr)
        return done.stdout

    return run


_SECOND_COMMIT = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1] + "/a.sqlite3", isolation_level=None)
connection.execute("PRAGMA journal_mode = " + sys.argv[2]).fetchall()
connection.execute("CREATE TABLE a (k INTEGER PRIMARY KEY, text)")
connection.execute("PRAGMA synchronous = EXTRA")
connection.execute("INSERT INTO a VALUES (1, 'x')")
os.access("/begin", os.F_OK)
connection.execute("INSERT INTO a VALUES (2, 'x')")
os.access("/end", os.F_OK)
"""


@pytest.fixture
def in_strace(tmp_path: Path) -> Callable[[str], list[str]]:
    """The syncs and unlinks of a second commit as the kernel sees them, without any recorder."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace here")

    def seen(journal: str) -> list[str]:
        traced = ("strace", "-qq", "-e", "trace=openat,access,fsync,fdatasync,unlink")
        command = [*traced, sys.executable, "-c", _SECOND_COMMIT, str(tmp_path), journal]
        text = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr
        if '"/end"' not in text:
            pytest.skip("strace may not trace here")
        return _syncs(text.partition('"/begin"')[2].partition('"/end"')[0], str(tmp_path))

    return seen


def _syncs(calls: str, folder: str) -> list[str]:
    """System calls, one a line, as kinds of recorded operations."""
    folders: set[str] = set()
    """The handles that lead to the folder."""
    found = []
    for line in calls.splitlines():
        opened = re.match(r'openat\(.*?"([^"]+)".*= (\d+)$', line)
        synced = re.match(r"f(?:data)?sync\((\d+)\)", line)
        if opened:
            (folders.add if opened[1] == folder else folders.discard)(opened[2])
        elif synced:
            found.append("SyncFolder" if synced[1] in folders else "Sync")
        elif line.startswith("unlink"):
            found.append("Delete")
    return found
