"""Under which limits and contracts an operation runs."""

from __future__ import annotations

from attrs import frozen

from model.contracts import Contracts


@frozen
class Setup:
    """Milliseconds. ``waits_ms`` are the jittered back-offs, drawn before: after the first send, the second, ..."""

    contracts: Contracts = Contracts()
    attempt_ms: int = 20
    grace_ms: int = 7
    waits_ms: tuple[int, ...] = (10, 20, 40, 40)
    deadline_ms: int = 90
    max_attempts: int = 4
    lease_ms: int = 60
