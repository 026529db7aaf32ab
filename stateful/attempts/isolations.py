"""Threads and processes without either: what they may do to a call, on a virtual clock."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from impl.attempts import AttemptRunner
from impl.isolation import Run, TaskRun
from impl.protocol import Json, Request
from model.contracts import AttemptTimeout
from stateful.attempts.sink import ScriptedSink

_IS_ELSEWHERE: contextvars.ContextVar[bool] = contextvars.ContextVar("elsewhere", default=False)
"""Whether what runs is in a thread or a process of its own, where it keeps nobody from going on."""


class PlainSink:
    """A scripted sink whose methods are plain ones: whoever calls them on the loop's own thread blocks the loop.

    ``meanwhile`` is called at each millisecond of that: other processes go on.
    """

    def __init__(self, sink: ScriptedSink, meanwhile: Callable[[], None]) -> None:
        self._sink, self._meanwhile = sink, meanwhile

    def apply(self, request: Request) -> Any:
        """The answer; what is to be awaited where it blocks nobody."""
        return self._carried_out(self._sink.apply(request))

    def lookup(self, key: str, payload: Json, token: int) -> Any:
        """The same for a question."""
        return self._carried_out(self._sink.lookup(key, payload, token))

    def _carried_out(self, call: Coroutine[Any, Any, Any]) -> Any:
        if _IS_ELSEWHERE.get():
            return call
        self._sink.blocks = self._meanwhile
        try:
            call.send(None)
        except StopIteration as answered:
            return answered.value
        finally:
            self._sink.blocks = None
        raise AssertionError("a call that blocks has waited for somebody")


class VirtualAttempts(AttemptRunner):
    """The attempt runner, but for the thread and the process, which are tasks of the virtual loop."""

    dead: set[Any]

    def _start(self, call: Callable[[], Any], number: int) -> Run:
        if self.isolation is AttemptTimeout.COOPERATIVE:
            return super()._start(call, number)

        async def elsewhere() -> Any:
            _IS_ELSEWHERE.set(True)
            answer = call()
            return await answer if inspect.isawaitable(answer) else answer

        kind = VirtualThread if self.isolation is AttemptTimeout.THREAD else VirtualProcess
        run = kind(elsewhere, number, self.late.append)
        run.dead = self.dead
        return run


class VirtualThread(TaskRun):
    """A call that nothing can end, as a thread's."""

    dead: set[Any]

    async def stop(self, grace_ms: float) -> bool:
        """Wait no longer."""
        if not self.answer.done():
            self.answer.add_done_callback(lambda _answer: self.keep())
        return False


class VirtualProcess(TaskRun):
    """A call that is ended without a clean-up, as a process that is killed."""

    dead: set[Any]
    lives = False

    async def stop(self, grace_ms: float) -> bool:
        """Kill it: it acts no more."""
        if not self.answer.done():
            self.dead.add(self.answer)
            self.answer = asyncio.get_running_loop().create_future()
            self.answer.cancel()
        return False
