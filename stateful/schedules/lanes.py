"""Lanes: several processes of a subject in one thread, of which exactly one runs at a time.

Each lane is a greenlet that runs the dispatcher's own code. It hands control back at every boundary: before a SQL
statement, before a file operation, before the clock is read while time may still move. What the scheduler does
between two boundaries of one lane is one *transition*.

A statement that finds a lock taken does not fail: its lane is *blocked* until another lane has moved a lock of that
database. Only where all lanes that are left are blocked is there a deadlock, and the scheduler then chooses which of
them is told BUSY.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

from stateful.boundaries import Crash, Gate
from stateful.schedules.footprint import EVERYTHING, Account, Footprint, Resources

if TYPE_CHECKING:
    from stateful.schedules.connections import ScheduledConnection

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NEVER_FREE = 517
"""SQLITE_BUSY_SNAPSHOT: the snapshot is stale, and waiting makes it no newer."""


class UnsupportedByEngine(BaseException):
    """The subject does what no schedule can order. The message says what."""


DEATHS_MAX = 100
"""Whoever has caught its own death so often and still goes on never ends."""


class Lane(Gate):
    """One process's gate and its greenlet. ``at`` is the boundary before which it stands."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        super().__init__()
        self.name = name
        self.at: tuple[str, str] = ("", "")
        self.finished = False
        self.blocked: sqlite3.OperationalError | None = None
        self.waits_for = 0
        self.told_busy = False
        self.heard_busy = False
        """Whether the subject has ever been told BUSY."""
        self.next: tuple[ScheduledConnection, str] | None = None
        """The statement that it stands before, if it is one."""
        self.begun = False
        """Whether the call that is under way has touched anything yet."""
        self.reads = self.writes = 0
        self.begins = self.ends = False
        self.accounts: list[Account] = []
        self.times: set[int] = set()
        """The times that the call under way has read, or the one that has just ended."""
        self.on_first_touch: Callable[[], None] = _nothing
        self.is_unwatched = False
        """Whether the clock may be read without a boundary: what is about to happen is one already."""
        self._scheduler = scheduler
        self._greenlet: greenlet | None = None
        self._body: Callable[[], None] = _nothing
        self._failure: BaseException | None = None
        self._deaths = 0

    @property
    def is_waiting(self) -> bool:
        """Whether it tried, and a lock was taken."""
        return self.blocked is not None

    @property
    def is_blocked(self) -> bool:
        """Whether a lock that it needs is taken, as far as is known without trying."""
        return self.blocked is not None or (self.next is not None and self.next[0].must_wait(self.next[1]))

    # -- inside: what the subject's code calls ----------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether it is this lane's code that runs now."""
        return self._scheduler.current is self

    def reach(self, where: str, what: str) -> None:
        """A boundary: stand still until the scheduler chooses this lane."""
        if self.dead:
            self._die_again()
        if self.is_running and getcurrent() is not self._greenlet:
            raise UnsupportedByEngine("it runs greenlets of its own")
        self.passed += 1
        self.at = self.last = where, what
        self.is_unwatched = False
        if self.is_running:
            self._pause()

    def _die_again(self) -> None:
        """It is dead, and its code goes on: end it once more, or leave it where it is for good."""
        self._deaths += 1
        if self._deaths > DEATHS_MAX:
            self._scheduler.hub.switch()
        raise Crash

    def _pause(self) -> None:
        loop = asyncio._get_running_loop()  # noqa: SLF001 - one for each thread, and lanes share one
        if loop is not None:
            asyncio._set_running_loop(None)  # noqa: SLF001
        self._scheduler.hub.switch()
        if loop is not None:
            asyncio._set_running_loop(loop)  # noqa: SLF001
        if self.dead:
            raise Crash

    def touch(self, reads: int, writes: int) -> None:
        """Note what the transition that is under way touched."""
        self.reads |= reads
        self.writes |= writes
        if not self.begun:
            self.begun = self.begins = True
            self.on_first_touch()

    def resource(self, where: str, what: str) -> int:
        """The mask of one resource."""
        return self._scheduler.resources.bit(where, what)

    def attempt(self, connection: ScheduledConnection, sql: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Execute a statement; wait where a lock that it needs is taken."""
        while True:
            try:
                if connection.must_wait(sql):
                    raise _taken()
                before = connection.total_changes
                result = call(*arguments)
            except sqlite3.OperationalError as error:
                code = getattr(error, "sqlite_errorcode", 0)
                if code & 0xFF not in _BUSY or code == _NEVER_FREE:
                    self.heard_busy |= code == _NEVER_FREE
                    self.touch(*connection.failed(sql))
                    raise
                if not self.told_busy:
                    self.blocked, self.waits_for = error, connection.account.locks
                    self._pause()
                    if not self.told_busy:
                        continue
                self.told_busy, self.heard_busy = False, True
                # Of two waits that could end, the end of one lets its lane go on, and the other may not end then.
                self.touch(EVERYTHING, self.resource("waits", "ended"))
                raise
            except sqlite3.Error as error:
                self.touch(*connection.failed(sql, locked=isinstance(error, sqlite3.IntegrityError)))
                raise
            self.told_busy = False
            self.touch(*connection.executed(sql, changed=connection.total_changes != before))
            return result

    def complete(self) -> None:
        """The call that was under way has answered."""
        if not self.begun:
            self.begins = True
        self.begun, self.ends = False, True

    # -- outside: what the scheduler calls --------------------------------------------------------------------

    def start(self, body: Callable[[], None]) -> None:
        """Run ``body`` up to its first boundary."""
        self._body = body
        self._greenlet = self._scheduler.greenlet()
        self.run()

    def live(self) -> None:
        """What its greenlet runs."""
        try:
            self._body()
        except Crash:
            pass
        except BaseException as error:  # noqa: BLE001 - the scheduler raises it again
            self._failure = error
        self.finished = True

    def run(self) -> None:
        """Run to the next boundary. Raises what the lane's code raised."""
        assert self._greenlet is not None
        self.reads = self.writes = 0
        self.begins = self.ends = False
        self._scheduler.current = self
        try:
            self._greenlet.switch(self)
        finally:
            self._scheduler.current = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def kill(self) -> None:
        """End the lane where it stands; a subject that swallows the crash runs into it again."""
        self.dead = True
        if self._greenlet is not None and not self.finished:
            self._scheduler.current = self
            try:
                self._greenlet.throw(Crash)
            finally:
                self._scheduler.current = None
        self.finished, self.blocked = True, None
        if self._deaths > DEATHS_MAX:
            self._scheduler.abandoned.append(self)  # its greenlet must not be collected: that would wake it
            raise UnsupportedByEngine("it catches its own death, and goes on for ever")


def _nothing() -> None:
    pass


def _taken() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_BUSY, "SQLITE_BUSY"
    return error


class Scheduler:
    """The lanes of one run and whose turn it is."""

    def __init__(self) -> None:
        self.hub = getcurrent()
        self.current: Lane | None = None
        self.resources = Resources()
        self.lanes: dict[str, Lane] = {}
        self.open: dict[str, set[ScheduledConnection]] = {}
        """By database: the connections in the middle of a transaction that has read or locked."""
        self.has_attached = False
        """Whether a connection has ever attached another database."""
        self._idle: list[greenlet] = []
        self.abandoned: list[Lane] = []

    def clear(self) -> None:
        """End every lane: another run begins."""
        lanes, self.lanes = self.lanes, {}
        undying: list[UnsupportedByEngine] = []
        for lane in lanes.values():
            try:
                lane.kill()
            except UnsupportedByEngine as error:
                undying.append(error)
        self.open.clear()
        if undying:
            raise undying[0]

    def greenlet(self) -> greenlet:
        """A greenlet that waits for a lane to run. To make one costs more than a transition, so they are used again."""
        if not self._idle:
            fresh = greenlet(self._work, self.hub)
            fresh.switch()
            return fresh
        used = self._idle.pop()
        used.gr_context = None  # what the last lane has left in context variables
        return used

    def _work(self) -> None:
        lane: Lane = self.hub.switch()
        while True:
            lane.live()
            del lane  # the greenlet outlives what it ran
            self._idle.append(getcurrent())
            lane = self.hub.switch()

    def add(self, name: str) -> Lane:
        """A lane that has not started yet."""
        lane = self.lanes[name] = Lane(self, name)
        return lane

    def step(self, lane: Lane) -> Footprint | None:
        """Let a lane take one transition: its footprint, or None if it is blocked and nothing has changed."""
        return self._stepped(lane)

    def tell_busy(self, lane: Lane) -> Footprint | None:
        """Let a blocked lane's wait end: its statement fails."""
        lane.told_busy = True
        return self._stepped(lane)

    def _stepped(self, lane: Lane) -> Footprint | None:
        lane.blocked = None
        lane.run()
        if lane.is_waiting:
            return None
        self._unblock(lane.writes)
        return Footprint(lane.reads, lane.writes, lane.begins, lane.ends)

    def kill(self, lane: Lane) -> Footprint:
        """Let a lane die where it stands: what it held is free."""
        writes = 0
        lane.kill()
        for account in lane.accounts:
            writes |= account.ended(committed=False)[1]
        for connections in self.open.values():
            connections.difference_update([c for c in connections if c.gate is lane])
        self._unblock(EVERYTHING)
        return Footprint(0, writes, begins=False, ends=True)

    def _unblock(self, writes: int) -> None:
        for lane in self.lanes.values():
            if lane.blocked is not None and lane.waits_for & writes:
                lane.blocked = None
