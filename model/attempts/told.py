"""What a run came to, as far as a promise is about it."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from model.words import State


class End(StrEnum):
    """How one run ended."""

    EFFECT = "effect"
    """It had the effect, and says so."""
    REPLAYED = "replayed"
    """The effect was there already."""
    NO_EFFECT = "no effect"
    """There is none, and there will be none."""
    REFUSED = "refused"
    """Nothing can be sent now; the intent may live on."""
    UNKNOWN = "unknown"
    """Something was sent, and what became of it is not known."""
    INTERRUPTED = "interrupted"
    KILLED = "killed"


@frozen
class Told:
    """Send times in milliseconds, how many effects there are, where the intent stands, and how each run ended, when.

    ``cleaned`` is how many attempts were interrupted and have run their clean-up.
    """

    sends_ms: tuple[int, ...]
    effects: int
    state: State
    attempts: int
    ends: tuple[tuple[End, int], ...]
    cleaned: int
    claims: tuple[tuple[int, bool], ...] = ()
    """When another worker asked for the key, and whether it was granted."""
