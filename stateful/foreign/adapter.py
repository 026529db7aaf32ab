"""An adapter: how it is started, and what it says of its system at the first request."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from model.claims import Ability, Claimed, ClaimError, all_claimed
from stateful.foreign.channel import SECONDS, AdapterError, Channel
from stateful.spoken import clean, shown

VERSION = 1
LEASE_MAX_MS = 60_000
"""A lease that no clock can end is waited for in real time."""
KIT = Path(__file__).parents[2] / "impl" / "adapters" / "kit"
"""The helper's folder, put on the path of each adapter."""


@frozen
class Hello:
    """What an adapter says of its system."""

    system: str
    system_version: str
    style: str
    abilities: frozenset[Ability]
    claims: tuple[Claimed, ...]
    lease_ms: int = 0
    notes: str = ""
    capabilities: frozenset[str] = frozenset()
    """Of a system that is driven step by step: the dispatcher's capabilities."""

    def claimed(self, claim_id: str) -> Claimed | None:
        """The claim, if it is made."""
        return next((c for c in self.claims if c.id == claim_id), None)


@define
class Adapter:
    """A command that speaks the protocol. ``name`` is what a user called it by."""

    name: str
    command: tuple[str, ...]
    cwd: Path = field(factory=Path.cwd)
    patience: float = SECONDS
    settings: dict[str, Any] = field(factory=dict)
    _hello: Hello | None = None

    @property
    def hello(self) -> Hello:
        """What it says of itself. Raises AdapterError."""
        if self._hello is None:
            raise AdapterError(f"{self.name} has not been asked yet")
        return self._hello

    def environment(self) -> dict[str, str]:
        """The child's environment: the helper on its path, and nothing of this interpreter's own."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_", "HYPOTHESIS"))}
        path = [str(KIT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **inherited,
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "" if os.access(KIT, os.W_OK) else "1",
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, more: Mapping[str, str] | None = None) -> Channel:
        """A process of it, not yet asked anything; ``more`` is what its environment has besides."""
        env = {**self.environment(), **(more or {})}
        return Channel(self.command, cwd=self.cwd, env=env, seconds=self.patience)

    def open(self, folder: Path, worker: str, more: Mapping[str, str] | None = None) -> tuple[Channel, Hello]:
        """A process of it on a folder. Raises AdapterError, and then leaves no process."""
        channel = self.start(more)
        try:
            channel.send(
                {
                    "id": 0,
                    "do": "hello",
                    "version": VERSION,
                    "folder": str(folder),
                    "worker": worker,
                    "settings": self.settings,
                }
            )
            return channel, _hello(channel.receive())
        except BaseException:
            channel.close()
            raise

    def ask(self, scratch: Path) -> Hello:
        """Start it once and remember what it says of itself."""
        folder = scratch / "hello"
        folder.mkdir(parents=True, exist_ok=True)
        channel, self._hello = self.open(folder, "w1")
        channel.close()
        return self._hello


def _hello(answer: dict[str, Any]) -> Hello:
    line = answer["line"]
    if "error" in answer:
        raise AdapterError(f"line {line}: it cannot be opened: {shown(answer['error'])}")
    if answer.get("id") != 0:
        raise AdapterError(f"line {line} is about request {shown(answer.get('id'))}, and request 0 was asked (hello)")
    if answer.get("version") != VERSION:
        raise AdapterError(
            f"line {line}: it speaks version {shown(answer.get('version'))} of the protocol, and this survives speaks "
            f'version {VERSION}; answer hello with "version": {VERSION}'
        )
    try:
        return Hello(
            system=_text(answer, "system"),
            system_version=_text(answer, "system_version", ""),
            style=_one_of(answer, "style", ("call", "step")),
            abilities=_abilities(answer),
            claims=all_claimed(map(_cleaned, _list(answer, "claims"))),
            lease_ms=_lease_ms(answer),
            notes=_text(answer, "notes", ""),
            capabilities=frozenset(map(str, _list(answer, "capabilities"))),
        )
    except (ClaimError, TypeError, ValueError) as error:
        raise AdapterError(f"line {line}: hello is answered with something that is no answer: {error}") from error


def _text(answer: dict[str, Any], name: str, default: str | None = None) -> str:
    value = answer.get(name, default)
    if not isinstance(value, str):
        raise TypeError(f'"{name}" is {shown(value)}, not a string')
    return clean(value)


def _one_of(answer: dict[str, Any], name: str, values: tuple[str, ...]) -> str:
    value = answer.get(name, values[0])
    if value not in values:
        raise ValueError(f'"{name}" is {shown(value)}; it is one of {", ".join(values)}')
    return str(value)


def _list(answer: dict[str, Any], name: str) -> list[Any]:
    value = answer.get(name, [])
    if not isinstance(value, list):
        raise TypeError(f'"{name}" is {shown(value)}, not a list')
    return value


def _cleaned(claim: object) -> object:
    """A claim in words that can be printed."""
    if not isinstance(claim, dict):
        return claim
    return {name: clean(value) if isinstance(value, str) else value for name, value in claim.items()}


def _lease_ms(answer: dict[str, Any]) -> int:
    value = answer.get("lease_ms", 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f'"lease_ms" is {shown(value)}; it is a number, 0 or more')
    abilities = _list(answer, "abilities")
    if Ability.LEASE in abilities and not value:
        raise ValueError('it has the ability "lease" and no "lease_ms"; say how long its shortest lease is')
    if Ability.ADVANCE not in abilities and value > LEASE_MAX_MS:
        raise ValueError(
            f'"lease_ms" is {value}; it is waited for in real time: set the lease to {LEASE_MAX_MS} at most'
        )
    return value


def _abilities(answer: dict[str, Any]) -> frozenset[Ability]:
    raw = _list(answer, "abilities")
    unknown = [a for a in raw if a not in list(Ability)]
    if unknown:
        raise ValueError(f"there is no ability {shown(unknown[0])}; the abilities are {', '.join(Ability)}")
    own = frozenset(Ability(a) for a in raw)
    return own | {Ability.LEASE} if answer.get("lease_ms") else own


def python_adapter(path: Path, python: Path | None = None) -> Adapter:
    """An adapter that is a Python file, run by ``python`` (default: this interpreter)."""
    return Adapter(str(path), (str(python or sys.executable), str(path.resolve())))
