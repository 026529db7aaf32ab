"""What an operation met, and what its runs came to."""

from __future__ import annotations

from attrs import frozen

from model.attempts import Event, Told
from model.words import Kind
from stateful.attempts.plan import Plan


@frozen
class Moment:
    """Something that happened, as a story tells it."""

    at_ms: int
    what: str
    answer: str = ""
    changes: tuple[str, ...] = ()


@frozen
class Ran:
    """What an operation met, and what its runs came to."""

    plan: Plan
    events: tuple[Event, ...]
    told: Told
    turns: int
    receipts: tuple[str, ...] = ()
    """The receipts that runs and cancellations came back with."""
    cancelled: tuple[Kind, ...] = ()
    """What whoever cancelled was told."""
    trouble: str = ""
    """What a runner raised, or that it never ended; empty if neither."""
    is_endless: bool = False
    """Whether it never ended: others of its kind take as long."""
    story: tuple[Moment, ...] = ()
