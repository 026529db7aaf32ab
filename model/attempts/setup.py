"""Under which limits and contracts an operation runs."""

from __future__ import annotations

from attrs import frozen

from model.contracts import Contracts


@frozen
class Setup:
    """Milliseconds. ``waits_ms`` are the jittered back-offs, drawn before: after the first send, the second, ...

    A lease is shorter than an attempt may be, so that whatever takes long lives by its renewals.
    """

    contracts: Contracts = Contracts()
    attempt_ms: int = 20
    grace_ms: int = 7
    waits_ms: tuple[int, ...] = (10, 20, 40, 40)
    deadline_ms: int = 90
    max_attempts: int = 4
    lease_ms: int = 18
    beat_ms: int = 7
    """How long from one renewal of the lease to the next; the instants of no two alarms are the same where they need not
    be, for each order of these is another run."""
