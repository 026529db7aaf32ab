"""One attempt at a call, and what ends it when it takes too long: an interruption, a shrug, or SIGKILL.

The runner cannot see at which instant a request leaves, so each timeout counts as one after the send: its outcome is
*unknown*, never a failure. An answer that arrives after that is kept as evidence, with the number of its attempt, and
delivered to nobody. What cannot be ended, a thread or a task that ignores its interruption, lives on: see ``lingering``.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field, frozen

from impl.isolation import Late, ProcessRun, Run, TaskRun, ThreadRun, done_within, ended, settled
from model.contracts import AttemptTimeout
from model.words import Kind

GRACE_MS = 1_000
SILENCE = (ConnectionError, TimeoutError)
"""What a call raises when no answer came: whether it acted is not known."""


class TimeoutNotPositiveError(ValueError):
    """An attempt was given a timeout that is not a positive, finite number of milliseconds."""


class CallNotFitError(TypeError):
    """An attempt was given an async call where a plain one is run, or the other way round."""


class Timer(Protocol):
    """What tells the runner that time is up; a test brings its own."""

    async def wait(self, timeout_ms: float) -> None:
        """Return when ``timeout_ms`` milliseconds have passed."""


@frozen
class Attempt:
    """How an attempt ended: OK with the call's ``value``, or UNKNOWN with the reason."""

    kind: Kind
    value: Any = None
    reason: str = ""
    error: BaseException | None = None
    """What the call raised, where that was neither silence nor a failure of the connection."""
    interrupted: bool = False
    """Whether whoever waited was cancelled meanwhile, and must see to it."""


@define
class AttemptRunner:
    """Runs attempts under one isolation and counts how they ended. Attempts may run side by side.

    *Cooperative*: an async call is interrupted at its next await, and its clean-up runs before the runner returns; a
    call that does not yield is not interrupted, and one that goes on for ``grace_ms`` in spite of it is left alone.
    *Thread*: the caller stops waiting and the thread lives on. *Process*: a forked process, killed with all that it
    started; no clean-up is promised, and the call must not use connections that were opened before the fork. Fork only
    where no other thread holds locks.
    """

    isolation: AttemptTimeout = AttemptTimeout.COOPERATIVE
    timer: Timer | None = None
    """What tells that time is up; without one the running loop does, be its time real or virtual."""
    grace_ms: float = GRACE_MS
    """How long an interrupted call may take to clean up."""
    started: int = field(default=0, init=False)
    timed_out: int = field(default=0, init=False)
    cancelled: int = field(default=0, init=False)
    late: list[Late] = field(factory=list, init=False)
    _lingering: list[Run] = field(factory=list, init=False)

    @property
    def lingering(self) -> list[Run]:
        """The calls that still run though nobody waits for them."""
        self._lingering = [run for run in self._lingering if run.lives]
        return list(self._lingering)

    async def run(self, call: Callable[[], Any], *, timeout_ms: float) -> Attempt:
        """Call once and wait at most ``timeout_ms`` milliseconds. Arguments are bound by ``functools.partial``.

        OK with the value, or UNKNOWN after a timeout, a NoAnswerError, or the unexplained end of a process. Another
        exception of the call is raised as it is. A cancellation is counted and raised again after the attempt has
        ended. Raises TimeoutNotPositiveError or CallNotFitError, and then nothing has been called.
        """
        attempt = await self.attempt(call, timeout_ms=timeout_ms)
        if attempt.interrupted:
            raise asyncio.CancelledError
        if attempt.error is not None:
            raise attempt.error
        return attempt

    async def attempt(self, call: Callable[[], Any], *, timeout_ms: float) -> Attempt:
        """As ``run``, but nothing of the call is raised, and a cancellation is told with what the call had answered."""
        _check_timeout(timeout_ms)
        check_call(call, self.isolation)
        self.started += 1
        run = self._start(call, self.started)
        try:
            interrupted = await self._wait(run, timeout_ms)
            in_time = run.answer.done()
            interrupted |= await run.stop(self.grace_ms)
        except BaseException:  # the timer broke: nothing may be left behind
            await run.stop(self.grace_ms)
            raise
        if not in_time and run.lives:
            self._lingering.append(run)
        elif not in_time:
            run.keep()
        self.cancelled += interrupted
        if in_time:
            return _told(run.answer, interrupted=interrupted)
        if interrupted:
            return Attempt(Kind.UNKNOWN, reason="interrupted", interrupted=True)
        self.timed_out += 1
        return Attempt(Kind.UNKNOWN, reason=f"no answer within {timeout_ms} ms")

    async def _wait(self, run: Run, timeout_ms: float) -> bool:
        """Wait for the answer or the end of the time; whether the caller was cancelled meanwhile."""
        if self.timer is None:
            try:
                await done_within(run.answer, timeout_ms / 1000)
            except asyncio.CancelledError:
                return True
            return False
        bell = asyncio.ensure_future(self.timer.wait(timeout_ms))
        interrupted = False
        try:
            await asyncio.wait({run.answer, bell}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            interrupted = True
        rang = bell.done()
        bell.cancel()
        interrupted |= await ended(bell)
        if rang and not run.answer.done():
            bell.result()  # a timer that broke is told, not taken for a timeout
        return interrupted

    def _start(self, call: Callable[[], Any], number: int) -> Run:
        if self.isolation is AttemptTimeout.COOPERATIVE:
            return TaskRun(call, number, self.late.append)
        if self.isolation is AttemptTimeout.THREAD:
            return ThreadRun(call, number, self.late.append)
        return ProcessRun(call, number, self.late.append)


def _check_timeout(timeout_ms: float) -> None:
    number = isinstance(timeout_ms, int | float) and not isinstance(timeout_ms, bool)
    if not (number and math.isfinite(timeout_ms) and timeout_ms > 0):
        raise TimeoutNotPositiveError(
            f"attempt timeout {timeout_ms!r} is not a positive, finite number of milliseconds; give one above 0"
        )


def check_call(call: Callable[..., Any], isolation: AttemptTimeout) -> None:
    """Raise CallNotFitError unless a call is async where it is to be interrupted, and plain where it is not."""
    is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)
    if is_async is not (isolation is AttemptTimeout.COOPERATIVE):
        found, wanted = ("async", "plain") if is_async else ("plain", "async")
        raise CallNotFitError(
            f"{call!r} is {found}, and {isolation} isolation runs {wanted} calls; change the call or the isolation"
        )


def _told(answer: asyncio.Future[Any], *, interrupted: bool) -> Attempt:
    """What an answer in time says."""
    value, error = settled(answer)
    if error is None:
        return Attempt(Kind.OK, value, interrupted=interrupted)
    reason = str(error) or type(error).__name__
    if isinstance(error, asyncio.CancelledError):
        return Attempt(Kind.UNKNOWN, reason="the call was interrupted from inside", interrupted=interrupted)
    if isinstance(error, SILENCE):
        return Attempt(Kind.UNKNOWN, reason=reason, interrupted=interrupted)
    return Attempt(Kind.UNKNOWN, reason=reason, error=error, interrupted=interrupted)
