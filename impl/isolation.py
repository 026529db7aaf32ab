"""How an attempt is isolated: a task that can be interrupted, a thread that cannot, a process that can be killed.

Each is a call that is under way. It has an ``answer`` to wait for and a ``stop`` that ends what can be ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import pickle
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, Protocol

from attrs import frozen

from impl.protocol import NoAnswerError

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class RaisedInProcessError(RuntimeError):
    """A call in a process of its own raised an exception that could not be brought back; its text is the message."""


@frozen
class Late:
    """What became of a call after its attempt had ended: evidence, not an answer. ``attempt`` counts from 1."""

    value: Any = None
    error: BaseException | None = None
    attempt: int = 0


class Run(Protocol):
    """A call that is under way."""

    answer: asyncio.Future[Any]

    @property
    def lives(self) -> bool:
        """Whether it still runs."""

    async def stop(self, grace_ms: float) -> bool:
        """End it as far as can be. True if the caller was cancelled while it waited for the end."""

    def keep(self) -> None:
        """Keep as evidence what it brought after its time."""


async def done_within(future: asyncio.Future[Any], timeout_s: float | None) -> bool:
    """Wait until ``future`` is done or the time is up; whether it is. A cancellation ends the wait alone.

    What ``asyncio.wait`` does for many futures, for one: most of what an attempt costs is waited for here.
    """
    loop = asyncio.get_running_loop()
    bell = loop.create_future()

    def ring(_done: object = None) -> None:
        if not bell.done():
            bell.set_result(None)

    timer = None if timeout_s is None else loop.call_later(timeout_s, ring)
    future.add_done_callback(ring)
    try:
        await bell
    finally:
        if timer is not None:
            timer.cancel()
        future.remove_done_callback(ring)
    return future.done()


async def ended(future: asyncio.Future[Any], within_ms: float | None = None) -> bool:
    """Wait until ``future`` has ended, through any cancellation of the caller; whether there was one."""
    cancelled = False
    loop = asyncio.get_running_loop()
    until = None if within_ms is None else loop.time() + within_ms / 1000
    while not future.done():
        left = None if until is None else max(0.0, until - loop.time())
        try:
            if not await done_within(future, left):
                break
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def settled(answer: asyncio.Future[Any]) -> tuple[Any, BaseException | None]:
    """The value or the exception of a future that has ended."""
    if answer.cancelled():
        return None, asyncio.CancelledError()
    error = answer.exception()
    return (answer.result(), None) if error is None else (None, error)


class _Kept:
    """What all runs share: their number, and where evidence goes."""

    answer: asyncio.Future[Any]

    def __init__(self, number: int, late: Callable[[Late], None]) -> None:
        self.number = number
        self._late = late

    def keep(self) -> None:
        """Keep as evidence what it brought after its time; silence is none."""
        value, error = settled(self.answer) if self.answer.done() else (None, asyncio.CancelledError())
        if not isinstance(error, (ConnectionError, TimeoutError, asyncio.CancelledError)):
            self._late(Late(value, error, self.number))


class TaskRun(_Kept):
    """An async call as a task of the running loop."""

    def __init__(self, call: Callable[[], Awaitable[Any]], number: int, late: Callable[[Late], None]) -> None:
        super().__init__(number, late)
        self.answer: asyncio.Future[Any] = asyncio.ensure_future(call())

    @property
    def lives(self) -> bool:
        """Whether it ignores its interruption."""
        return not self.answer.done()

    async def stop(self, grace_ms: float) -> bool:
        """Interrupt it at its next await, and wait until its clean-up has run, but not for ever."""
        if self.answer.done():
            return False
        self.answer.cancel()
        cancelled = await ended(self.answer, grace_ms)
        if not self.answer.done():
            self.answer.add_done_callback(lambda _answer: self.keep())
        return cancelled


class ThreadRun(_Kept):
    """A plain call in a daemon thread, which nothing can end."""

    def __init__(self, call: Callable[[], Any], number: int, late: Callable[[Late], None]) -> None:
        super().__init__(number, late)
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self._loop.create_future()
        self._abandoned = False
        self.thread = threading.Thread(target=self._work, args=(call,), daemon=True, name="attempt")
        self.thread.start()

    def _work(self, call: Callable[[], Any]) -> None:
        try:
            found = Late(call(), attempt=self.number)
        except BaseException as error:  # noqa: BLE001  # whatever it is, somebody else's thread must hear of it
            found = Late(error=error, attempt=self.number)
        try:
            self._loop.call_soon_threadsafe(self._deliver, found)
        except RuntimeError:  # the loop has been closed: nobody waits any more
            self._late(found)

    def _deliver(self, found: Late) -> None:
        if self._abandoned:
            self._late(found)
        elif found.error is None:
            self.answer.set_result(found.value)
        else:
            self.answer.set_exception(found.error)

    @property
    def lives(self) -> bool:
        """Whether the thread still runs."""
        return self.thread.is_alive()

    async def stop(self, grace_ms: float) -> bool:
        """Wait no longer; the thread lives on, and what it brings later is evidence."""
        self._abandoned = not self.answer.done()
        return False


class ProcessRun(_Kept):
    """A plain call in a forked process that leads a process group of its own."""

    lives = False
    """Once it was stopped."""

    def __init__(self, call: Callable[[], Any], number: int, late: Callable[[Late], None]) -> None:
        super().__init__(number, late)
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self._loop.create_future()
        self._data = bytearray()
        self._read_fd, write_fd = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _be_the_process(call, write_fd, parent)
        os.close(write_fd)
        # Both sides set the group: whichever comes first, it is there before anybody kills it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(self.pid, self.pid)
        os.set_blocking(self._read_fd, False)
        self._loop.add_reader(self._read_fd, self._read)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._read_fd, 65_536):
                self._data += chunk
            self._loop.remove_reader(self._read_fd)
            self._conclude()

    def _conclude(self) -> None:
        if self.answer.done():
            return
        try:
            value, error = pickle.loads(self._data)  # noqa: S301  # written by our own fork
        except Exception as broken:  # noqa: BLE001  # whatever cannot be read back is no answer
            self.answer.set_exception(NoAnswerError(f"the process ended without an answer ({broken})"))
            return
        if error is None:
            self.answer.set_result(value)
        else:
            self.answer.set_exception(error)

    async def stop(self, grace_ms: float) -> bool:
        """Kill it with all that it started, reap it, and read what it may have answered meanwhile."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)  # noqa: ASYNC222  # it has been killed: this waits for the kernel alone
        self._loop.remove_reader(self._read_fd)
        self._read()
        os.close(self._read_fd)
        return False


def _be_the_process(call: Callable[[], Any], write_fd: int, parent: int) -> NoReturn:
    """The child's whole life: call, write the answer, end without running anything of the parent's."""
    try:
        os.setpgid(0, 0)
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # no orphan, should the parent be killed
        if os.getppid() != parent:
            os._exit(1)
        signal.set_wakeup_fd(-1)  # else this process's signals would be written into the parent's loop
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        data = _packed(call)
        while data:
            data = data[os.write(write_fd, data) :]
    finally:
        os._exit(0)


def _packed(call: Callable[[], Any]) -> bytes:
    try:
        value = call()
    except BaseException as error:  # noqa: BLE001  # whatever it is, the parent must hear of it
        return _portable(None, error) or pickle.dumps(
            (None, RaisedInProcessError(f"{type(error).__name__}: {error}"))
        )
    silent = NoAnswerError(f"the call answered a {type(value).__name__}, which cannot be brought out of its process")
    return _portable(value, None) or pickle.dumps((None, silent))


def _portable(value: Any, error: BaseException | None) -> bytes | None:
    """The answer as bytes, or None if it does not survive the way; rehearsed, because some only fail on arrival."""
    with contextlib.suppress(Exception):
        data = pickle.dumps((value, error))
        pickle.loads(data)  # noqa: S301  # written one line above
        return data
    return None
