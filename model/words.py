"""The nouns: what a dispatcher keeps in its stores, what a worker keeps in its head, and what an operation answers.

Everything here is frozen. Times are integer milliseconds of logical time. Payloads stand for themselves by a small
name (``p1``, ``p2``): equal names mean equal digests, and nothing else about a payload matters to a promise.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import field, frozen

PAYLOADS = ("p1", "p2")
"""The payload that is submitted first by habit, and the changed one."""


class State(StrEnum):
    """Where an intent stands."""

    PENDING = "pending"
    DISPATCHING = "dispatching"
    UNKNOWN = "unknown"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DENIED = "denied"
    EXPIRED = "expired"


TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED, State.DENIED, State.EXPIRED})
"""States that never change again."""

IN_FLIGHT = frozenset({State.DISPATCHING, State.UNKNOWN})
"""States in which an effect may have happened without being recorded."""


class Grant(StrEnum):
    """Where an approval stands. Only ``GRANTED``, and ``SPENT`` by the same operation, open the gate."""

    GRANTED = "granted"
    SPENT = "spent"
    DENIED = "denied"
    REVOKED = "revoked"


class Reply(StrEnum):
    """What a sink does with one request, as scripted by the engine that drives it."""

    DONE = "done"
    """It acts and answers."""
    SILENT = "silent"
    """It acts and the answer is lost."""
    LOST = "lost"
    """The request is lost: it neither acts nor answers."""
    TRANSIENT = "transient"
    """It does not act, and says that a later attempt may succeed (a 503)."""
    PERMANENT = "permanent"
    """It does not act, and says that no attempt ever will (a 400)."""


class Capability(StrEnum):
    """A part that a dispatcher may have. What it does not declare is *unsupported*: neither tried nor judged."""

    LEDGER = "ledger"
    """Its rows can be read by an oracle, so that every row is compared with the model."""
    LEASES = "leases"
    APPROVALS = "approvals"
    CANCELLATION = "cancellation"
    DEADLINE = "deadline"
    ATTEMPTS = "attempts"
    STALL = "stall"
    """Authorising and applying can be told apart, so that a worker can freeze between them."""
    CHECKPOINT = "checkpoint"
    RECONCILE = "reconcile"
    REAPING = "reaping"
    PERMITS = "permits"
    """A claim is refused while as many other keys are in hand as there are permits. It takes leases."""


class Kind(StrEnum):
    """What an operation answered."""

    OK = "ok"
    REPLAYED = "replayed"
    """Done before: the first receipt comes back."""
    REFUSED = "refused"
    """Not allowed, and nothing has changed."""
    ERROR = "error"
    """The sink answered that it did not act."""
    UNKNOWN = "unknown"
    """Sent, and no answer came."""
    KILLED = "killed"
    """The process died before it could answer; no dispatcher returns this."""


@frozen
class Outcome:
    """An operation's answer: its kind, why, and the token or receipt number it carries.

    ``reason`` is for the reader and is never compared. ``value`` is a fencing token after a claim, and after a
    dispatch the ordinal (from 1) of the receipt among the key's effects.
    """

    kind: Kind
    reason: str = field(default="", eq=False)
    value: int = 0


@frozen
class Intent:
    """The durable record that an effect is wanted.

    ``in_doubt`` says that an attempt *before* the present one ended without an answer, so that a definite "no" to
    the present one does not settle the matter. ``receipt`` is the ordinal of the effect, 0 before there is one.
    """

    digest: str
    state: State
    deadline_ms: int
    attempts: int = 0
    in_doubt: bool = False
    cancel_requested: bool = False
    cleaned: bool = False
    receipt: int = 0


@frozen
class Approval:
    """A decision about one key: what for, by whom, until when, and under which policy revision."""

    digest: str
    approver: str
    expiry_ms: int
    revision: int
    status: Grant
    authentic: bool = True


@frozen
class Lease:
    """A worker's time-bounded right to act on a key; valid while ``now < expiry_ms``."""

    owner: str
    token: int
    expiry_ms: int


@frozen
class Effect:
    """One side effect at the sink."""

    digest: str
    token: int
    at_ms: int


@frozen
class Progress:
    """A key's entry in the checkpoint file."""

    token: int
    receipt: int


@frozen
class Slot:
    """All that the stores say about one key: the ledger's rows, the sink's rows, the checkpoint's entry.

    ``token_high`` is the newest token that the ledger granted, ``fence`` the newest that the sink has seen,
    ``calls`` how many requests reached the sink, ``rejected`` how many of them had come when it first answered
    *permanent* (0: never). ``permit`` says that a permit was taken for the key and has not come back; it counts until
    the lease runs out that it was taken with. Where there is no limit, none is taken.
    """

    intent: Intent | None = None
    approval: Approval | None = None
    lease: Lease | None = None
    token_high: int = 0
    effects: tuple[Effect, ...] = ()
    fence: int = 0
    calls: int = 0
    rejected: int = 0
    progress: Progress | None = None
    permit: bool = False


@frozen
class Stores:
    """What survives a process: the policy revision and a slot for each key. An oracle reads one from real files."""

    revision: int
    slots: tuple[Slot, ...]


@frozen
class Result:
    """What a worker's last dispatch of a key told it, until the ledger has acknowledged it."""

    kind: Kind
    reason: str = ""
    receipt: int = 0


@frozen
class Worker:
    """What a worker knows that no store does. All of it is gone when the worker is killed.

    ``tokens``, ``results`` and ``receipts`` have one entry a key; 0 and None mean nothing known. ``stalled`` is the
    index of the key whose dispatch was authorised and then froze before the send, -1 if the worker is not stalled, and
    ``sending`` is the payload that it was authorised to send.
    ``view`` is what the worker last read for reaping: a (token, expiry_ms) for each key that looked overdue.
    """

    name: str
    tokens: tuple[int, ...]
    results: tuple[Result | None, ...]
    receipts: tuple[int, ...]
    alive: bool = True
    stalled: int = -1
    sending: str = ""
    view: tuple[tuple[int, int] | None, ...] | None = None
    other_settings: bool = False
    wall_offset_ms: int = 0


@frozen
class World:
    """A whole system at one instant: the clock, the stores, the workers."""

    now_ms: int
    stores: Stores
    workers: tuple[Worker, ...]


def fresh_worker(name: str, keys: int) -> Worker:
    """A worker that has just started and knows nothing about any of ``keys`` keys."""
    return Worker(name, (0,) * keys, (None,) * keys, (0,) * keys)


def fresh_world(workers: int = 2, keys: int = 2) -> World:
    """The first world: time 0, empty stores, ``workers`` workers alive."""
    return World(
        now_ms=0,
        stores=Stores(revision=1, slots=(Slot(),) * keys),
        workers=tuple(fresh_worker(f"w{i + 1}", keys) for i in range(workers)),
    )
