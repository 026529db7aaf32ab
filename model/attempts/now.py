"""Everything at one instant of a run of attempts."""

from __future__ import annotations

from attrs import frozen

from model.attempts.told import End, Told
from model.words import State

Alarm = tuple[int, str, int]
"""When, what, and which send or event."""


@frozen
class Now:
    """Everything at one instant."""

    now_ms: int = 0
    phase: str = "over"
    """``attempt``, ``waiting``, ``asking`` or ``over``."""
    alarms: tuple[Alarm, ...] = ()
    sends_ms: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    """Of each authorised send, its token."""
    acted: tuple[str, ...] = ()
    """Of each, what the sink made of it: ``done``, ``replayed``, ``late``, ``stale``, ``transient``, ``permanent``."""
    effects: int = 0
    fence: int = 0
    state: State = State.PENDING
    attempts: int = 0
    in_doubt: bool = False
    wish: bool = False
    """Whether a cancellation is noted."""
    high: int = 0
    lease_until_ms: int | None = None
    owner: int = 0
    """The token of the lease."""
    token: int = 0
    """The token of the run, which another worker's grant outruns."""
    sure_until_ms: int = 0
    """Until when the run knows that it has the lease."""
    asked: int = 0
    """The token of which the sink was told last."""
    tries: int = 0
    """How often this run was authorised."""
    got: str = ""
    """How the present attempt ended, where it has."""
    aim: str = ""
    """What an answer of the sink is wanted for: ``go on`` or ``settle``."""
    heard: str = ""
    """``found``, ``absent``, or nothing."""
    is_final: bool = False
    """Whether the sink has told this run that no attempt will ever succeed."""
    is_cancelled: bool = False
    is_interrupted: bool = False
    lingers: bool = False
    ends: tuple[tuple[End, int], ...] = ()
    cleaned: int = 0
    claims: tuple[tuple[int, bool], ...] = ()

    def told(self) -> Told:
        """What it came to, once no alarm is left."""
        return Told(self.sends_ms, self.effects, self.state, self.attempts, self.ends, self.cleaned, self.claims)
