"""The tools as the runner sees them: one sink that hands each request to the tool that its payload names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import contextmanager
from typing import Any, cast

import rfc8785
from attrs import define

from impl.protocol import Json, NoAnswerError, Request, SinkAnswer, Verdict
from impl.tools.results import Code, Problem
from impl.tools.tool import Found, StaleTokenError, Tool, ToolBusyError, ToolRefusedError, ToolRequest

NO_SINK_ANSWER = None
"""What the runner takes for an answer that nobody understands: the outcome is open, and nothing is sent again."""

_ASK_AGAIN = "call again with the same id, and the tool is asked what became of it; never use another id"
_ASK_ABROAD = "find out at the tool itself what became of it before doing anything; never use another id"


@define
class Note:
    """What a tool said in one run of a key that no answer of a sink can carry."""

    problem: Problem | None = None
    fatal: BaseException | None = None
    """What is to pass through the boundary once the ledger has the outcome."""


class ToolSink:
    """Hands requests to tools, and puts what they answer or raise in the words of a sink."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        self._notes: dict[str, Note] = {}

    @contextmanager
    def noting(self, key: str) -> Any:
        """A note of what a tool says while a key is run."""
        self._notes[key] = note = Note()
        try:
            yield note
        finally:
            del self._notes[key]

    async def apply(self, request: Request) -> Any:
        """Have the tool act once. Raises whatever leaves open whether it did."""
        tool = self._tool(request.payload)
        note = self._notes.get(request.key) or Note()
        note.problem = None
        asked = ToolRequest(request.key, _arguments(request.payload), request.token, request.not_after_ms)
        try:
            value = await self._guarded(request.key, tool.effect(asked))
        except ToolRefusedError as error:
            note.problem = Problem(Code.TOOL_REFUSED, _said(tool, error), "mend the call, and give it a new id")
            return SinkAnswer(Verdict.PERMANENT)
        except ToolBusyError as error:
            note.problem = Problem(Code.TOOL_BUSY, _said(tool, error), "call again later")
            return SinkAnswer(Verdict.TRANSIENT, retry_after_ms=error.retry_after_ms)
        except StaleTokenError:
            return SinkAnswer(Verdict.STALE)
        except (ConnectionError, TimeoutError) as error:
            note.problem = Problem(Code.NO_ANSWER, _said(tool, error), remedy_of(tool))
            raise
        except Exception as error:
            note.problem = Problem(Code.TOOL_RAISED, _said(tool, error), remedy_of(tool))
            raise
        if note.fatal is not None:
            return NO_SINK_ANSWER
        try:
            return SinkAnswer(Verdict.DONE, _receipt(value))
        except (ValueError, RecursionError) as error:
            found = f"a value of type {type(value).__name__}, which is not JSON: {error}"
            what = f"the tool {tool.name} acted and answered with {found}"
            note.problem = Problem(Code.BAD_ANSWER, what, remedy_of(tool))
            return NO_SINK_ANSWER

    async def lookup(self, key: str, payload: Json, token: int) -> SinkAnswer:
        """Ask the tool what became of a key. Raises NoAnswerError where it cannot be asked, or is not understood."""
        tool = self._tool(payload)
        note = self._notes.get(key) or Note()
        if tool.lookup is None or note.fatal is not None:
            raise NoAnswerError(f"the tool {tool.name} cannot be asked what became of a call")
        try:
            found = await self._guarded(key, tool.lookup(ToolRequest(key, _arguments(payload), token)))
        except StaleTokenError:
            return SinkAnswer(Verdict.STALE)
        if note.fatal is not None:
            raise NoAnswerError("the lookup broke off")
        if found is None:
            return SinkAnswer(Verdict.ABSENT)
        if not isinstance(found, Found):
            raise NoAnswerError(f"the lookup of {tool.name} answered a {type(found).__name__}, not Found or None")
        return SinkAnswer(Verdict.DONE, _receipt(found.value))

    async def _guarded(self, key: str, work: Awaitable[Any]) -> Any:
        """What a tool returns. What would end the whole program is kept until the ledger has the outcome."""
        try:
            return await work
        except (Exception, asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:
            note = self._notes.get(key)
            if note is None:  # nobody waits for this any more
                raise
            note.fatal = error
            return None

    def _tool(self, payload: Json) -> Tool:
        return self._tools[cast("dict[str, Any]", payload)["tool"]]


def remedy_of(tool: Tool) -> str:
    """What to do about a call of which nobody knows what became of it."""
    return _ASK_ABROAD if tool.lookup is None else _ASK_AGAIN


def _arguments(payload: Json) -> dict[str, Json]:
    return cast("dict[str, dict[str, Json]]", payload)["arguments"]


def _said(tool: Tool, error: BaseException) -> str:
    return f"the tool {tool.name} raised {type(error).__name__}: {error}"


def _receipt(value: Any) -> str:
    """An answer as text that the ledger can keep. Raises ValueError for what is not JSON."""
    return rfc8785.dumps(value).decode()
