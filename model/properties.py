"""What must be true: one list of properties, shared by every engine, the reports and the docs.

A property looks at one *moment*: the stores before and after an action, the clock, the action and its answer, and the
token that the acting worker held. It knows nothing of the model's transition function, so that it judges a real
dispatcher and the model itself alike, under any contracts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cache

from attrs import evolve, field, frozen

from model.actions import MEANS, Action, Verb
from model.contracts import Limits
from model.words import IN_FLIGHT, TERMINAL, Capability, Effect, Grant, Kind, Outcome, Slot, State, Stores


@frozen
class Moment:
    """One step of a run as seen from outside.

    ``key`` is the index that the action concerns, -1 if none (for a wake: the key whose send was frozen).
    ``token`` is the fencing token that the acting worker held, 0 if it held none or no worker acted. ``now_ms`` is
    the time at which the action ran.
    """

    before: Stores
    after: Stores
    now_ms: int
    action: Action
    outcome: Outcome
    key: int
    token: int
    limits: Limits


class Sort(StrEnum):
    """When a property must hold."""

    ALWAYS = "always"
    EVENTUALLY = "eventually"
    """After quiesce."""
    SOMETIMES = "sometimes"
    """At least once in a campaign, or the campaign is vacuous."""


Predicate = Callable[[Moment, Slot, Slot, bool], bool]


@frozen
class Property:
    """A promise. ``name`` is a sentence.

    ``holds`` sees a moment, one key's slot before and after it, and whether the action was about that key. ``needs``
    lists the capabilities without which a dispatcher cannot be judged by it.
    """

    id: str
    name: str
    sort: Sort
    rationale: str
    holds: Predicate = field(eq=False, repr=False)
    needs: frozenset[Capability] = frozenset()
    verbs: frozenset[Verb] = frozenset(Verb)
    """For a witness: the actions that it is about."""


PROPERTIES: dict[str, Property] = {}
"""Every property by its identifier, in the order in which they are reported."""


def _property(
    id_: str, name: str, rationale: str, *needs: Capability, sort: Sort = Sort.ALWAYS
) -> Callable[[Predicate], Predicate]:
    def add(holds: Predicate) -> Predicate:
        PROPERTIES[id_] = Property(id_, name, sort, rationale, holds, frozenset(needs))
        return holds

    return add


LEDGER = Capability.LEDGER


_AUTHORISING = frozenset({Verb.DISPATCH, Verb.STALL})
_ENDED_WITHOUT_EFFECT = frozenset({State.FAILED, State.CANCELLED, State.DENIED, State.EXPIRED, State.PENDING})


def _has_only(effects: tuple[Effect, ...], digest: str) -> bool:
    return not effects or all(e.digest == digest for e in effects)


def _landed(was: Slot, now: Slot) -> bool:
    return len(now.effects) > len(was.effects)


def _authorised(m: Moment, was: Slot, now: Slot) -> bool:
    """Whether this moment let a send start."""
    if m.action.verb not in _AUTHORISING:
        return False
    rose = now.calls > was.calls or _landed(was, now)
    if was.intent is not None and now.intent is not None:
        rose = rose or now.intent.attempts > was.intent.attempts
    return rose or (m.action.verb is Verb.STALL and m.outcome.kind is Kind.OK)


def _approval_is_valid(m: Moment, slot: Slot) -> bool:
    approval, intent = slot.approval, slot.intent
    if approval is None or intent is None:
        return False
    open_ = approval.status is Grant.GRANTED or (approval.status is Grant.SPENT and intent.state in IN_FLIGHT)
    return (
        open_
        and approval.authentic
        and approval.approver in m.limits.approvers
        and approval.digest == intent.digest
        and m.now_ms < approval.expiry_ms
        and approval.revision == m.before.revision
    )


@_property(
    "one-effect",
    "A key has at most one effect.",
    "The key names one intended side effect; a second booking under it is a double booking.",
)
def _one_effect(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    return len(now.effects) <= 1


def _submitted_right(m: Moment, digest: str) -> bool:
    """Whether a payload for a key that has one was answered as it should: refused if changed, replayed if it is equal."""
    kind = m.outcome.kind
    if MEANS[m.action.choice] != digest:
        return kind in {Kind.REFUSED, Kind.KILLED}
    return kind is not Kind.REFUSED or m.outcome.reason == "busy"


@_property(
    "right-payload",
    "An effect carries exactly the payload that was submitted under its key; a changed payload is refused, an equal one "
    "is not.",
    "Whoever approved one payload did not approve another.",
)
def _right_payload(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if was.intent is None:
        return now.intent is None or _has_only(now.effects, now.intent.digest)
    if now.intent is not None and now.intent.digest != was.intent.digest:
        return False
    if mine and m.action.verb is Verb.SUBMIT and not _submitted_right(m, was.intent.digest):
        return False
    return _has_only(now.effects, was.intent.digest)


@_property(
    "valid-approval",
    "No effect is authorised without a valid approval, and one approval is spent on one operation.",
    "Only an explicit, stored, authentic, current grant for this very payload opens the gate.",
    Capability.APPROVALS,
)
def _valid_approval(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if not mine or not _authorised(m, was, now):
        return True
    spent = now.approval is None or now.approval.status is not Grant.GRANTED
    return _approval_is_valid(m, was) and spent


@_property(
    "effect-has-intent",
    "Every effect has its intent.",
    "An effect under a key that nobody submitted, or under a new key for an old wish, cannot be accounted for.",
)
def _effect_has_intent(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    return now.intent is not None or not now.effects


@_property(
    "intent-kept",
    "An acknowledged intent is never lost.",
    "Whoever was told that the intent is stored will not submit it again.",
    LEDGER,
)
def _intent_kept(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if was.intent is not None and now.intent is None:
        return False
    accepted = m.action.verb is Verb.SUBMIT and m.outcome.kind is Kind.OK
    return not accepted or now.intent is not None or not mine


@_property(
    "no-stale-token",
    "No row carries a stale token: no write of a former owner lands after a newer grant, and tokens only rise.",
    "A worker that slept through its lease must not undo what its successor did.",
    Capability.LEASES,
)
def _no_stale_token(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if m.action.verb is Verb.CLAIM and mine:
        granted = m.outcome.kind is Kind.OK or now.lease != was.lease
        return not granted or now.token_high > was.token_high
    if now.token_high < was.token_high:
        return False
    if not mine or m.token == 0 or m.token >= was.token_high:
        return True
    written = (was.intent, was.approval, was.lease, was.effects, was.progress, was.permit)
    return written == (now.intent, now.approval, now.lease, now.effects, now.progress, now.permit)


@_property(
    "true-completion",
    "Completion tells the truth: a completed intent or checkpoint has its effect at the sink.",
    "A record that runs ahead of its effect is a booking that nobody made.",
    LEDGER,
)
def _true_completion(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if now.intent is not None and now.intent.state is State.COMPLETED:
        receipt = now.intent.receipt
        if not 1 <= receipt <= len(now.effects):
            return False
    return now.progress is None or (bool(now.effects) and now.progress.receipt <= len(now.effects))


@_property(
    "first-receipt",
    "A replay returns the first receipt.",
    "A retrying client must learn of the effect that there is, not of another.",
)
def _first_receipt(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if m.outcome.kind is not Kind.REPLAYED or m.action.verb not in {Verb.DISPATCH, Verb.WAKE}:
        return True
    return not mine or (m.outcome.value == 1 and bool(now.effects))


@_property(
    "terminal-stays",
    "A terminal state never changes.",
    "Whoever read the end of a story acted on it.",
    LEDGER,
)
def _terminal_stays(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if was.intent is None or was.intent.state not in TERMINAL:
        return True
    return now.intent == was.intent


@_property(
    "bounded-attempts",
    "Attempts are bounded, across restarts, and a permanent error is never retried.",
    "An unbounded retry is an outage of somebody else's.",
    Capability.ATTEMPTS,
)
def _bounded_attempts(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if now.calls > m.limits.max_attempts:
        return False
    if now.intent is not None and now.intent.attempts > m.limits.max_attempts:
        return False
    put_back = (
        m.action.verb is Verb.ACKNOWLEDGE
        and was.intent is not None
        and now.intent is not None
        and was.intent.state in IN_FLIGHT
        and now.intent.state is State.PENDING
    )
    return not (put_back and now.rejected and now.rejected == now.calls)


@_property(
    "deadline-kept",
    "Nothing starts at or after the deadline.",
    "A booking after the guest has left is worse than none.",
    Capability.DEADLINE,
)
def _deadline_kept(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if was.intent is None:
        return True
    deadline_ms = was.intent.deadline_ms
    if mine and _authorised(m, was, now) and m.now_ms >= deadline_ms:
        return False
    return not now.effects or all(e.at_ms < deadline_ms for e in now.effects)


def _notes_cancel(slot: Slot) -> bool:
    return slot.intent is not None and slot.intent.cancel_requested


@_property(
    "cancel-honoured",
    "After an acknowledged cancellation no effect starts, and clean-up has run; one that came late is not forgotten.",
    "Either the cancellation wins before the effect starts, or the client is told that it may have come too late.",
    Capability.CANCELLATION,
)
def _cancel_honoured(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if was.intent is not None:
        if was.intent.state is State.CANCELLED and _landed(was, now):
            return False
        if was.intent.cancel_requested and ((mine and _authorised(m, was, now)) or not _notes_cancel(now)):
            return False
    noted = mine and m.action.verb is Verb.CANCEL and m.outcome.kind is Kind.UNKNOWN
    if noted and not _notes_cancel(now):
        return False
    if now.intent is None or now.intent.state is not State.CANCELLED:
        return True
    return now.intent.cleaned and now.lease is None


@_property(
    "refusal-changes-nothing",
    "A refused operation changes nothing.",
    "The loser of a race must not tidy up after the winner.",
    LEDGER,
)
def _refusal_changes_nothing(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if m.outcome.kind is not Kind.REFUSED:
        return True
    kept = (was.intent, was.approval, was.lease, was.token_high, was.effects, was.progress, was.permit)
    return kept == (now.intent, now.approval, now.lease, now.token_high, now.effects, now.progress, now.permit)


@_property(
    "unknown-kept",
    "An unknown outcome stays unknown until reconciled, and is never called failure while its effect is there.",
    "A timeout says nothing about what happened at the other end.",
    LEDGER,
)
def _unknown_kept(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if now.intent is None:
        return True
    state = now.intent.state
    if state in _ENDED_WITHOUT_EFFECT and any(e.digest == now.intent.digest for e in now.effects):
        return False
    if was.intent is None or was.intent.state is not State.UNKNOWN or m.action.verb is Verb.RECONCILE:
        return True
    return state in IN_FLIGHT or state is State.COMPLETED


@_property(
    "one-lease",
    "A key has at most one valid lease at any instant, at the ticks around its expiry too.",
    "Two owners are no owner.",
    Capability.LEASES,
)
def _one_lease(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    held = was.lease is not None and m.now_ms < was.lease.expiry_ms
    if now.token_high > was.token_high and held:
        return False
    if m.action.verb is Verb.RENEW and m.outcome.kind is Kind.OK and mine:
        return held and was.lease is not None and was.lease.token == m.token
    return True


@_property(
    "lease-kept",
    "A valid lease ends by its owner's hand or with its intent, and by nothing else.",
    "A recovery that takes a lease from a living owner makes two of one.",
    Capability.LEASES,
    LEDGER,
)
def _lease_kept(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if was.lease is None or m.now_ms >= was.lease.expiry_ms:
        return True
    if now.lease is not None and now.lease.token == was.lease.token:
        return now.lease.owner == was.lease.owner
    ended = now.intent is not None and now.intent.state in TERMINAL
    return ended or (mine and m.action.verb is Verb.RELEASE and m.token == was.lease.token)


def _in_hand(m: Moment, stores: Stores) -> int:
    """How many keys are under a lease that has not run out."""
    return sum(s.lease is not None and m.now_ms < s.lease.expiry_ms for s in stores.slots)


@_property(
    "permits-kept",
    "No more keys are in hand at once than there are permits.",
    "Whoever set the limit has something behind it that bears no more.",
    Capability.PERMITS,
    Capability.LEASES,
)
def _permits_kept(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    permits = m.limits.permits
    if permits is None:
        return True
    held = was.lease is not None and m.now_ms < was.lease.expiry_ms
    if mine and m.action.verb is Verb.CLAIM and m.outcome.kind is Kind.OK:
        return _in_hand(m, m.before) - held < permits
    return now.lease == was.lease or _in_hand(m, m.after) <= max(permits, _in_hand(m, m.before))


@_property(
    "grant-kept",
    "An accepted grant is kept until it is spent on an attempt or taken back, and then never opens the gate again.",
    "A grant that is lost stops the work; one that comes back opens a gate that somebody closed.",
    Capability.APPROVALS,
    LEDGER,
)
def _grant_kept(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    old, new = was.approval, now.approval
    accepted = mine and m.action.verb is Verb.APPROVE and m.outcome.kind is Kind.OK
    if accepted and (new is None or new.status is not Grant.GRANTED):
        return False
    if old is None:
        return True
    if new is None:
        return False
    if evolve(old, status=new.status) != new:
        return m.action.verb in {Verb.APPROVE, Verb.FORGE, Verb.DENY}
    return _moves_on(m, was, now, old.status, new.status)


def _moves_on(m: Moment, was: Slot, now: Slot, old: Grant, new: Grant) -> bool:
    """Whether one grant's status may have gone from ``old`` to ``new`` in this moment."""
    if old is new:
        return True
    if new is Grant.SPENT:
        counted = was.intent is not None and now.intent is not None and now.intent.attempts > was.intent.attempts
        return old is Grant.GRANTED and counted
    if new is Grant.GRANTED:
        return old is Grant.SPENT and m.action.verb in {Verb.ACKNOWLEDGE, Verb.RECONCILE}
    return old is not Grant.DENIED


@_property(
    "progress",
    "After quiesce every intent has ended, and no lease and no permit is left.",
    "About one report in seven is a stuck item; a check of safety alone passes it.",
    LEDGER,
    sort=Sort.EVENTUALLY,
)
def _progress(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    return now.lease is None and not now.permit and (now.intent is None or now.intent.state in TERMINAL)


CONFORMS = Property(
    "conforms",
    "Every answer and every row is one that the model allows.",
    Sort.ALWAYS,
    "The model keeps every world that is still possible; when none is left, the subject did something else.",
    lambda m, was, now, mine: True,
    frozenset({LEDGER}),
)
"""Judged by the set of possible worlds, not by a predicate."""
ANSWERS = Property(
    "answers",
    "A dispatcher answers: it neither raises, nor hangs, nor answers nonsense, nor ends its process.",
    Sort.ALWAYS,
    "A refusal is an answer; an exception leaves the caller with an unknown outcome.",
    lambda m, was, now, mine: True,
)
"""Judged where the subject is called."""
ACK_DURABLE = Property(
    "ack-durable",
    "What was acknowledged survives a power cut, whole.",
    Sort.ALWAYS,
    "A process that is killed loses nothing that it wrote; a power cut loses what was not synced.",
    lambda m, was, now, mine: True,
    frozenset({LEDGER}),
)
"""Judged by what each crash state holds."""
PROPERTIES |= {prop.id: prop for prop in (CONFORMS, ANSWERS, ACK_DURABLE)}


WITNESSES: dict[str, Property] = {}
"""What a campaign must see at least once."""


def _witness(
    id_: str, name: str, *needs: Capability, verbs: Iterable[Verb] = Verb
) -> Callable[[Predicate], Predicate]:
    def add(holds: Predicate) -> Predicate:
        WITNESSES[id_] = Property(id_, name, Sort.SOMETIMES, "", holds, frozenset(needs), frozenset(verbs))
        return holds

    return add


@_witness(
    "replay", "A dispatch was answered with the first receipt.", verbs=(Verb.DISPATCH, Verb.WAKE, Verb.RECONCILE)
)
def _saw_replay(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    return m.outcome.kind is Kind.REPLAYED


@_witness("stale-refusal", "A former owner was refused.", Capability.LEASES)
def _saw_stale(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    return 0 < m.token < was.token_high and m.outcome.kind in {Kind.REFUSED, Kind.ERROR}


@_witness("takeover", "A lease was taken over after it had run out.", Capability.LEASES, verbs=(Verb.CLAIM,))
def _saw_takeover(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    return m.outcome.kind is Kind.OK and was.lease is not None


@_witness("kill-in-window", "A worker died after its effect and before the record of it.")
def _saw_window(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    return m.outcome.kind is Kind.KILLED and _landed(was, now)


@_witness("payload-conflict", "A changed payload was refused.", verbs=(Verb.SUBMIT,))
def _saw_conflict(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    return m.outcome.kind is Kind.REFUSED


@_witness(
    "expired-approval",
    "An approval was refused because it had expired.",
    Capability.APPROVALS,
    verbs=(Verb.DISPATCH, Verb.STALL),
)
def _saw_expired(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    return m.outcome.kind is Kind.REFUSED and was.approval is not None and m.now_ms >= was.approval.expiry_ms


@_witness("reconciled", "An unknown outcome was reconciled.", Capability.RECONCILE, verbs=(Verb.RECONCILE,))
def _saw_reconciled(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    return m.outcome.kind in {Kind.OK, Kind.REPLAYED}


@_witness(
    "permit-refusal",
    "A claim was refused for want of a permit.",
    Capability.PERMITS,
    Capability.LEASES,
    verbs=(Verb.CLAIM,),
)
def _saw_permit_refusal(m: Moment, was: Slot, now: Slot, mine: bool) -> bool:
    if m.limits.permits is None or m.outcome.kind is not Kind.REFUSED:
        return False
    is_live = was.intent is not None and was.intent.state not in TERMINAL
    is_free = was.lease is None or m.now_ms >= was.lease.expiry_ms
    return is_live and is_free and _in_hand(m, m.before) >= m.limits.permits


@cache
def _judged(sort: Sort, capabilities: frozenset[Capability]) -> tuple[tuple[Property, Predicate], ...]:
    """The properties of one sort that a dispatcher with these capabilities is judged by."""
    return tuple((p, p.holds) for p in PROPERTIES.values() if p.sort is sort and p.needs <= capabilities)


def broken(m: Moment, capabilities: frozenset[Capability]) -> Property | None:
    """The first *always* property that this moment breaks, or None."""
    # A refusal that changed nothing can break a promise only by what it refused: an equal payload.
    idle = m.outcome.kind is Kind.REFUSED and m.action.verb is not Verb.SUBMIT
    for key, (was, now) in enumerate(zip(m.before.slots, m.after.slots, strict=True)):
        mine = key == m.key
        if was is now and (idle or not mine):
            continue
        for prop, holds in _judged(Sort.ALWAYS, capabilities):
            if not holds(m, was, now, mine):
                return prop
    return None


def breaks(m: Moment, property_id: str) -> bool:
    """Whether this moment breaks one given property, be it the first or not."""
    holds = PROPERTIES[property_id].holds
    pairs = zip(m.before.slots, m.after.slots, strict=True)
    return any(not holds(m, was, now, key == m.key) for key, (was, now) in enumerate(pairs))


def stuck(m: Moment, capabilities: frozenset[Capability]) -> Property | None:
    """The first *eventually* property that the stores after quiesce break, or None."""
    for prop, holds in _judged(Sort.EVENTUALLY, capabilities):
        if not all(holds(m, s, s, False) for s in m.after.slots):
            return prop
    return None


@cache
def _witnesses(verb: Verb) -> tuple[tuple[str, Predicate], ...]:
    """The witnesses that an action of this verb can be."""
    return tuple((w.id, w.holds) for w in WITNESSES.values() if verb in w.verbs)


def witnessed(m: Moment) -> list[str]:
    """Which of the witnesses this moment is."""
    if m.key < 0:
        return []
    was, now = m.before.slots[m.key], m.after.slots[m.key]
    return [id_ for id_, holds in _witnesses(m.action.verb) if holds(m, was, now, True)]
