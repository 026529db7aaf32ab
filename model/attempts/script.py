"""What a sink does with one request, and what comes from outside while it does."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

TRAVEL_MS, BACK_MS = 2, 3
"""How long a request travels to the sink, and its answer back."""
RETRY_AFTER_MS = 30
LATE_MS = 5
"""How long after the end of its attempt a request that is late arrives."""


class Said(StrEnum):
    """What a sink does with a request, and what the caller hears of it."""

    DONE = "done"
    """It acts and answers."""
    EDGE = "edge"
    """It acts, and its answer comes at the very instant at which the attempt's time is up."""
    SILENT = "silent"
    """It acts, and no answer ever comes."""
    LATE = "late"
    """The request is on its way so long that it arrives, and acts, after the attempt has ended."""
    RESET_BEFORE = "reset-before"
    """The connection breaks before it acts."""
    RESET_AFTER = "reset-after"
    """The connection breaks after it has acted."""
    BAD_REQUEST = "400"
    TOO_MANY = "429"
    TOO_MANY_UNTIL = "429-retry-after"
    """Not now, but in so many milliseconds."""
    FAILED = "500"
    """It fails in the middle, after it has acted."""
    MALFORMED = "malformed"
    """It acts, and nobody understands its answer."""
    HANG = "hang"
    """It does not act, and the call ignores its interruption."""

    @property
    def acts(self) -> bool:
        """Whether it has the effect."""
        return self in _ACTING

    @property
    def is_long(self) -> bool:
        """Whether the attempt takes all the time that it may."""
        return self in {Said.EDGE, Said.SILENT, Said.LATE, Said.HANG}

    @property
    def is_no(self) -> bool:
        """Whether it is a clear "no": there is no effect of this request, and there will be none."""
        return self in {self.BAD_REQUEST, self.TOO_MANY, self.TOO_MANY_UNTIL}


_ACTING = frozenset(
    {Said.DONE, Said.EDGE, Said.SILENT, Said.LATE, Said.RESET_AFTER, Said.FAILED, Said.MALFORMED},
)


class EventKind(StrEnum):
    """What comes from outside."""

    CANCEL = "cancel"
    """The client cancels for good."""
    INTERRUPT = "interrupt"
    """The worker is told to end: its task is cancelled."""
    KILL = "kill"
    """The worker is killed."""
    STALL = "stall"
    """The worker sleeps, and time goes on without it."""
    CLAIM = "claim"
    """Another worker asks for the key, and does nothing with it: it must be refused as long as the lease is kept."""
    START = "start"
    """A worker, the first or another one, takes the operation up."""


@frozen
class Event:
    """Something that comes from outside at an instant; ``until_ms`` is when a stall ends."""

    kind: EventKind
    at_ms: int
    until_ms: int = 0
