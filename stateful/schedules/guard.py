"""What a subject may not do while its lanes are scheduled: threads of its own, waiting for real time.

Its lanes share one thread, and only boundaries hand it on. A subject that sleeps would hold up all lanes, and one that
starts threads or processes would run outside every schedule. Either is found out where it happens, and so is a lane
that waits for a lock in memory. Awaiting is fine: each step of an event loop is a boundary, as long as it has something
to run.
"""

from __future__ import annotations

import asyncio.events
import os
import select
import selectors
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from stateful.boundaries import Crash
from stateful.schedules.lanes import Lane, Scheduler, UnsupportedByEngine

_watched: list[Scheduler] = []
_found: list[str] = []


def install() -> None:
    """Watch over the lanes in this process. To be called before the subject is imported, and once."""
    if getattr(time.sleep, "is_guarded", False):
        return
    time.sleep = _refusing(time.sleep, lambda args: f"it sleeps (time.sleep({', '.join(map(repr, args))}))")
    _refuse(threading.Thread, "start", "it starts a thread")
    _refuse(subprocess.Popen, "__init__", "it starts a process")
    os.fork = _refusing(os.fork, lambda args: "it forks")
    for name in ("system", "posix_spawn", "posix_spawnp"):
        _refuse(os, name, "it starts a process")
    _refuse(threading.Condition, "wait", "it waits for another thread")
    select.select = _waiting_too(select.select)
    module: Any = threading
    module.Lock = lambda plain=threading.Lock: GuardedLock(plain())
    selector: Any = selectors.DefaultSelector
    selector.select = _waiting(selector.select)
    handle: Any = asyncio.events.Handle
    handle._run = _stepping(handle._run)  # noqa: SLF001 - every step of every loop goes through it


class GuardedLock:
    """A lock that no lane waits for: its holder is another process, which in this thread could never let it go."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.locked, self.release = lock.locked, lock.release

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, or say that this cannot be scheduled where a lane would have to wait."""
        if _lane() is None:
            return bool(self._lock.acquire(blocking, timeout))
        if self._lock.acquire(blocking=False):
            return True
        if blocking:
            _refuse_now("it waits for a lock in memory that another of its processes holds")
        return False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def watch(scheduler: Scheduler) -> None:
    """Watch over the lanes of one scheduler."""
    _watched[:] = [scheduler]
    _found.clear()


def check() -> None:
    """Raise UnsupportedByEngine if a lane did what it may not, and swallowed what it was told."""
    if _found:
        raise UnsupportedByEngine(_found[0])


def _lane() -> Lane | None:
    """The lane whose code runs now; one that is dead is ended once more, whatever it was about to do."""
    lane = _watched[0].current if _watched else None
    if lane is not None and lane.dead:
        raise Crash
    return lane


def _refuse_now(why: str) -> None:
    _found.append(why)
    raise UnsupportedByEngine(why)


def _refusing(function: Callable[..., Any], why: Callable[[tuple[Any, ...]], str]) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if _lane() is not None:
            _refuse_now(why(args))
        return function(*args, **kwargs)

    guarded.is_guarded = True  # type: ignore[attr-defined]
    return guarded


def _refuse(owner: Any, name: str, why: str) -> None:
    setattr(owner, name, _refusing(getattr(owner, name), lambda _: why))


def _waiting(select: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: Any, timeout: float | None = None) -> Any:
        if _lane() is not None and (timeout is None or timeout > 0):
            _refuse_now("it waits on its event loop for time or for another thread")
        return select(self, timeout)

    return guarded


def _waiting_too(select_: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(*args: Any) -> Any:
        if _lane() is not None and (len(args) < 4 or args[3] is None or args[3] > 0):
            _refuse_now("it waits with select for time or for another process")
        return select_(*args)

    return guarded


def _stepping(run: Callable[[Any], None]) -> Callable[[Any], None]:
    def guarded(self: Any) -> None:
        lane = _lane()
        if lane is not None:
            lane.reach("the event loop", "await")
        run(self)

    return guarded
