"""An asyncio event loop on a clock of its own, in whole microseconds.

Coroutines, tasks, futures and timeouts are asyncio's own. The loop runs one handle at a time: a *turn*. Before each
turn it asks ``at_turn``, which may do there whatever another process, a user or the operating system could: cancel a
task, let time pass, or end everything. When nothing is ready the clock jumps to the next timer, at once. Timers that
are due at the same instant come in the order that ``tie`` chooses.

Kept libraries were looked at first: they patch a selector's loop, which costs a pair of sockets for each run, and none
lets a caller choose the order of equal timers or step in between two turns; docs/attempts.md has what was measured.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TURNS_MAX = 100_000
"""No run is nearly as long; one that is will not end."""


class Frozen(BaseException):
    """Raised out of a run by ``VirtualLoop.freeze``: not a line of what it ran is executed any more."""


class TooManyTurnsError(RuntimeError):
    """A run did not end: it has taken more turns than any that does."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """Runs one coroutine at a time to its end, in virtual time. It is as good as new after each.

    ``at_turn`` is called before each turn with its number, from 1. ``tie`` is called with how many timers are due at
    one instant, and gives the index of the one that comes next.
    """

    def __init__(self, at_turn: Callable[[int], None] | None = None, tie: Callable[[int], int] | None = None) -> None:
        self.at_turn = at_turn
        self.tie = tie
        self.reset()

    def reset(self) -> None:
        """Begin anew at time 0; whatever was under way is forgotten."""
        self.now_us = 0
        self.turns = 0
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._serial = itertools.count()
        self._tasks: list[asyncio.Task[Any]] = []
        self._running = False
        self.errors: list[dict[str, Any]] = []
        """What tasks and callbacks raised that nobody heard."""

    # -- time -------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds, as asyncio counts them."""
        return self.now_us / 1_000_000

    @property
    def now_ms(self) -> int:
        """Whole milliseconds."""
        return self.now_us // 1000

    def stall(self, until_us: int) -> None:
        """Let time pass in which nothing here runs, as when a machine sleeps. Time never goes back."""
        self.now_us = max(self.now_us, until_us)

    # -- running ----------------------------------------------------------------------------------------------

    def run_until_complete(self, future: Any) -> Any:
        """Run a coroutine to its end, in virtual time; what it returns or raises.

        Raises TooManyTurnsError where it does not end, RuntimeError where it waits for what will never come.
        """
        asyncio._set_running_loop(self)  # noqa: SLF001 - documented as what a loop is to call
        self._running = True
        task = asyncio.ensure_future(future, loop=self)
        try:
            while not task.done():
                self._turn()
        finally:
            self._running = False
            asyncio._set_running_loop(None)  # noqa: SLF001
        return task.result()

    def _turn(self) -> None:
        """Run one handle."""
        if self._timers and (not self._ready or self._timers[0][0] <= self.now_us):
            self._ring()
        if not self._ready:
            raise RuntimeError("everybody waits, and no timer is set: this would never end")
        self.turns += 1
        if self.turns > TURNS_MAX:
            raise TooManyTurnsError(f"it has not ended after {TURNS_MAX:,} turns, {self.now_ms:,} ms")
        if self.at_turn is not None:
            self.at_turn(self.turns)
        handle = self._ready.popleft()
        if not handle.cancelled():
            handle._run()  # noqa: SLF001 - there is no other way to run one

    def _ring(self) -> None:
        """Make ready what is due: at once if nothing else is to be done, else what time has overtaken."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers or (self._ready and timers[0][0] > self.now_us):
            return
        self.now_us = max(self.now_us, timers[0][0])
        while timers and timers[0][0] <= self.now_us:
            for handle in self._due(timers[0][0]):
                self._ready.append(handle)

    def _due(self, instant_us: int) -> list[asyncio.TimerHandle]:
        """The timers of one instant, in the order in which they come."""
        due = []
        while self._timers and self._timers[0][0] == instant_us:
            _when, _number, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                due.append(handle)
        if self.tie is None or len(due) < 2:
            return due
        out = []
        while len(due) > 1:
            out.append(due.pop(self.tie(len(due))))
        return out + due

    def freeze(self) -> None:
        """End all that runs, as SIGKILL does: nothing is cancelled, no clean-up runs, and what was ready is gone.

        Called from ``at_turn``; raises Frozen out of ``run_until_complete``. What was begun is kept until ``thaw``, for
        Python would else run its clean-up as soon as nobody holds it.
        """
        self._ready.clear()
        self._timers.clear()
        raise Frozen

    def bury(self) -> None:
        """Let go of what never ended. Its clean-up runs now, and whatever that does happens after everything."""
        self.at_turn = None
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            if not task.done():
                coroutine: Any = task.get_coro()
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - it was ended by force
                try:
                    coroutine.close()
                except (RuntimeError, Exception):  # noqa: BLE001, S112 - it belongs to a process that is dead
                    continue

    # -- what asyncio asks of a loop --------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Run a callback at the next turn that is free."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback after so many seconds."""
        return self._at(self.now_us + round(delay * 1_000_000), callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at an instant, in seconds."""
        return self._at(round(when * 1_000_000), callback, args, context)

    def _at(
        self, when_us: int, callback: Any, args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when_us / 1_000_000, callback, args, self, context)
        heapq.heappush(self._timers, (when_us, next(self._serial), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, T], **kwargs: Any) -> asyncio.Task[T]:  # type: ignore[override]
        """A task of this loop."""
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, **kwargs)
        self._tasks.append(task)
        return task

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing: a cancelled timer is passed over when its time has come."""

    def is_running(self) -> bool:
        """Whether a coroutine is being run."""
        return self._running

    def is_closed(self) -> bool:
        """Never: there is nothing to close."""
        return False

    def get_debug(self) -> bool:
        """Never."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what nobody heard."""
        self.errors.append(context)
