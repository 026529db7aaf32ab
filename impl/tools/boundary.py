"""The boundary: reads a call, submits it, has it carried out, and says once what it came to."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from typing import Any, Protocol

from impl.approvals import digest_of
from impl.attempts import AttemptRunner
from impl.protocol import Answer, Json, Site, StoppedError
from impl.runner import Draws, Ending, OperationRunner, Policy, Standing
from impl.runner.leasing import BUSY_TRIES
from impl.runner.needs import AnySink, Ledger
from impl.tools.calls import CallRefusedError, ToolCall, read, read_id, text_of
from impl.tools.results import Code, Problem, Status, ToolResult
from impl.tools.sink import Note, ToolSink, remedy_of
from impl.tools.tool import Tool, by_name
from model.words import Kind, State

_STATUS_OF_KIND = {
    Kind.OK: Status.DONE,
    Kind.REPLAYED: Status.REPLAYED,
    Kind.ERROR: Status.FAILED,
    Kind.UNKNOWN: Status.UNKNOWN,
}
_STATUS_OF_STATE = {State.CANCELLED: Status.CANCELLED, State.EXPIRED: Status.EXPIRED, State.DENIED: Status.REFUSED}
_AGAIN = "call again with the same id"
_NEW_ID = "if it is still wanted, call with a new id"


class BudgetError(ValueError):
    """A budget under which nothing could ever be done, or something for ever."""


class BadScopeError(ValueError):
    """A scope from which no unambiguous keys can be made."""


class Dispatcher(Protocol):
    """What the boundary needs of a dispatcher."""

    site: Site

    @property
    def ledger(self) -> Ledger:
        """Where everything is kept that must outlive the process."""

    def submit(self, key: str, payload: Json, deadline_ms: int | None = None) -> Answer:
        """Store an intent durably."""

    def runner(
        self, sink: AnySink, policy: Policy | None = None, *, draws: Draws, attempts: AttemptRunner | None = None
    ) -> OperationRunner:
        """A runner that sends to ``sink``."""


class ToolBoundary:
    """Turns each call into exactly one result. Calls may run side by side, in one event loop.

    ``scope`` names a run of the harness: the operation key is ``scope/id`` and nothing else, so that a retry, by
    whichever process, is the same operation. Raises ToolError, BudgetError, BadScopeError, and what a runner raises.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        tools: Iterable[Tool],
        policy: Policy | None = None,
        *,
        draws: Draws,
        scope: str,
        attempts: AttemptRunner | None = None,
    ) -> None:
        _check_budgets(dispatcher.site)
        self.scope = _checked_scope(scope)
        self.tools = by_name(tools)
        self.dispatcher = dispatcher
        self._sink = ToolSink(self.tools)
        self._runner = dispatcher.runner(self._sink, policy, draws=draws, attempts=attempts)
        self._under_way: dict[str, asyncio.Future[None]] = {}

    def key_of(self, call_id: str) -> str:
        """The operation key of a call."""
        return f"{self.scope}/{call_id}"

    # -- a call -----------------------------------------------------------------------------------------------

    async def call(self, raw: Any) -> ToolResult:
        """Carry out what a model produced: ``{"id", "name", "arguments"}``, and ``deadline_ms`` if there is one.

        A malformed call is refused before anything is stored. Without a valid approval it is refused with zero effects,
        and may be made again once there is one. The same id with the same arguments is the same operation; its first
        answer is replayed. If the task is cancelled there is no result: the operation lives on, and is taken up by the
        next call with its id. A KeyboardInterrupt, or the like, of a tool passes through after the ledger has recorded
        that the outcome is unknown.
        """
        try:
            call = read(raw, self.tools)
            await self._submit(call)
        except CallRefusedError as refused:
            return ToolResult(text_of(raw, "id"), text_of(raw, "name"), Status.REFUSED, error=refused.problem)
        key = self.key_of(call.id)
        while key in self._under_way:
            await asyncio.wait({self._under_way[key]})
        self._under_way[key] = under_way = asyncio.get_running_loop().create_future()
        try:
            return await self._carried_out(key, call)
        finally:
            del self._under_way[key]
            under_way.set_result(None)

    async def _submit(self, call: ToolCall) -> None:
        """Store the intent. Raises CallRefusedError, and then nothing has been sent."""
        key, now_ms = self.key_of(call.id), self.dispatcher.site.clock.now_ms()
        try:
            is_late = call.deadline_ms is not None and call.deadline_ms <= now_ms
            if is_late and not isinstance(self.dispatcher.ledger.standing(key), Standing):
                message = f"deadline_ms is {call.deadline_ms}, and it is {now_ms} already"
                raise CallRefusedError(Problem(Code.BAD_DEADLINE, message, "give a later one", "/deadline_ms"))
            answer = await self._stored(key, call)
        except StoppedError as error:
            raise CallRefusedError(Problem(Code.LEDGER, str(error), _AGAIN)) from error
        if answer.kind in {Kind.OK, Kind.REPLAYED}:
            return
        if answer.reason == "another payload holds the key":
            message = f"id {call.id!r} stands for a call with another name or other arguments"
            raise CallRefusedError(Problem(Code.CHANGED_CALL, message, "give a new call an id of its own", "/id"))
        raise CallRefusedError(Problem(Code.LEDGER, f"the ledger says: {answer.reason}; nothing was sent", _AGAIN))

    async def _stored(self, key: str, call: ToolCall) -> Answer:
        """What the ledger answers, asked again for a while if another process holds its lock."""
        for tried in range(1, BUSY_TRIES + 1):
            answer = self.dispatcher.submit(key, call.payload, call.deadline_ms)
            if answer.reason != "busy":
                break
            await asyncio.sleep(self._runner.policy.wait_ms(tried, self._runner.draws) / 1000)
        return answer

    async def _carried_out(self, key: str, call: ToolCall) -> ToolResult:
        with self._sink.noting(key) as note:
            try:
                ending = await self._runner.run(key, resends=call.tool.lookup is not None)
            except StoppedError as error:
                note.problem = Problem(Code.LEDGER, str(error), _AGAIN)
                ending = Ending(Kind.UNKNOWN)
            finally:
                if note.fatal is not None:
                    raise note.fatal
        return self._told(call.id, call.tool, key, digest_of(call.payload), ending, note)

    async def cancel(self, call_id: Any) -> ToolResult:
        """Cancel a call for good, and say what it came to: either no effect starts any more, or there was one.

        This answers whoever cancels. The call has its own result, which goes to whoever made it.
        """
        try:
            key = self.key_of(read_id(call_id))
        except CallRefusedError as refused:
            return ToolResult(None, None, Status.REFUSED, error=refused.problem)
        note = Note()
        try:
            ending = await self._runner.cancel(key)
        except StoppedError as error:
            note.problem = Problem(Code.LEDGER, str(error), "cancel again")
            ending = Ending(Kind.UNKNOWN)
        return self._told(call_id, None, key, "", ending, note)

    # -- what it came to --------------------------------------------------------------------------------------

    def _told(self, call_id: str, tool: Tool | None, key: str, digest: str, ending: Ending, note: Note) -> ToolResult:
        status = _STATUS_OF_KIND.get(ending.kind, Status.REFUSED)
        if status is Status.FAILED and ending.state is not None:
            status = _STATUS_OF_STATE.get(ending.state, status)
        attempts = self._counted(key, ending)
        problem = None if ending.receipt else _problem(status, ending, note, key, attempts)
        if problem is not None and status is Status.UNKNOWN and tool is not None and note.problem is None:
            problem = Problem(problem.code, problem.message, remedy_of(tool))
        name = None if tool is None else tool.name
        return ToolResult(call_id, name, status, key, digest, ending.receipt, attempts, problem)

    def _counted(self, key: str, ending: Ending) -> int:
        try:
            standing = self.dispatcher.ledger.standing(key)
        except StoppedError:
            return ending.sent
        return standing.attempts if isinstance(standing, Standing) else ending.sent


def _problem(status: Status, ending: Ending, note: Note, key: str, attempts: int) -> Problem:
    """The one error of a call without an answer."""
    said = note.problem
    last = ending.reason if said is None else said.message
    match status:
        case Status.CANCELLED:
            return Problem(Code.CANCELLED, "the call was cancelled before it had an effect", _NEW_ID)
        case Status.EXPIRED:
            return Problem(Code.EXPIRED, "the deadline passed before there was an effect", _NEW_ID)
        case Status.FAILED if said is not None and said.code is Code.TOOL_REFUSED:
            return said
        case Status.FAILED if ending.sent:
            message = f"{attempts} attempts were made, and there is no effect: {last}"
            return Problem(Code.ATTEMPTS_SPENT, message, _NEW_ID)
        case Status.FAILED:
            return Problem(Code.ENDED, "the call has failed for good", _NEW_ID)
        case Status.UNKNOWN:
            reason = ending.reason or "no answer came"
            code = Code.LEDGER if ending.state is None else Code.NO_ANSWER
            return said or Problem(code, f"it is not known what became of the call: {reason}", _AGAIN)
        case _ if said is not None:
            return Problem(said.code, f"there is no effect yet: {last}", _AGAIN)
        case _:
            return _refusal(ending, key)


def _refusal(ending: Ending, key: str) -> Problem:
    reason = ending.reason
    if ending.state is None and reason != "busy":
        return Problem(Code.UNKNOWN_CALL, f"there is no operation {key!r}", "cancel a call that was made")
    if ending.state is State.DENIED:
        return Problem(Code.DENIED, "the call was denied", "do not repeat it")
    if reason == "not approved" or reason.startswith("approval "):
        remedy = f"have {key!r} approved with the digest of this result, and {_AGAIN}"
        message = reason if reason == "not approved" else f"not approved: {reason}"
        return Problem(Code.NOT_APPROVED, message, remedy)
    code = Code.LEDGER if reason == "busy" else Code.HELD
    return Problem(code, f"nothing can be sent now: {reason}", f"{_AGAIN} a little later")


# -- what a boundary is built with ----------------------------------------------------------------------------


def _check_budgets(site: Site) -> None:
    budgets = {
        "limits.max_attempts": site.limits.max_attempts,
        "limits.deadline_ms": site.limits.deadline_ms,
        "lease_ms": site.lease_ms,
    }
    for name, value in budgets.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (whole and math.isfinite(value) and value > 0):
            raise BudgetError(f"{name} is {value!r}, not a positive, whole number; give one above 0")


def _checked_scope(scope: Any) -> str:
    if not (isinstance(scope, str) and scope and scope.isprintable() and "/" not in scope):
        raise BadScopeError(
            f"scope {scope!r} is not a text without '/': keys of two scopes could be the same; name the harness's run"
        )
    return scope
