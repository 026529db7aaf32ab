"""Traces of a foreign system: version 6 of the format, an order and the claim that it breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import frozen

from model.claims import CLAIMS
from stateful.foreign.order import Order, OrderError, Step, step_from_json

FORMAT = "survives-trace"
VERSION = 6
FIELDS = ("format", "version", "adapter", "system", "system_version", "claim", "name", "steps", "expect")
EXPECTED = ("violated", "holds")


class ForeignTraceError(ValueError):
    """A trace of a foreign system cannot be read: the message says where, why, and what to do."""


@frozen
class ForeignTrace:
    """An order, on which adapter, and what is to come of which claim.

    ``adapter`` is how the adapter was named: a file, or the words of a command.
    """

    adapter: tuple[str, ...]
    system: str
    system_version: str
    claim: str
    order: Order
    expect: str = "violated"

    def to_json(self) -> dict[str, Any]:
        """The trace as a JSON document."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "adapter": list(self.adapter),
            "system": self.system,
            "system_version": self.system_version,
            "claim": self.claim,
            "name": self.order.name,
            "steps": [step.to_json() for step in self.order.steps],
            "expect": self.expect,
        }

    def write(self, path: Path) -> None:
        """Write the trace, one step a line."""
        document = self.to_json()
        steps = ",\n    ".join(json.dumps(step) for step in document.pop("steps"))
        head = json.dumps(document, indent=2).removesuffix("\n}")
        path.write_text(f'{head},\n  "steps": [\n    {steps}\n  ]\n}}\n', "utf-8")


def is_foreign(path: Path) -> bool:
    """Whether a file is a trace of this kind, as far as can be seen at a glance."""
    try:
        document = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("format") == FORMAT and document.get("version") == VERSION


def read_foreign(path: Path) -> ForeignTrace:
    """The trace in a file. Raises ForeignTraceError."""
    document = json.loads(path.read_text("utf-8-sig"))
    try:
        return _from_json(document)
    except (OrderError, ForeignTraceError) as error:
        raise ForeignTraceError(f"trace {path}: {error}") from error


def _from_json(document: dict[str, Any]) -> ForeignTrace:
    strangers = [name for name in document if name not in FIELDS]
    if strangers:
        raise ForeignTraceError(f"there is no field {strangers[0]!r}; the fields are {', '.join(FIELDS)}")
    adapter, raw = document.get("adapter"), document.get("steps")
    if not isinstance(adapter, list) or not adapter or not all(isinstance(w, str) and w for w in adapter):
        raise ForeignTraceError(f'"adapter" is {adapter!r}; it is a list of words, a file or a command')
    if not isinstance(raw, list) or not raw:
        raise ForeignTraceError('"steps" is missing, empty or no list; the file is torn')
    claim, expect = document.get("claim"), document.get("expect", "violated")
    if not isinstance(claim, str) or claim not in CLAIMS:
        raise ForeignTraceError(f'"claim" is {claim!r}; it is one of {", ".join(CLAIMS)}')
    if expect not in EXPECTED:
        raise ForeignTraceError(f'"expect" is {expect!r}; it is one of {", ".join(EXPECTED)}')
    steps: tuple[Step, ...] = tuple(step_from_json(one, f"step {n}") for n, one in enumerate(raw, start=1))
    system, version, name = (_text(document, field) for field in ("system", "system_version", "name"))
    return ForeignTrace(tuple(adapter), system, version, claim, Order(name, steps), expect)


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name, "")
    if not isinstance(value, str):
        raise ForeignTraceError(f'"{name}" is {value!r}; it is a text')
    return value
