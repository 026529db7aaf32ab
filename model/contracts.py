"""The contracts: nine choices that the model and every dispatcher obey alike, and the limits that go with them.

The first member of each enumeration is the default. A weaker choice is not a bug: it is a design that people ship,
and it runs here so that its price can be seen.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from attrs import frozen


class AttemptTimeout(StrEnum):
    """What ends an attempt that takes too long."""

    COOPERATIVE = "cooperative"
    """One async attempt is interrupted at its next await."""
    THREAD = "thread"
    """The caller stops waiting; the thread lives on."""
    PROCESS = "process"
    """The attempt's process is killed."""


class Deadline(StrEnum):
    """What bounds all attempts together."""

    ABSOLUTE = "absolute"
    """One durable instant, over all attempts and back-off."""
    PER_ATTEMPT = "per-attempt"
    """Each attempt has a limit, the whole has none."""


class Retry(StrEnum):
    """Which errors are retried."""

    TRANSIENT = "transient"
    """Connection failures and timeouts only."""
    EVERY_ERROR = "every-error"
    """Permanent errors too."""


class Cancellation(StrEnum):
    """How a cancellation ends an operation."""

    DURABLE = "durable"
    """It propagates, runs clean-up, and survives a restart."""
    FORCEFUL = "forceful"
    """The work is ended by force; no clean-up is promised."""


class ApprovalGate(StrEnum):
    """What opens the gate before an effect."""

    BOUND = "bound"
    """An authenticated grant for this approver, digest, expiry and policy revision, single use."""
    CALLER = "caller"
    """Whatever grant a trusted caller hands in, neither authenticated nor bound."""
    ADVISORY = "advisory"
    """Nothing: a decision is noted and not asked for."""


class Checkpoint(StrEnum):
    """When a worker may write down that a key is done."""

    AFTER_RECEIPT = "after-receipt"
    BEFORE_EFFECT = "before-effect"


class Idempotency(StrEnum):
    """Who notices that an effect has been had before."""

    SINK = "sink"
    """The sink binds the key to the digest."""
    CLIENT = "client"
    """The ledger alone: what it has recorded is not sent again."""
    NONE = "none"


class Fencing(StrEnum):
    """Who refuses a worker whose lease has been given to another."""

    SINK_AND_LEDGER = "sink-and-ledger"
    CLAIM_ONLY = "claim-only"
    """A valid lease is respected at the claim; nothing is checked after it."""
    NONE = "none"
    """Not even at the claim."""


class Durability(StrEnum):
    """How SQLite keeps its journal, and when it syncs. A kill cannot tell these apart; only a power cut can."""

    DELETE_EXTRA = "delete-extra"
    TRUNCATE_FULL = "truncate-full"
    PERSIST_FULL = "persist-full"
    WAL_FULL = "wal-full"
    DELETE_FULL = "delete-full"
    """The journal's removal is not durable: a power cut may bring it back, and with it the state before."""
    DELETE_NORMAL = "delete-normal"
    WAL_NORMAL = "wal-normal"
    """The log is synced now and then: a power cut loses the last transactions, and tears none."""
    OFF = "off"

    @property
    def keeps(self) -> bool:
        """Whether what was acknowledged survives a power cut."""
        return self in {self.DELETE_EXTRA, self.TRUNCATE_FULL, self.PERSIST_FULL, self.WAL_FULL}


@frozen
class Contracts:
    """One choice for each contract. The defaults are those that survive."""

    attempt_timeout: AttemptTimeout = AttemptTimeout.COOPERATIVE
    deadline: Deadline = Deadline.ABSOLUTE
    retry: Retry = Retry.TRANSIENT
    cancellation: Cancellation = Cancellation.DURABLE
    approval: ApprovalGate = ApprovalGate.BOUND
    checkpoint: Checkpoint = Checkpoint.AFTER_RECEIPT
    idempotency: Idempotency = Idempotency.SINK
    fencing: Fencing = Fencing.SINK_AND_LEDGER
    durability: Durability = Durability.DELETE_EXTRA

    def to_json(self) -> dict[str, str]:
        """Every choice by name, defaults included."""
        return {name: str(getattr(self, name)) for name in CHOICES}

    def weakened(self) -> dict[str, str]:
        """The choices that are not the default."""
        return {name: value for name, value in self.to_json().items() if value != str(CHOICES[name][0])}


CHOICES: dict[str, tuple[StrEnum, ...]] = {
    "attempt_timeout": tuple(AttemptTimeout),
    "deadline": tuple(Deadline),
    "retry": tuple(Retry),
    "cancellation": tuple(Cancellation),
    "approval": tuple(ApprovalGate),
    "checkpoint": tuple(Checkpoint),
    "idempotency": tuple(Idempotency),
    "fencing": tuple(Fencing),
    "durability": tuple(Durability),
}
"""Contract name -> its choices, default first."""


class UnknownContractError(ValueError):
    """A contract or a choice that does not exist was named."""


def contracts_from(choices: dict[str, Any]) -> Contracts:
    """Contracts with the named choices, defaults for the rest.

    Raises UnknownContractError with the value, the reason and what would be right.
    """
    chosen: dict[str, Any] = {}
    for name, value in choices.items():
        known = name.replace("-", "_") if isinstance(name, str) else name
        if known not in CHOICES:
            raise UnknownContractError(
                f"contract {name!r} does not exist; the contracts are {', '.join(CHOICES)}",
            )
        match = [c for c in CHOICES[known] if str(c) == str(value).replace("_", "-")]
        if not match:
            raise UnknownContractError(
                f"contract {known} has no choice {value!r}; it is one of {', '.join(CHOICES[known])}",
            )
        chosen[known] = match[0]
    return Contracts(**chosen)


@frozen
class Limits:
    """The sizes that the contracts speak of, in milliseconds of logical time and in attempts.

    ``other_lease_ms`` is what a worker uses that was restarted with other settings. ``intruder`` signs properly but
    is not among ``approvers``. ``permits`` is how many keys may be in hand at once, that is under a lease that has not
    run out; None sets no limit.
    """

    lease_ms: int = 100
    other_lease_ms: int = 40
    approval_ms: int = 250
    deadline_ms: int = 600
    max_attempts: int = 3
    approvers: tuple[str, ...] = ("alice",)
    intruder: str = "mallory"
    permits: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.permits is not None and self.permits < 1:
            raise ValueError(
                f"permits={self.permits} lets nobody claim anything; give 1 or more, or None for no limit"
            )
