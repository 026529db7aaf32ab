"""What a run meets: the sink's answers, what comes from outside and when, and the order of what is simultaneous."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from model.attempts import EventKind, Said
from stateful.spoken import shown

FIELD = "attempts"
ATTEMPTS_MAX = 5
_KINDS = tuple(k for k in EventKind if k is not EventKind.START)
AGAIN_MAX = 9
_NAMES = ("max_attempts", "answers", "events", "ties", "again")
_EVENT_NAMES = ("do", "at_ms", "turn", "until_ms")


class PlanError(ValueError):
    """A plan cannot be read: the message says which value, why, and what would be right."""


@frozen
class Planned:
    """An event before the ``turn``-th turn of an instant, or, if there is none, before the next one after it.

    Turns count from 1; 0 is before the first worker has begun.
    """

    kind: EventKind
    at_ms: int
    turn: int
    until_ms: int = 0
    """When a stall ends."""
    is_timeout: bool = field(default=False, eq=False)
    """Whether that is when the attempt's time is up."""

    def to_json(self) -> dict[str, Any]:
        """As it stands in a trace."""
        out: dict[str, Any] = {"do": str(self.kind), "at_ms": self.at_ms, "turn": self.turn}
        return out | ({"until_ms": self.until_ms} if self.kind is EventKind.STALL else {})


@frozen
class Plan:
    """What a run meets. A sink that is asked more often than there are ``answers`` acts and answers."""

    max_attempts: int
    answers: tuple[Said, ...] = ()
    events: tuple[Planned, ...] = ()
    ties: tuple[int, ...] = field(default=())
    """Of timers that are due at one instant, which comes next, each time; the first where nothing is said."""
    again: int = 0
    """How often the operation is run once more, whatever came of it: another layer that retries."""

    @property
    def length(self) -> int:
        """How many steps it takes to tell it."""
        return len(self.answers) + len(self.events) + sum(1 for tie in self.ties if tie) + self.again

    def to_json(self) -> dict[str, Any]:
        """As it stands in a trace."""
        return {
            "max_attempts": self.max_attempts,
            "answers": [str(said) for said in self.answers],
            "events": [event.to_json() for event in self.events],
            "ties": list(self.ties),
            "again": self.again,
        }


def plan_from_json(raw: Any) -> Plan:
    """A plan from a trace. Raises PlanError."""
    if not isinstance(raw, dict):
        raise PlanError(f'"{FIELD}" is {shown(raw)}, not an object with {", ".join(_NAMES)}')
    for name in raw:
        if name not in _NAMES:
            raise PlanError(f'"{FIELD}" has no field {name!r}; its fields are {", ".join(_NAMES)}')
    answers, events, ties = (_list(raw, name) for name in ("answers", "events", "ties"))
    known = [str(said) for said in Said]
    for said in answers:
        if said not in known:
            raise PlanError(f"a sink does not answer {shown(said)}; it answers {', '.join(known)}")
    return Plan(
        max_attempts=_number(raw.get("max_attempts"), "max_attempts", 1, ATTEMPTS_MAX),
        answers=tuple(Said(said) for said in answers),
        events=tuple(_event(one) for one in events),
        ties=tuple(_number(tie, "a tie", 0, 99) for tie in ties),
        again=_number(raw.get("again", 0), "again", 0, AGAIN_MAX),
    )


def _list(raw: dict[str, Any], name: str) -> list[Any]:
    value = raw.get(name, [])
    if not isinstance(value, list):
        raise PlanError(f'"{name}" is {shown(value)}, not a list')
    return value


def _event(raw: Any) -> Planned:
    if not isinstance(raw, dict) or raw.get("do") not in [str(k) for k in _KINDS]:
        kinds = ", ".join(_KINDS)
        raise PlanError(
            f'{shown(raw)} is no event such as {{"do": "cancel", "at_ms": 2, "turn": 1}}; they are {kinds}'
        )
    for name in raw:
        if name not in _EVENT_NAMES:
            raise PlanError(f"an event has no field {name!r}; its fields are {', '.join(_EVENT_NAMES)}")
    at_ms = _number(raw.get("at_ms"), "at_ms", 0, 1_000_000)
    until_ms = _number(raw.get("until_ms", 0), "until_ms", 0, 1_000_000)
    kind = EventKind(raw["do"])
    if kind is not EventKind.STALL and "until_ms" in raw:
        raise PlanError(f"a {kind} takes no time, and has no until_ms; only a stall has")
    if kind is EventKind.STALL and "until_ms" not in raw:
        raise PlanError("a stall has no until_ms; it says when the stall ends")
    if kind is EventKind.STALL and until_ms < at_ms:
        raise PlanError(f"a stall at {at_ms} ms ends at {until_ms} ms; time does not go back")
    return Planned(kind, at_ms, _number(raw.get("turn", 1), "turn", 0, 1_000_000), until_ms)


def _number(value: Any, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PlanError(f"{name} is {shown(value)}; it is a whole number from {least} to {most:,}")
    return value
