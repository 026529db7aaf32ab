"""What is sure about a run of a foreign system: what the sink saw and what the callers were told, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import define, field, frozen

from stateful.foreign.order import Do, Order, Step

PAYLOADS: dict[str, Any] = {
    "p1": {"room": "101", "guest": {"name": "Ada", "nights": 2}},
    "p2": {"room": "101", "guest": {"name": "Ada", "nights": 3}},
}
"""What the payload names of an order stand for."""
ENDED = frozenset({"done", "failed", "denied"})
"""Outcomes after which nothing more is to come of a call by itself."""
OUTCOMES = frozenset({*ENDED, "refused", "pending", "unknown"})
"""What an adapter may answer."""


@define
class Call:
    """One request to a worker. ``outcome`` is empty while it has not answered, and if its process died first."""

    at: int
    do: Do
    worker: int
    key: int
    payload: str
    choice: str = ""
    is_rest: bool = False
    outcome: str = ""
    reason: str = ""
    result: Any = None
    told_at: int = 0
    died: str = ""
    """Where its process was killed."""
    last_entry: int = 0
    """When it last entered an effect."""


@frozen
class Entry:
    """A worker got to the point where it sends."""

    at: int
    worker: int
    key: int
    payload: str


@frozen
class Send:
    """The sink acted. ``receipt`` is what it answered: the first one's, where the id was known to it."""

    at: int
    worker: int
    key: int
    payload: str
    effect_id: str
    receipt: str
    is_rest: bool


@frozen
class Line:
    """One executed step in words, and what came of it."""

    label: str
    outcome: str
    is_rest: bool = False


@define
class Facts:
    """All of it. ``at`` counts events, so that one can be said to have come before another."""

    order: Order
    calls: list[Call] = field(factory=list)
    entries: list[Entry] = field(factory=list)
    sends: list[Send] = field(factory=list)
    lines: list[Line] = field(factory=list)
    steps: list[Step] = field(factory=list)
    """The order's own steps as they were executed, their statements named."""
    now: int = 0
    trouble: str = ""
    """Why the run says nothing: the adapter broke the protocol, hung or died by itself."""
    missed: bool = False
    """Whether a step's place was never reached."""
    spots: list[tuple[str, int]] = field(factory=list)
    """The statements that were told of: text and which one with this text."""
    spots_at: int = 0
    """How many of them came before the last step."""
    left_behind: list[str] = field(factory=list)
    file_operations: int = 0
    """How many the last step of the order did, where they were counted."""
    expired_at: int = 0
    """When the clock was set beyond every expiry, if it was."""

    def tick(self) -> int:
        """The next event's number."""
        self.now += 1
        return self.now

    def started(self) -> list[int]:
        """The keys that were started, in order."""
        return list(dict.fromkeys(c.key for c in self.calls if c.do is Do.START))

    def sends_of(self, key: int, payload: str = "") -> list[Send]:
        """What the sink did for a key (and one payload)."""
        return [s for s in self.sends if s.key == key and payload in {"", s.payload}]

    def starts(self, key: int) -> Iterator[Call]:
        """The calls that were made for a key."""
        return (c for c in self.calls if c.do is Do.START and c.key == key)

    def last_start(self, key: int) -> Call | None:
        """The last call for a key that was told something."""
        return next((c for c in reversed(self.calls) if c.do is Do.START and c.key == key and c.outcome), None)
