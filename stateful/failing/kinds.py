"""What can fail. A kind arms the n-th call on a rig, and says afterwards whether there was one, and what failed."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from attrs import define, field, frozen

from stateful.boundaries import Gate
from stateful.failing.files import FilePlan
from stateful.failing.locks import Lock, LockingGate
from stateful.failing.rig import FaultRig
from stateful.storage.plan import Call, Fault, FaultPlan, Until
from stateful.storage.recorder import Recorder

CHECKPOINT = "checkpoint"


@define
class Armed:
    """A fault that waits for its call. ``gate`` is for the process that is to meet it."""

    gate: Gate = field(factory=Gate)

    def begin(self) -> None:
        """From now on it may come."""

    def end(self) -> None:
        """It is over, whether or not it came."""

    @property
    def was_met(self) -> bool:
        """Whether there was an n-th call."""
        return self.failed > 0

    @property
    def failed(self) -> int:
        """How many calls have failed."""
        return 0

    @property
    def store(self) -> str:
        """Where the first of them was."""
        return ""


class Kind(Protocol):
    """One way to fail."""

    @property
    def name(self) -> str:
        """In a few words, such as ``write: disk full``."""

    @property
    def then_cut(self) -> bool:
        """Whether it is about syncs, so that what is acknowledged afterwards is held against a power cut."""

    def armed(self, rig: FaultRig, at: int) -> Armed:
        """The fault, waiting for call number ``at``."""


# -- SQLite's storage calls -----------------------------------------------------------------------------------


@define
class NotedPlan(FaultPlan):
    """A plan that remembers which file was hit first."""

    hit: str = field(default="", init=False)

    def before(self, call: Call, path: str) -> Fault | None:
        """How this call fails; None if it is to be done."""
        fault = super().before(call, path)
        if fault is not None:
            self.hit = self.hit or path
        return fault


@define
class UnsyncedDelete(NotedPlan):
    """The file is deleted, and then its folder cannot be synced, as in unixDelete.

    https://sqlite.org/src/file/src/os_unix.c
    """

    recorder: Recorder | None = None

    def before(self, call: Call, path: str) -> Fault | None:
        """How this call fails; None if it is to be done."""
        fault = super().before(call, path)
        if fault is not None and self.recorder is not None:
            with suppress(FileNotFoundError):
                os.unlink(f"{self.recorder.root}/{path}")  # noqa: PTH108 - what unixDelete does
                if self.recorder.log is not None:
                    self.recorder.log.delete(path)
        return fault


@define
class ArmedCall(Armed):
    """A storage call that fails."""

    rig: FaultRig = field(kw_only=True)
    plan: NotedPlan = field(kw_only=True)

    def begin(self) -> None:
        """Ask the plan from now on."""
        self.rig.recording.recorder.plan = self.plan

    def end(self) -> None:
        """Ask it no more."""
        self.rig.recording.recorder.plan = None

    @property
    def failed(self) -> int:
        """How many calls have failed."""
        return self.plan.fired

    @property
    def store(self) -> str:
        """The database of the file that was hit."""
        name = os.path.basename(self.plan.hit)  # noqa: PTH119
        return name.partition(".")[0]


@frozen
class CallFails:
    """A storage call of SQLite's own VFS fails."""

    name: str
    call: Call | None
    code: int
    until: Until = Until.ONCE

    @property
    def then_cut(self) -> bool:
        """Whether it is about syncs, or about what a journal's end is made durable by."""
        return self.call in {Call.SYNC, Call.TRUNCATE, Call.DELETE}

    def armed(self, rig: FaultRig, at: int) -> Armed:
        """The fault, waiting for call number ``at``."""
        if self.code == sqlite3.SQLITE_IOERR_DIR_FSYNC:
            recorder = rig.recording.recorder
            return ArmedCall(rig=rig, plan=UnsyncedDelete(at, self.call, "", self.code, self.until, recorder))
        return ArmedCall(rig=rig, plan=NotedPlan(at, self.call, "", self.code, self.until))


# -- files ----------------------------------------------------------------------------------------------------


@define
class ArmedFile(Armed):
    """A file operation that fails."""

    rig: FaultRig = field(kw_only=True)
    plan: FilePlan = field(kw_only=True)

    def begin(self) -> None:
        """Ask the plan from now on."""
        self.rig.files.plan = self.plan

    def end(self) -> None:
        """Ask it no more."""
        self.rig.files.plan = None

    @property
    def failed(self) -> int:
        """How many operations have failed."""
        return self.plan.fired

    @property
    def store(self) -> str:
        """The checkpoint: a dispatcher has no other files."""
        return CHECKPOINT


@frozen
class FileFails:
    """A file operation of the dispatcher's own fails."""

    name: str
    number: int
    from_then_on: bool = False
    then_cut: bool = False

    def armed(self, rig: FaultRig, at: int) -> Armed:
        """The fault, waiting for operation number ``at``."""
        return ArmedFile(rig=rig, plan=FilePlan(at, self.number, self.from_then_on))


# -- locks ----------------------------------------------------------------------------------------------------


@define
class ArmedLock(Armed):
    """A lock that somebody else takes."""

    rig: FaultRig = field(kw_only=True)
    gate: LockingGate = field(kw_only=True)

    def begin(self) -> None:
        """Count from now on."""
        self.rig.recording.told_busy = 0
        self.gate.is_armed = True

    def end(self) -> None:
        """Give the lock back."""
        self.gate.is_armed = False
        self.gate.let_go()

    @property
    def was_met(self) -> bool:
        """Whether there was an n-th statement."""
        return self.gate.met >= self.gate.at

    @property
    def failed(self) -> int:
        """How many statements were told BUSY."""
        return self.rig.recording.told_busy if self.gate.taken else 0

    @property
    def store(self) -> str:
        """The database that was locked."""
        return self.gate.taken.partition(".")[0]


@frozen
class LockTaken:
    """Somebody else holds a lock."""

    name: str
    lock: Lock
    then_cut: bool = False

    def armed(self, rig: FaultRig, at: int) -> Armed:
        """The lock, which is taken before statement number ``at``."""
        return ArmedLock(rig=rig, gate=LockingGate(at, self.lock, rig.databases(), rig.recording.stranger))


# -- all of them ----------------------------------------------------------------------------------------------

_FULL, _WRITE = sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE


def _calls() -> Iterator[CallFails]:
    for name, call, code in (
        ("write: disk full", Call.WRITE, _FULL),
        ("write: I/O error", Call.WRITE, _WRITE),
        ("sync: I/O error", Call.SYNC, sqlite3.SQLITE_IOERR_FSYNC),
        ("truncate: I/O error", Call.TRUNCATE, sqlite3.SQLITE_IOERR_TRUNCATE),
        ("delete: I/O error", Call.DELETE, sqlite3.SQLITE_IOERR_DELETE),
        ("delete: done, folder not synced", Call.DELETE, sqlite3.SQLITE_IOERR_DIR_FSYNC),
        ("open: cannot", Call.OPEN, sqlite3.SQLITE_CANTOPEN),
    ):
        yield CallFails(name, call, code)
        yield CallFails(f"{name}, from then on", call, code, Until.FOR_EVER)
    yield CallFails("sync: I/O error, then forgotten", Call.SYNC, sqlite3.SQLITE_IOERR_FSYNC, Until.FORGOTTEN)
    yield CallFails("storage gone", None, 0, Until.POWER_CUT)


KINDS: tuple[Kind, ...] = (
    *_calls(),
    *(LockTaken(f"lock: another {lock}", lock) for lock in Lock),
    *(
        FileFails(f"file: {what}{when}", number, bool(when))
        for what, number in (("disk full", errno.ENOSPC), ("I/O error", errno.EIO))
        for when in ("", ", from then on")
    ),
)
"""Every kind, in the order in which they are swept."""
