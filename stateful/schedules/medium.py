"""The world of a scheduled subject: stores, files and a clock, each access to which is a transition of a lane."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TypeVar

from impl.protocol import Files
from stateful.boundaries import Gate, GatedConnection
from stateful.clock import SharedTime
from stateful.medium import FolderMedium
from stateful.schedules.connections import ScheduledConnection
from stateful.schedules.lanes import Lane, Scheduler

C = TypeVar("C", bound=sqlite3.Connection)


class ScheduledMedium(FolderMedium):
    """Stores as files, whose connections belong to a scheduler. No connection waits for a lock by itself."""

    def __init__(self, scheduler: Scheduler, folder: Path | None = None) -> None:
        super().__init__(folder)
        self._scheduler = scheduler

    def connect(self, gate: Gate, path: Path) -> sqlite3.Connection:
        """A connection to a database, whose statements are transitions of ``gate``'s lane."""
        connection = super().connect(gate, path)
        assert isinstance(connection, ScheduledConnection)
        connection.serve(gate)
        return connection

    def _open(self, name: str, factory: type[C]) -> C:
        if not issubclass(factory, GatedConnection):
            return super()._open(name, factory)
        connection = sqlite3.connect(name, isolation_level=None, factory=ScheduledConnection, timeout=0)
        connection.adopt(self._scheduler, name)
        return connection  # type: ignore[return-value]  # a subclass of what was asked for


class ScheduledFiles:
    """A file layer each of whose operations is a transition, reading included: others may write meanwhile."""

    def __init__(self, files: Files, gate: Gate) -> None:
        self._files = files
        self._gate = gate

    def _touch(self, *paths: Path, written: bool = True) -> None:
        if isinstance(self._gate, Lane) and self._gate.is_running:
            mask = 0
            for path in paths:
                mask |= self._gate.resource("files", str(path))
            self._gate.touch(mask, mask if written else 0)

    def read(self, path: Path) -> bytes | None:
        """Read a file."""
        self._gate.reach(path.name, "read")
        data = self._files.read(path)
        self._touch(path, written=False)
        return data

    def write_new(self, path: Path, data: bytes) -> None:
        """Create or truncate a file and write it, in two transitions: others may find it half written."""
        self._gate.reach(path.name, "write")
        if len(data) > 1:
            self._files.write_new(path, data[: len(data) // 2])
            self._touch(path)
            self._gate.reach(path.name, "write the rest")
        self._files.write_new(path, data)
        self._touch(path)

    def sync(self, path: Path) -> None:
        """Sync a file: nobody notices but by a power cut."""
        self._gate.reach(path.name, "sync")
        self._files.sync(path)
        self._touch(path, written=False)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file."""
        self._gate.reach(target.name, "rename")
        self._files.rename(source, target)
        self._touch(source, target)

    def sync_folder(self, folder: Path) -> None:
        """Sync a folder: nobody notices but by a power cut."""
        self._gate.reach(folder.name, "sync folder")
        self._files.sync_folder(folder)
        self._touch(folder, written=False)


class ScheduledTime(SharedTime):
    """The one clock. While time may still move, reading it is a transition of its own."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._now_ms = 0
        self.may_move = False

    @property
    def now_ms(self) -> int:
        """The present."""
        lane = self._scheduler.current
        if lane is not None:
            if self.may_move and not lane.is_unwatched:
                lane.reach("the clock", "read")
            lane.times.add(self._now_ms)
            lane.touch(lane.resource("clock", "now"), 0)
        return self._now_ms

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        self._now_ms = value
