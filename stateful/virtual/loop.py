"""An asyncio event loop on a clock of its own, in whole microseconds.

Coroutines, tasks, futures and timeouts are asyncio's own. The loop runs one handle at a time: a *turn*. Before each
turn it asks ``at_turn``, which may do there whatever another process, a user or the operating system could: cancel a
task, let time pass, or end everything. When nothing is ready the clock jumps to the next timer, at once. Timers that
are due at the same instant come in the order that ``tie`` chooses. All else comes in the order of asyncio's own loop.

docs/attempts.md has which kept libraries were tried, and what was measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import math
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TURNS_MAX = 100_000
"""No run is nearly as long; one that is will not end."""
_LIFE: contextvars.ContextVar[object] = contextvars.ContextVar("life", default=None)
"""What a task and all that it sets going belong to; ``freeze`` ends a life."""


class Frozen(BaseException):
    """Raised out of a run by ``VirtualLoop.freeze``: not a line of what it ran is executed any more."""


class TooManyTurnsError(RuntimeError):
    """A run did not end: it has taken more turns than any that does."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """Runs one coroutine at a time to its end, in virtual time. What is under way then goes on with the next one.

    ``at_turn`` is called before each turn with its number, from 1. ``tie`` is called with how many timers are due at
    one instant, and gives the index of the one that comes next.
    """

    def __init__(self, at_turn: Callable[[int], None] | None = None, tie: Callable[[int], int] | None = None) -> None:
        self.at_turn = at_turn
        self.tie = tie
        self._tasks: list[asyncio.Task[Any]] = []
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._round = 0
        self._running = False
        self.reset()

    def reset(self) -> None:
        """Begin anew at time 0; whatever was under way is buried."""
        self._let_go()
        self.now_us = 0
        self.turns = 0
        self._serial = itertools.count()
        self._life = object()
        self._has_dead = False
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
        if asyncio._get_running_loop() is not None:  # noqa: SLF001 - as the next
            raise RuntimeError("a loop is running in this thread already; await the coroutine there")
        task = asyncio.ensure_future(future, loop=self)
        asyncio._set_running_loop(self)  # noqa: SLF001 - documented as what a loop is to call
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._close_generator)
        self._running = True
        try:
            while not task.done():
                self._turn()
        finally:
            self._running = False
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(None)  # noqa: SLF001
        return task.result()

    def _turn(self) -> None:
        """Run one handle. As in asyncio's own loop, timers are looked at when all that was ready has had its turn."""
        if not self._round:
            self._ring()
            self._round = len(self._ready)
            if not self._round:
                raise RuntimeError(
                    f"everybody waits at {self.now_ms:,} ms, and no timer is set: this would never end; "
                    "let somebody answer, or wait with a timeout"
                )
        self.turns += 1
        if self.turns > TURNS_MAX:
            raise TooManyTurnsError(f"it has not ended after {TURNS_MAX:,} turns, {self.now_ms:,} ms")
        if self.at_turn is not None:
            self.at_turn(self.turns)
        self._round -= 1
        handle = self._ready.popleft()
        if not handle.cancelled() and not (self._has_dead and self._is_dead(handle)):
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
        out: list[asyncio.TimerHandle] = []
        while self.tie is not None and len(due) > 1:
            out.append(due.pop(self.tie(len(due))))
        return out + due

    def freeze(self) -> None:
        """End all that runs, as SIGKILL does: nothing is cancelled, no clean-up runs, and what was ready is gone.

        Called from ``at_turn``; raises Frozen out of ``run_until_complete``. What was begun is kept until ``bury``, for
        Python would else run its clean-up as soon as nobody holds it. Nor does it wake when what it waits for comes.
        """
        self._forget()
        self._life, self._has_dead = object(), True
        raise Frozen

    def _is_dead(self, handle: asyncio.Handle) -> bool:
        """Whether it was set going by what is frozen."""
        return handle._context.get(_LIFE, self._life) is not self._life  # type: ignore[attr-defined]  # noqa: SLF001

    def _forget(self) -> None:
        self._ready.clear()
        self._timers.clear()
        self._round = 0

    def bury(self) -> None:
        """Let go of what never ended. Its clean-up runs now, and whatever that does happens after everything."""
        self.at_turn = None
        self._let_go()

    def _let_go(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            if not task.done():
                coroutine: Any = task.get_coro()
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - it was ended by force
                # Whatever its clean-up raises belongs to a process that is dead.
                with contextlib.suppress(Exception, asyncio.CancelledError):
                    coroutine.close()
        self._forget()

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
        return self._at(self.now_us + delay * 1_000_000, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at an instant, in seconds."""
        return self._at(when * 1_000_000, callback, args, context)

    def _at(
        self, when_us: float, callback: Any, args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when_us / 1_000_000, callback, args, self, context)
        if when_us != math.inf:  # or it never comes
            heapq.heappush(self._timers, (round(when_us), next(self._serial), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, T], **kwargs: Any) -> asyncio.Task[T]:  # type: ignore[override]
        """A task of this loop."""
        if _LIFE.get() is not self._life:  # it comes from outside, and not from what runs here
            context = kwargs["context"] = kwargs.get("context") or contextvars.copy_context()
            context.run(_LIFE.set, self._life)
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, **kwargs)
        self._tasks.append(task)
        return task

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Run the clean-up of an async generator that nobody holds any more; a dead one has none."""
        if self._running:
            self.call_soon(self.create_task, generator.aclose())

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
