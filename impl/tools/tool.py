"""A tool: a name, a schema of its arguments, and an async effect that acts once under an operation key."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import Attribute, field, frozen
from jsonschema.exceptions import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import SchemaRegistry, specification_with

from impl.protocol import Json

LATEST = "https://json-schema.org/draft/2020-12/schema"
ADVICE_MAX_MS = 366 * 24 * 3_600_000
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class ToolError(ValueError):
    """A tool that cannot be offered. The message says what is wrong with it, why, and what would be right."""


class BadToolNameError(ToolError):
    """A name that is no name."""


class NameTakenError(ToolError):
    """Two tools have one name."""


class NotAToolError(ToolError):
    """Something else was given where a tool belongs."""


class BadToolSchemaError(ToolError):
    """A schema that is none, or that no arguments can meet."""


class NotAsyncError(ToolError):
    """An effect or a lookup that is no coroutine function, and so could not be interrupted."""


class ToolRefusedError(Exception):
    """Raised by a tool: it has not acted and never will, as a 400 says. It is not tried again."""


class ToolBusyError(Exception):
    """Raised by a tool: it has not acted and may later, as a 429 or a 503 says. It is tried again, no sooner than asked.

    A ``retry_after_ms`` that is no number, below 0 or beyond a year is no advice.
    """

    def __init__(self, message: str = "busy", retry_after_ms: float | None = None) -> None:
        super().__init__(message)
        is_advice = isinstance(retry_after_ms, int | float) and 0 <= retry_after_ms <= ADVICE_MAX_MS
        self.retry_after_ms = math.ceil(retry_after_ms or 0) if is_advice else None


class StaleTokenError(Exception):
    """Raised by a tool: it has seen a newer token of this key, and has not acted."""


@frozen
class ToolRequest:
    """What a tool is given: whose effect, what, by which right, and until when it may start (None: no limit).

    A lookup is given the same, with a token that the tool is to remember: older ones are out of date from then on.
    """

    key: str
    arguments: dict[str, Json]
    token: int
    not_after_ms: int | None = None


@frozen
class Found:
    """A lookup's answer: there is an effect under the key, and this is what it answered."""

    value: Json


Effect = Callable[[ToolRequest], Awaitable[Any]]
Lookup = Callable[[ToolRequest], Awaitable[Found | None]]


def _named(tool: Tool, attribute: Attribute[Any], name: Any) -> None:
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise BadToolNameError(
            f"tool name {name!r} is not 1 to 64 letters, digits, '_', '-' or '.': a model could not call it; rename it"
        )


def _is_async(tool: Tool, attribute: Attribute[Any], call: Any) -> None:
    if not (inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(type(call), "__call__", None))):  # noqa: B004
        raise NotAsyncError(
            f"the {attribute.name} of tool {tool.name!r} is {call!r}, which is no coroutine function: no attempt could "
            "be interrupted; make it an `async def`"
        )


def _is_async_or_none(tool: Tool, attribute: Attribute[Any], call: Any) -> None:
    if call is not None:
        _is_async(tool, attribute, call)


@frozen(eq=False)
class Tool:
    """What can be called. Raises a ToolError where it could not be.

    ``effect`` acts and returns a JSON value, small, for the ledger keeps it as the receipt. It raises ToolRefusedError,
    ToolBusyError or StaleTokenError only where it has not acted; a ConnectionError or a TimeoutError is silence, and
    after any other exception nobody knows what it did. It may be interrupted at each of its awaits.

    A tool with a ``lookup`` keeps the contract of a sink: it binds a key to one effect, acts no second time under it,
    and tells by ``lookup`` what became of it: Found, or None where there is no effect. It is sent to again when it was
    silent. A tool without one is never sent to again while it is open what became of an earlier attempt.
    """

    name: str = field(validator=_named)
    schema: Mapping[str, Any] = field(repr=False)
    """JSON Schema of the arguments, 2020-12 unless it says otherwise. Copied, and compiled once."""
    effect: Effect = field(repr=False, validator=_is_async)
    lookup: Lookup | None = field(default=None, repr=False, validator=_is_async_or_none)
    validator: Validator = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "validator", _compiled(self.name, self.schema))


def by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """The tools by their names. Raises NotAToolError and NameTakenError."""
    if not isinstance(tools, Iterable):
        raise NotAToolError(
            f"tools is {tools!r}, which cannot be gone through: a boundary is given all that may be called; give "
            "a list, such as [Tool(...)]"
        )
    out: dict[str, Tool] = {}
    for number, tool in enumerate(tools):
        if not isinstance(tool, Tool):
            raise NotAToolError(
                f"tools[{number}] is {tool!r}, not a Tool: without name, schema and effect nothing can be called; "
                "make it Tool(name, schema, effect)"
            )
        if tool.name in out:
            raise NameTakenError(f"tool name {tool.name!r} is taken: a call could mean either; rename one of them")
        out[tool.name] = tool
    return out


def _compiled(name: str, schema: Any) -> Validator:
    """A validator that never fetches anything. Raises BadToolSchemaError."""

    def bad(reason: str) -> BadToolSchemaError:
        return BadToolSchemaError(f"the schema of tool {name!r} {reason}")

    if not isinstance(schema, dict):
        raise bad(f"is {schema!r}, not a dict; give a JSON Schema such as {{'type': 'object'}}")
    if schema.get("type", "object") != "object":
        raise bad(f"has type {schema['type']!r}, and arguments are always an object; make it 'object'")
    made: Any = validator_for({"$schema": LATEST} | schema, default=Validator)
    if made is Validator:
        raise bad(f"is written in {schema['$schema']!r}, which is not known; leave $schema out for draft 2020-12")
    try:
        own: dict[str, Any] = json.loads(json.dumps(schema, allow_nan=False))
        made.check_schema(own)
    except SchemaError as error:
        raise bad(f"is not valid at {error.json_path}: {error.message}; mend it there") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise bad(f"is not JSON: {error}; use what JSON has") from error
    registry: SchemaRegistry = Registry()
    resource = Resource.from_contents(own, default_specification=specification_with(made.META_SCHEMA["$schema"]))
    resolver = registry.resolver_with_root(resource)
    for reference in _references(own):
        try:
            resolver.lookup(reference)
        except Unresolvable as error:
            raise bad(
                f"refers to {reference!r}, which is not in it; put that under $defs, for nothing is fetched"
            ) from error
    compiled: Validator = made(own, registry=registry, format_checker=made.FORMAT_CHECKER)
    return compiled


def _references(schema: Any) -> Iterator[str]:
    """Every ``$ref`` of a schema."""
    if isinstance(schema, dict):
        for word, part in schema.items():
            if word == "$ref" and isinstance(part, str):
                yield part
            else:
                yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)
