"""Raw programs as a system that a search runs: lists of statements, or functions of a connection, and no dispatcher.

Each lane has connections of its own to the same databases. What a run comes to is its *ending*: the tables that are
committed, and what each lane was told. The search has no opinion on endings; ``check`` has.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from attrs import define, field

from stateful.boundaries import Gate, GatedConnection
from stateful.medium import View
from stateful.schedules.choices import deaths, is_deadlock, left_by, transitions
from stateful.schedules.footprint import Footprint
from stateful.schedules.lanes import Lane, Scheduler
from stateful.schedules.medium import ScheduledMedium
from stateful.schedules.program import BUSY, KILL, lane_name
from stateful.schedules.raw import Body, Ending, LaneEnd, RawProgram, Sql, Table, Tables, plain, tables_of, told_by

C = TypeVar("C", bound=sqlite3.Connection)


def without_files(connection: sqlite3.Connection) -> None:
    """Sync nothing, and keep no journal in a file: only deaths of processes are in question, not power cuts.

    A write-ahead log stays, as its locks are others.
    """
    execute = sqlite3.Connection.execute
    execute(connection, "PRAGMA synchronous = OFF")
    if execute(connection, "PRAGMA journal_mode").fetchone() != ("wal",):
        execute(connection, "PRAGMA journal_mode = MEMORY")


@define(eq=False)
class _Running:
    """One lane in the run that is under way."""

    lane: Lane
    connections: tuple[Any, ...]
    told: list[Any] = field(factory=list)
    error: str = ""
    died_at: int = 0

    def end(self) -> LaneEnd:
        return LaneEnd(tuple(self.told), self.error, self.died_at)


class StatementMedium(ScheduledMedium):
    """A medium in which nothing is synced, and no journal is a file."""

    def _open(self, name: str, factory: type[C]) -> C:
        connection = super()._open(name, factory)
        if issubclass(factory, GatedConnection):
            without_files(connection)
        return connection

    def _tidy(self) -> None:
        if self._scheduler.has_attached:  # a statement makes no other files
            super()._tidy()


class StatementSystem:
    """One raw program, as a search runs it. Close it in the end.

    ``check`` is called with each ending and says whether to stop there.
    """

    def __init__(
        self,
        program: RawProgram,
        *,
        check: Callable[[Ending], bool] | None = None,
        keep_states: bool = False,
        folder: Path | None = None,
    ) -> None:
        self.program = program
        self._check = check
        self._keep_states = keep_states
        self._scheduler = Scheduler()
        self._medium = StatementMedium(self._scheduler, folder)
        self.paths = [self._medium.folder / f"{n}.sqlite3" for n, _ in enumerate(program.schemas, 1)]
        """Where the databases are."""
        self._views: list[View] = []
        self._generation = -1
        self._names = [lane_name(n) for n, _ in enumerate(program.lanes)]
        self._running: dict[str, _Running] = {}
        self._lanes: list[Lane] = []
        self._last: Lane | None = None
        self._kills_left = 0
        self.choices: list[str] = []
        """What was chosen in the run that is under way, or in the last one."""
        self.endings: Counter[Ending] = Counter()
        self.crash_states: set[tuple[str, int, Tables]] = set()
        """Who could die where, and what is committed then. Each node counts, not each death: a search may leave out a
        death whose like it has seen, but never a node."""
        self.states: set[object] = set()
        """With ``keep_states``: the tables that are committed, and where each lane stands and what it was told."""
        self.deadlocks = 0
        """How often a lane was told BUSY because nobody could go on."""
        self.first_deadlock: tuple[str, ...] | None = None
        """The choices that led to the first of them."""
        self._prepare()

    def _prepare(self) -> None:
        for path, schema in zip(self.paths, self.program.schemas, strict=True):
            connection = sqlite3.connect(path, isolation_level=None)
            if self.program.wal:
                connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(schema)
            connection.close()
            self._medium.connect(Gate(), path).close()
        self._medium.keep_template()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every lane, close every connection and remove the databases."""
        self._end_run()
        self._look_away()
        self._medium.close()

    # -- one run, choice by choice ----------------------------------------------------------------------------

    def put_back(self) -> None:
        """End the run that is under way, and make the databases what their scripts made them."""
        self._end_run()
        self._medium.put_back()

    def begin(self) -> None:
        """Put the databases back, and start every lane."""
        self.put_back()
        self._last, self._kills_left, self.choices = None, self.program.kills, []
        for name, body in zip(self._names, self.program.lanes, strict=True):
            lane = self._scheduler.add(name)
            connections = tuple(self._medium.connect(lane, path) for path in self.paths)
            running = self._running[name] = _Running(lane, connections)
            self._lanes.append(lane)
            lane.start(_run_by(running, body))
        if self._watches:
            self._watch()

    def options(self) -> Sequence[str]:
        """Who can go on, the lane that ran last first; then whose wait may end; then who can die."""
        options = transitions(self._lanes, self._last, waits_end=self.program.waits_end)
        return options + deaths(self._lanes) if self._kills_left else options

    def leaves(self, choice: str) -> str:
        """The lane that ran last, if the choice goes on with another although it could have gone on."""
        return left_by(choice, self._lanes, self._last)

    def take(self, choice: str, *, again: bool = False) -> Footprint | None:
        """Make a choice; ``again`` if an earlier run has made the same choices up to here, and they were counted."""
        if choice.startswith(KILL):
            footprint: Footprint | None = self._kill(self._running[choice.removeprefix(f"{KILL} ")])
        elif choice.endswith(BUSY):
            footprint = self._tell(self._running[choice.removesuffix(f" {BUSY}")].lane, again=again)
        else:
            lane = self._running[choice].lane
            footprint = self._scheduler.step(lane)
            if footprint is None:
                return None
            self._last = lane
        self.choices.append(choice)
        if self._watches and not again:
            self._watch()
        return footprint

    def _tell(self, lane: Lane, *, again: bool) -> Footprint | None:
        if not again and is_deadlock(self._lanes):
            self.deadlocks += 1
            self.first_deadlock = self.first_deadlock or tuple(self.choices)
        self._last = lane
        return self._scheduler.tell_busy(lane)

    def _kill(self, running: _Running) -> Footprint:
        self._kills_left -= 1
        running.died_at = running.lane.passed
        footprint = self._scheduler.kill(running.lane)
        for connection in running.connections:
            connection.drop()
        running.connections = ()
        # That nobody else can die then need not be noticed: who cannot die will not be able to later.
        return Footprint(0, footprint.writes)

    def finish(self, *, complete: bool) -> bool:
        """End a run, and count how it ended if it is complete. True if ``check`` says stop."""
        stop = False
        if complete:
            ending = Ending(self.tables(), tuple(self._running[name].end() for name in self._names))
            self.endings[ending] += 1
            stop = self._check is not None and self._check(ending)
        self._end_run()
        return stop

    def _end_run(self) -> None:
        self._scheduler.clear()
        for running in self._running.values():
            for connection in running.connections:
                connection.drop()
        self._running, self._lanes = {}, []

    # -- what is there to be seen -----------------------------------------------------------------------------

    @property
    def _watches(self) -> bool:
        return self._keep_states or self.program.kills > 0

    def _watch(self) -> None:
        tables = self.tables()
        if self._kills_left:
            self.crash_states |= {(lane.name, lane.passed, tables) for lane in self._lanes if not lane.finished}
        if self._keep_states:
            ends = tuple((r.lane.passed, r.lane.finished, r.end()) for r in self._running.values())
            self.states.add((tables, ends))

    def tables(self) -> Tables:
        """All that is committed now."""
        if self._generation != self._medium.generation:
            self._look_away()
            self._views = [self._medium.look(path) for path in self.paths]
            for view in self._views:
                view.rows("PRAGMA busy_timeout = 0")  # nobody goes on while it waits
            self._generation = self._medium.generation
        out: list[Table] = []
        for n, view in enumerate(self._views, 1):
            prefix = f"{n}." if n > 1 else ""
            try:
                out += tables_of(view.rows, prefix)
            except sqlite3.OperationalError:  # a lane has locked even readers out, so that the file is as it was
                alone = sqlite3.connect(f"{self.paths[n - 1].as_uri()}?immutable=1", uri=True, timeout=0)
                out += tables_of(alone.execute, prefix)
                alone.close()
        return tuple(out)

    def _look_away(self) -> None:
        for view in self._views:
            view.close()
        self._views = []


def _run_by(running: _Running, body: Body | Sequence[Sql]) -> Callable[[], None]:
    """What a lane runs. It ends as a process does: with what it has not committed rolled back."""

    def run() -> None:
        try:
            if callable(body):
                running.told.append(plain(body(*running.connections)))
            else:
                for statement in body:
                    running.told.append(told_by(running.connections[0], statement))
        except Exception as error:  # noqa: BLE001 - a lane's failure is part of how the run ended
            running.error = f"{type(error).__name__}: {error}"
        for connection in running.connections:
            connection.close()

    return run
