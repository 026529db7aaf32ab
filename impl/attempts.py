"""One attempt at a call, and what ends it when it takes too long: an interruption, a shrug, or SIGKILL.

The runner cannot see at which instant a request leaves, so each timeout counts as one after the send: its outcome is
*unknown*, never a failure. An answer that arrives after that is kept as evidence and delivered to nobody.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field, frozen

from impl.isolation import Late, ProcessRun, Run, TaskRun, ThreadRun, ended
from impl.protocol import NoAnswerError
from model.contracts import AttemptTimeout
from model.words import Kind


class TimeoutNotPositiveError(ValueError):
    """An attempt was given a timeout that is not a positive, finite number of milliseconds."""


class CallNotFitError(TypeError):
    """An attempt was given an async call where a plain one is run, or the other way round."""


class Timer(Protocol):
    """What tells the runner that time is up; a test brings its own."""

    async def wait(self, timeout_ms: float) -> None:
        """Return when ``timeout_ms`` milliseconds have passed."""


class LoopTimer:
    """The event loop's own time, real or virtual."""

    async def wait(self, timeout_ms: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(timeout_ms / 1000)


@frozen
class Attempt:
    """How an attempt ended: OK with the call's ``value``, or UNKNOWN with the reason."""

    kind: Kind
    value: Any = None
    reason: str = ""


@define
class AttemptRunner:
    """Runs attempts under one isolation and counts how they ended. Attempts may run side by side.

    *Cooperative*: an async call is interrupted at its next await, and its clean-up runs before the runner returns; a
    call that does not yield is not interrupted. *Thread*: the caller stops waiting and the thread lives on (see
    ``lingering``). *Process*: a forked process, killed with all that it started; no clean-up is promised, and the
    call must not use connections that were opened before the fork. Fork only where no other thread holds locks.
    """

    isolation: AttemptTimeout = AttemptTimeout.COOPERATIVE
    timer: Timer = field(factory=LoopTimer)
    started: int = field(default=0, init=False)
    timed_out: int = field(default=0, init=False)
    cancelled: int = field(default=0, init=False)
    late: list[Late] = field(factory=list, init=False)
    _threads: list[threading.Thread] = field(factory=list, init=False)

    @property
    def lingering(self) -> list[threading.Thread]:
        """The threads that still run, whether or not anybody waits for them."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        return list(self._threads)

    async def run(self, call: Callable[[], Any], *, timeout_ms: float) -> Attempt:
        """Call once and wait at most ``timeout_ms`` milliseconds. Arguments are bound by ``functools.partial``.

        OK with the value, or UNKNOWN after a timeout, a NoAnswerError, or the unexplained end of a process. Another
        exception of the call is raised as it is. A cancellation is counted and raised again after the attempt has
        ended. Raises TimeoutNotPositiveError or CallNotFitError, and then nothing has been called.
        """
        _check_timeout(timeout_ms)
        _check_call(call, self.isolation)
        self.started += 1
        run = self._start(call)
        bell = asyncio.ensure_future(self.timer.wait(timeout_ms))
        cancelled = False
        try:
            await asyncio.wait({run.answer, bell}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            cancelled = True
        in_time = run.answer.done() and not cancelled
        cancelled |= await run.stop()
        bell.cancel()
        cancelled |= await ended(bell)
        if cancelled or not in_time:
            self._keep(run.answer)
        if cancelled:
            self.cancelled += 1
            raise asyncio.CancelledError
        if in_time:
            return _settled(run.answer)
        if not bell.cancelled():
            bell.result()  # a timer that broke is told, not taken for a timeout
        self.timed_out += 1
        return Attempt(Kind.UNKNOWN, reason=f"no answer within {timeout_ms} ms")

    def _start(self, call: Callable[[], Any]) -> Run:
        if self.isolation is AttemptTimeout.COOPERATIVE:
            return TaskRun(call)
        if self.isolation is AttemptTimeout.THREAD:
            run = ThreadRun(call, self.late)
            self._threads.append(run.thread)
            return run
        return ProcessRun(call)

    def _keep(self, answer: asyncio.Future[Any]) -> None:
        """Keep as evidence what an attempt brought that had already ended."""
        if not answer.done() or answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            self.late.append(Late(answer.result()))
        elif not isinstance(error, NoAnswerError):
            self.late.append(Late(error=error))


def _check_timeout(timeout_ms: float) -> None:
    number = isinstance(timeout_ms, int | float) and not isinstance(timeout_ms, bool)
    if not (number and math.isfinite(timeout_ms) and timeout_ms > 0):
        raise TimeoutNotPositiveError(
            f"attempt timeout {timeout_ms!r} is not a positive, finite number of milliseconds; give one above 0"
        )


def _check_call(call: Callable[[], Any], isolation: AttemptTimeout) -> None:
    is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)
    if is_async is not (isolation is AttemptTimeout.COOPERATIVE):
        found, wanted = ("async", "plain") if is_async else ("plain", "async")
        raise CallNotFitError(
            f"{call!r} is {found}, and {isolation} isolation runs {wanted} calls; change the call or the isolation"
        )


def _settled(answer: asyncio.Future[Any]) -> Attempt:
    if answer.cancelled():
        return Attempt(Kind.UNKNOWN, reason="the call was interrupted from inside")
    error = answer.exception()
    if isinstance(error, NoAnswerError):
        return Attempt(Kind.UNKNOWN, reason=str(error) or "no answer")
    return Attempt(Kind.OK, answer.result())
