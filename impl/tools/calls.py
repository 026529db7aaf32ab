"""How a call is read: whatever a model produced becomes a ``ToolCall``, or one problem before anything is stored."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, NoReturn

import rfc8785
from attrs import frozen
from jsonschema.exceptions import ValidationError, best_match
from referencing.exceptions import Unresolvable

from impl.protocol import Json
from impl.tools.results import Code, Problem
from impl.tools.tool import Tool

FIELDS = ("id", "name", "arguments", "deadline_ms")
ID_MAX = 200
DEPTH_MAX = 64
"""How deep arguments may nest: far below where Python or SQLite would give up, and far above what a tool asks for."""
DEADLINE_MAX_MS = 2**53 - 1
_SHOWN_MAX = 300


class CallRefusedError(Exception):
    """A call that is not carried out, with its one problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@frozen
class ToolCall:
    """A call that can be carried out: its arguments are canonical, and fit the tool's schema."""

    id: str
    tool: Tool
    arguments: dict[str, Json]
    deadline_ms: int | None = None

    @property
    def payload(self) -> Json:
        """What the ledger stores, and an approver signs for."""
        return {"tool": self.tool.name, "arguments": self.arguments}


def read(raw: Any, tools: Mapping[str, Tool]) -> ToolCall:
    """The call that a model meant. Raises CallRefusedError with the first problem that it has."""
    if not isinstance(raw, dict):
        _refuse(Code.NOT_A_CALL, f"a call is an object, not {_kind(raw)}", "give one with id, name and arguments")
    call_id = read_id(raw.get("id"))
    for name in raw:
        if name not in FIELDS:
            message = f"a call has no field {_shown(name)}{_meant(name, FIELDS)}"
            _refuse(Code.UNKNOWN_FIELD, message, f"use {', '.join(FIELDS)} only", _pointer("", name))
    tool = _tool(raw.get("name"), tools)
    deadline_ms = _deadline(raw.get("deadline_ms"))
    arguments = _canonical(_object(raw))
    _check(tool, arguments)
    return ToolCall(call_id, tool, arguments, deadline_ms)


def text_of(raw: Any, name: str) -> str | None:
    """A field of a call that may be none, where it is text that can be shown."""
    value = raw.get(name) if isinstance(raw, dict) else None
    return value if isinstance(value, str) and _is_text(value) else None


def read_id(value: Any) -> str:
    """A call's id. Raises CallRefusedError."""
    remedy = (
        f"give each call an id of its own, a text of 1 to {ID_MAX} characters, and the same one when it is retried"
    )
    if not isinstance(value, str):
        _refuse(Code.BAD_ID, f"id is {_kind(value)}, not a text", remedy, "/id")
    if not value or len(value) > ID_MAX:
        _refuse(Code.BAD_ID, f"id has {len(value)} characters", remedy, "/id")
    if not _is_text(value):
        _refuse(Code.BAD_ID, f"id {value!r} has characters that cannot be stored or shown", remedy, "/id")
    return value


# -- the parts of a call --------------------------------------------------------------------------------------


def _tool(name: Any, tools: Mapping[str, Tool]) -> Tool:
    tool = tools.get(name) if isinstance(name, str) else None
    if tool is None:
        remedy = f"call one of {', '.join(sorted(tools))}" if tools else "no tool is offered; call none"
        message = f"there is no tool {_shown(name)}{_meant(name, tools)}"
        _refuse(Code.UNKNOWN_TOOL, message, remedy, "/name")
    return tool


def _deadline(value: Any) -> int | None:
    if value is None:
        return None
    remedy = f"give an instant on the shared clock, no later than {DEADLINE_MAX_MS}, or leave it out"
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        message = f"deadline_ms is {_shown(value)}, not a positive, whole number of milliseconds"
        _refuse(Code.BAD_DEADLINE, message, remedy, "/deadline_ms")
    if value > DEADLINE_MAX_MS:
        message = (
            f"deadline_ms is {_shown(value)}, later than {DEADLINE_MAX_MS}: beyond it numbers in JSON are not exact"
        )
        _refuse(Code.BAD_DEADLINE, message, remedy, "/deadline_ms")
    return value


def _object(raw: dict[str, Any]) -> dict[str, Any]:
    remedy = "give an object, {} where there are no arguments"
    arguments = raw.get("arguments")
    if isinstance(arguments, str):
        arguments = _parsed(arguments)
    if not isinstance(arguments, dict):
        found = _kind(arguments) if "arguments" in raw else "missing"
        _refuse(Code.BAD_ARGUMENTS, f"arguments are {found}, not an object", remedy, "/arguments")
    return arguments


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        _refuse(Code.BAD_ARGUMENTS, f"arguments are not JSON: {reason}", "send valid JSON (RFC 8259)", "/arguments")


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in pairs:
        if name in out:
            raise ValueError(f"the name {_shown(name)} is there twice in one object")
        out[name] = value
    return out


def _canonical(arguments: dict[str, Any]) -> dict[str, Json]:
    """A copy of the arguments as their canonical JSON reads, so that what is checked is what is stored and sent."""
    path = "/arguments"
    try:
        normal: dict[str, Json] = json.loads(rfc8785.dumps(arguments))
        # A float such as 1e20 reads back as a whole number that has no canonical form of its own.
        rfc8785.dumps(normal)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        remedy = "use text, booleans, null, lists, objects, and numbers that a double holds exactly"
        _refuse(Code.BAD_ARGUMENTS, f"arguments have no canonical JSON: {_cut(reason)}", remedy, path)
    if _is_deeper(normal, DEPTH_MAX):
        _refuse(Code.BAD_ARGUMENTS, f"arguments are nested deeper than {DEPTH_MAX}", "make them flatter", path)
    return normal


def _is_deeper(value: Json, depth: int) -> bool:
    level: list[Json] = [value]
    for _ in range(depth):
        level = [part for one in level for part in _parts(one)]
    return bool(level)


def _parts(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _check(tool: Tool, arguments: dict[str, Json]) -> None:
    """Hold the arguments against the schema; of all that is wrong the most telling is told."""
    try:
        error = best_match(tool.validator.iter_errors(arguments))
    except (Unresolvable, RecursionError) as broken:
        reason = "it refers to itself without end" if isinstance(broken, RecursionError) else str(broken)
        remedy = "whoever offers the tool must mend its schema"
        _refuse(Code.AGAINST_SCHEMA, f"the schema of {tool.name} cannot be used: {reason}", remedy, "/arguments")
    if error is not None:
        path = _pointer("/arguments", *error.absolute_path)
        _refuse(Code.AGAINST_SCHEMA, _cut(error.message), _asked_for(error), path)


def _asked_for(error: ValidationError) -> str:
    if not isinstance(error.schema, dict) or error.validator not in error.schema:
        return "leave it out: the schema allows nothing here"
    return f"the schema asks for {_cut(json.dumps({error.validator: error.schema[error.validator]}))} here"


# -- words ----------------------------------------------------------------------------------------------------


def _refuse(code: Code, message: str, remedy: str, path: str = "") -> NoReturn:
    raise CallRefusedError(Problem(code, message, remedy, path))


def _is_text(value: str) -> bool:
    return value.isprintable()


def _cut(text: str) -> str:
    safe = text.encode("utf-8", "backslashreplace").decode()
    return safe if len(safe) <= _SHOWN_MAX else f"{safe[:_SHOWN_MAX]}..."


def _shown(value: Any) -> str:
    try:
        return _cut(repr(value))
    except Exception:  # noqa: BLE001 - what somebody's object shows is not ours to fail on
        return _kind(value)


def _kind(value: Any) -> str:
    return "missing" if value is None else f"of type {type(value).__name__}"


def _meant(name: Any, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=3) if isinstance(name, str) else []
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def _pointer(base: str, *parts: Any) -> str:
    """A JSON pointer, RFC 6901."""
    return base + "".join(f"/{_cut(str(part)).replace('~', '~0').replace('/', '~1')}" for part in parts)
