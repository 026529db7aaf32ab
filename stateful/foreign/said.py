"""What a worker says where it is held, checked: the key and the payload of an effect, the text of a statement."""

from __future__ import annotations

from typing import Any

from stateful.foreign.channel import AdapterError
from stateful.foreign.facts import PAYLOADS
from stateful.spoken import shown

KEYS = {f"k{n}": n for n in range(1, 10)}
"""What a key is called."""


def key_of(message: dict[str, Any]) -> int:
    """The number of the key that an effect is for. Raises AdapterError."""
    key = message.get("key")
    if not isinstance(key, str) or key not in KEYS:
        raise AdapterError(f"line {message['line']}: the effect's key is {shown(key)}; hand in the key of the call")
    return KEYS[key]


def statement_of(message: dict[str, Any]) -> tuple[str, int]:
    """A statement's text, and which one with this text it is."""
    sql, nth = message.get("sql", ""), message.get("nth", 0)
    if not isinstance(sql, str) or not isinstance(nth, int):
        raise AdapterError(
            f'line {message["line"]}: it is held at a statement with "sql" {shown(sql)} and "nth" {shown(nth)}; '
            "they are its text and which one with this text it is"
        )
    return sql, nth


def payload_of(message: dict[str, Any]) -> str:
    """The name of the payload that an effect comes with; ``another`` if it is none of ours."""
    payload = message.get("payload")
    return next((name for name, value in PAYLOADS.items() if value == payload), "another")
