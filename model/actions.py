"""The action alphabet: every step that any engine may take, and when it makes sense to take it.

One alphabet serves every engine, the reducer, the traces and the reports, so that a failure found by one is replayed,
shrunk and told by all. An action names no millisecond: time moves to *the lease of k1, one tick before it ends*, so
that a failure order keeps its meaning when steps are taken out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from attrs import field, frozen

from model.contracts import Checkpoint, Contracts
from model.words import PAYLOADS, TERMINAL, Capability, Grant, Kind, Reply, Slot, Worker, World


class Verb(StrEnum):
    """What is done. Clients submit, decide and cancel; workers do the rest; the environment moves time and kills."""

    SUBMIT = "submit"
    APPROVE = "approve"
    DENY = "deny"
    REVOKE = "revoke"
    FORGE = "forge"
    BUMP_POLICY = "bump_policy"
    CANCEL = "cancel"
    CLAIM = "claim"
    RENEW = "renew"
    RELEASE = "release"
    DISPATCH = "dispatch"
    STALL = "stall"
    WAKE = "wake"
    ACKNOWLEDGE = "acknowledge"
    CHECKPOINT = "checkpoint"
    RECONCILE = "reconcile"
    REAP_READ = "reap_read"
    REAP_APPLY = "reap_apply"
    ADVANCE = "advance"
    JUMP_WALL = "jump_wall"
    KILL = "kill"
    RESTART = "restart"
    POWER_CUT = "power_cut"


@frozen
class Form:
    """How a verb is used: who acts, on what, with which choices, and a sentence for the reader."""

    says: str
    worker: bool = False
    key: bool = False
    choice: str = ""
    choices: tuple[str, ...] = ()
    stores: bool = True
    """Whether it touches a store, so that a process can die inside it."""
    needs: Capability | None = None
    """The capability without which a dispatcher is never asked to do it."""


TICKS = tuple(f"{what}{tick}" for what in ("lease", "approval", "deadline") for tick in ("-1", "", "+1"))
"""The instants that time may move to: just before, at and just after each expiry and deadline of a key."""

WALL_OFFSETS_MS = {"back": -3_600_000, "ahead": 3_600_000, "true": 0}
"""How far a worker's wall clock may be off; leases and deadlines must not notice."""

REORDERED = "p1-reordered"
"""The first payload with its members in another order, at every depth: it means the same."""
MEANS = {**{p: p for p in PAYLOADS}, REORDERED: PAYLOADS[0]}
"""What a submitted payload means."""
AGAIN = "again"
"""Not a payload: the very grant that the approver gave last."""

ALPHABET: dict[Verb, Form] = {
    Verb.SUBMIT: Form(
        "a client submits a payload under a key",
        key=True,
        choice="payload",
        choices=(*PAYLOADS, REORDERED),
    ),
    Verb.APPROVE: Form(
        "the approver grants one payload, or somebody hands the last grant in again",
        key=True,
        choice="payload",
        choices=(*PAYLOADS, AGAIN),
        needs=Capability.APPROVALS,
    ),
    Verb.DENY: Form("the approver denies the key", key=True, needs=Capability.APPROVALS),
    Verb.REVOKE: Form("the approver takes the grant back", key=True, needs=Capability.APPROVALS),
    Verb.FORGE: Form(
        "someone hands in a grant that the approver did not give",
        key=True,
        choice="how",
        choices=("signature", "approver"),
        needs=Capability.APPROVALS,
    ),
    Verb.BUMP_POLICY: Form("the policy moves to its next revision", needs=Capability.APPROVALS),
    Verb.CANCEL: Form("a client cancels the key", key=True, needs=Capability.CANCELLATION),
    Verb.CLAIM: Form("a worker asks for the lease", worker=True, key=True),
    Verb.RENEW: Form("a worker renews its lease", worker=True, key=True, needs=Capability.LEASES),
    Verb.RELEASE: Form("a worker gives its lease back", worker=True, key=True, needs=Capability.LEASES),
    Verb.DISPATCH: Form(
        "a worker is authorised and applies the effect",
        worker=True,
        key=True,
        choice="reply",
        choices=tuple(Reply),
    ),
    Verb.STALL: Form(
        "a worker is authorised and freezes before it sends", worker=True, key=True, needs=Capability.STALL
    ),
    Verb.WAKE: Form(
        "the frozen worker wakes and sends", worker=True, choice="reply", choices=tuple(Reply), needs=Capability.STALL
    ),
    Verb.ACKNOWLEDGE: Form("a worker records in the ledger what the sink answered", worker=True, key=True),
    Verb.CHECKPOINT: Form("a worker writes its checkpoint", worker=True, key=True, needs=Capability.CHECKPOINT),
    Verb.RECONCILE: Form(
        "a worker asks the sink what became of the key", worker=True, key=True, needs=Capability.RECONCILE
    ),
    Verb.REAP_READ: Form("a worker looks for overdue leases", worker=True, needs=Capability.REAPING),
    Verb.REAP_APPLY: Form("a worker clears what it saw overdue", worker=True, needs=Capability.REAPING),
    Verb.ADVANCE: Form("time passes", key=True, choice="to", choices=("tick", *TICKS), stores=False),
    Verb.JUMP_WALL: Form(
        "a worker's wall clock jumps",
        worker=True,
        choice="to",
        choices=tuple(WALL_OFFSETS_MS),
        stores=False,
    ),
    Verb.KILL: Form("a worker dies between two operations", worker=True, stores=False),
    Verb.RESTART: Form(
        "a dead worker starts again",
        worker=True,
        choice="as",
        choices=("same-name", "new-name", "other-settings"),
    ),
    Verb.POWER_CUT: Form(
        "the power is cut: every process dies, and of what was not synced something is lost",
        choice="lost",
        choices=("everything", "names", "data", "nothing"),
        stores=False,
    ),
}

DEATHS = frozenset({Verb.KILL, Verb.POWER_CUT})
"""What ends processes between two operations."""

HIGHEST_REVISION = 3
"""The policy is bumped at most twice in one order: more revisions show nothing new."""


@frozen(cache_hash=True)
class Action:
    """One labelled action. ``worker`` and ``key`` count from 0, -1 where the verb has none."""

    verb: Verb
    worker: int = -1
    key: int = -1
    choice: str = ""
    label: str = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        parts = [str(self.verb)]
        if self.worker >= 0:
            parts.append(f"w{self.worker + 1}")
        if self.key >= 0:
            parts.append(f"k{self.key + 1}")
        if self.choice:
            parts.append(self.choice)
        object.__setattr__(self, "label", " ".join(parts))


class UnknownActionError(ValueError):
    """A step names an action that is not in the alphabet."""


@frozen
class Alphabet:
    """All actions of a system with a number of workers and keys, in one fixed order, grouped by verb."""

    workers: int
    keys: int
    by_verb: dict[Verb, tuple[Action, ...]] = field(init=False, eq=False, repr=False)
    by_label: dict[str, Action] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        by_verb = {verb: tuple(_spelled(verb, form, self.workers, self.keys)) for verb, form in ALPHABET.items()}
        object.__setattr__(self, "by_verb", by_verb)
        object.__setattr__(self, "by_label", {a.label: a for actions in by_verb.values() for a in actions})

    def enabled(self, world: World, verb: Verb, contracts: Contracts) -> list[Action]:
        """The actions of one verb that make sense in ``world``.

        An enabled action may still be refused: refusals are what several promises are about. What is left out is
        what no caller could do (acknowledge without an answer) and what could only change nothing.
        """
        return [a for a in self.by_verb[verb] if is_enabled(a, world, contracts)]

    def all_enabled(self, world: World, contracts: Contracts) -> list[Action]:
        """Every action that makes sense in ``world``, in the alphabet's order."""
        return [a for verb in Verb for a in self.enabled(world, verb, contracts)]


def _spelled(verb: Verb, form: Form, workers: int, keys: int) -> Iterable[Action]:
    for worker in range(workers) if form.worker else (-1,):
        for key in range(keys) if form.key else (-1,):
            for choice in form.choices or ("",):
                if choice == "tick":
                    if key == 0:
                        yield Action(verb, -1, -1, choice)
                else:
                    yield Action(verb, worker, key, choice)


def instant(slot: Slot, to: str) -> int | None:
    """The millisecond that a tick such as ``lease+1`` means for a key, or None if nothing is pending there."""
    what, offset = (to[:-2], int(to[-2:])) if to[-2:] in {"-1", "+1"} else (to, 0)
    match what:
        case "lease":
            base = slot.lease.expiry_ms if slot.lease else None
        case "approval":
            live = slot.approval is not None and slot.approval.status in {Grant.GRANTED, Grant.SPENT}
            base = slot.approval.expiry_ms if live and slot.approval else None
        case _:
            live = slot.intent is not None and slot.intent.state not in TERMINAL
            base = slot.intent.deadline_ms if live and slot.intent else None
    return None if base is None else base + offset


def is_enabled(action: Action, world: World, contracts: Contracts) -> bool:
    """Whether ``action`` makes sense in ``world``. A pure function."""
    verb = action.verb
    if action.worker >= 0:
        return _worker_can(verb, action, world.workers[action.worker], world, contracts)
    if verb is Verb.ADVANCE:
        if action.choice == "tick":
            return True
        at_ms = instant(world.stores.slots[action.key], action.choice)
        return at_ms is not None and at_ms > world.now_ms
    if verb is Verb.APPROVE and action.choice == AGAIN:
        last = world.stores.slots[action.key].approval
        return last is not None and last.authentic and last.status is not Grant.DENIED
    if verb is Verb.SUBMIT or verb is Verb.APPROVE:
        return True
    if verb is Verb.BUMP_POLICY:
        return world.stores.revision < HIGHEST_REVISION
    if verb is Verb.POWER_CUT:
        return any(worker.alive for worker in world.workers)
    return world.stores.slots[action.key].intent is not None


def _can_send(action: Action, worker: Worker) -> bool:
    """A worker resends what got no answer or a passing error; a permanent error it has to record first."""
    result = worker.results[action.key]
    may_retry = result is None or result.kind is not Kind.ERROR or result.reason == "transient"
    return worker.tokens[action.key] > 0 and may_retry


def _holds_token(action: Action, worker: Worker) -> bool:
    return worker.tokens[action.key] > 0


_AWAKE_WORKER_CAN: dict[Verb, Callable[[Action, Worker], bool]] = {
    Verb.KILL: lambda action, worker: True,
    Verb.REAP_READ: lambda action, worker: True,
    Verb.REAP_APPLY: lambda action, worker: worker.view is not None,
    Verb.ACKNOWLEDGE: lambda action, worker: worker.results[action.key] is not None,
    Verb.DISPATCH: _can_send,
    Verb.STALL: _can_send,
    Verb.RENEW: _holds_token,
    Verb.RELEASE: _holds_token,
    Verb.RECONCILE: _holds_token,
}


def _worker_can(verb: Verb, action: Action, worker: Worker, world: World, contracts: Contracts) -> bool:
    if verb is Verb.JUMP_WALL:
        return worker.wall_offset_ms != WALL_OFFSETS_MS[action.choice]
    if not worker.alive:
        return verb is Verb.RESTART
    if worker.stalled >= 0:
        return verb is Verb.WAKE or verb is Verb.KILL
    if verb is Verb.CLAIM:
        return world.stores.slots[action.key].intent is not None
    if verb is Verb.CHECKPOINT:
        early = contracts.checkpoint is Checkpoint.BEFORE_EFFECT and _holds_token(action, worker)
        return worker.receipts[action.key] > 0 or early
    can = _AWAKE_WORKER_CAN.get(verb)
    return can is not None and can(action, worker)


@frozen(cache_hash=True)
class Step:
    """One step of a failure order: an action, and for a crash inside it the boundary at which its process dies.

    ``kill_at`` counts boundaries from 1; an operation that has fewer ends, and its process dies right after it.
    """

    action: Action
    kill_at: int = 0

    @property
    def label(self) -> str:
        """The action's label, and where it dies."""
        return f"{self.action.label} killed at boundary {self.kill_at}" if self.kill_at else self.action.label
