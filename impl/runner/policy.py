"""How an operation is attempted: how long an attempt may take, and how long to wait before the next one."""

from __future__ import annotations

import math
from typing import Any, Protocol

from attrs import Attribute, field, frozen
from attrs.validators import optional


class PolicyError(ValueError):
    """A policy that cannot be kept. The message says which value, why, and what would be right."""


class Draws(Protocol):
    """A source of random numbers; ``random.Random`` is one."""

    def randint(self, a: int, b: int) -> int:
        """A number from ``a`` to ``b``, both included."""


def _positive(policy: Policy, attribute: Attribute[Any], value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and value > 0):
        raise PolicyError(
            f"{attribute.name} is {value!r}, not a positive, finite number of milliseconds; give one above 0"
        )


@frozen
class Policy:
    """Milliseconds, each positive and finite. How often, and until when, stands in the ledger and not here.

    Raises PolicyError for any other value.
    """

    attempt_ms: float = field(default=50, validator=_positive)
    """How long one attempt may take, be it longer than a lease: the lease is renewed meanwhile."""
    backoff_ms: float = field(default=10, validator=_positive)
    """The longest wait before the second attempt; it doubles with each further one."""
    backoff_max_ms: float = field(default=80, validator=_positive)
    grace_ms: float = field(default=20, validator=_positive)
    """How long an interrupted attempt may take to clean up before it is left alone."""
    beat_ms: float | None = field(default=None, validator=optional(_positive))
    """How long from one renewal of the lease to the next, shorter than a lease; None for a third of it.

    A third, so that a lease outlives one renewal that is lost or late by a whole period, and there is still a period
    left in which the next one comes, or its refusal ends the attempt. With a half the second would come at the very
    instant at which the lease runs out; with less than a third the ledger is written to more often for little.
    """

    def wait_ms(self, sent: int, draws: Draws, at_least_ms: float = 0) -> float:
        """How long to wait after so many sends: full jitter, and no less than the sink asked for.

        https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
        """
        doubled = self.backoff_ms * 2.0 ** min(max(0, sent - 1), 64)
        return max(at_least_ms, draws.randint(0, int(min(self.backoff_max_ms, doubled))))
