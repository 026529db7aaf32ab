"""Why a promise is broken, in a few words: what the moment that broke it shows."""

from __future__ import annotations

from collections.abc import Callable

from attrs import fields

from model.actions import Verb
from model.properties import PROPERTIES, Moment
from model.words import Grant, Kind, Slot, State

Words = Callable[[Moment, Slot, Slot, str], str]


def because(property_id: str, moment: Moment) -> str:
    """What a moment shows of a promise that it breaks; empty where there are no words for it."""
    words, holds = _WORDS.get(property_id), PROPERTIES[property_id].holds
    for number, (was, now) in enumerate(zip(moment.before.slots, moment.after.slots, strict=True)):
        if words is not None and not holds(moment, was, now, number == moment.key):
            return words(moment, was, now, f"k{number + 1}")
    return ""


def _right_payload(m: Moment, was: Slot, now: Slot, key: str) -> str:
    intent = was.intent or now.intent
    wrong = [e.digest for e in now.effects if intent is not None and e.digest != intent.digest]
    if intent is not None and wrong:
        return f"{key} holds {intent.digest}, and has an effect with {wrong[0]}"
    if was.intent and now.intent and was.intent.digest != now.intent.digest:
        return f"the payload of {key} changed from {was.intent.digest} to {now.intent.digest}"
    return (
        f"a {'payload equal to' if m.outcome.kind is Kind.REFUSED else 'payload other than'} that of {key} was "
        + ("refused" if m.outcome.kind is Kind.REFUSED else "taken")
    )


def _valid_approval(m: Moment, was: Slot, now: Slot, key: str) -> str:
    approval = was.approval
    if approval is None:
        return f"{key} was sent without an approval"
    if approval.status not in {Grant.GRANTED, Grant.SPENT}:
        return f"{key} was sent under an approval that is {approval.status}"
    if not approval.authentic or approval.approver not in m.limits.approvers:
        return f"{key} was sent under an approval that no approver gave"
    if was.intent is not None and approval.digest != was.intent.digest:
        return f"{key} was sent with {was.intent.digest} under an approval for {approval.digest}"
    if m.now_ms >= approval.expiry_ms:
        return f"{key} was sent at {m.now_ms} under an approval until {approval.expiry_ms}"
    if approval.revision != m.before.revision:
        return f"{key} was sent under an approval of policy {approval.revision}, and it is {m.before.revision}"
    return f"{key} was sent under an approval that " + ("is not spent" if now.approval else "is gone")


def _no_stale_token(m: Moment, was: Slot, now: Slot, key: str) -> str:
    if m.action.verb is Verb.CLAIM:
        return f"{key} was granted again under token {now.token_high}, and {was.token_high} was granted before"
    if now.token_high < was.token_high:
        return f"the newest token of {key} fell from {was.token_high} to {now.token_high}"
    return f"token {m.token} wrote to {key} after token {was.token_high} was granted"


def _true_completion(m: Moment, was: Slot, now: Slot, key: str) -> str:
    effects = f"and it has {len(now.effects)} effects"
    if now.intent is not None and now.intent.state is State.COMPLETED and (not now.effects or now.progress is None):
        return f"{key} is completed with receipt {now.intent.receipt or 'none'}, {effects}"
    return f"the checkpoint of {key} has receipt {now.progress.receipt if now.progress else 'none'}, {effects}"


def _first_receipt(m: Moment, was: Slot, now: Slot, key: str) -> str:
    value = m.outcome.value
    if value == 0:
        return f"a replay of {key} returned no receipt"
    return f"a replay of {key} returned " + (
        f"receipt {value}" if value > 0 else "a receipt that the sink never gave"
    )


def _bounded_attempts(m: Moment, was: Slot, now: Slot, key: str) -> str:
    attempts = max(now.calls, now.intent.attempts if now.intent else 0)
    if attempts > m.limits.max_attempts:
        return f"{key} is at attempt {attempts}, and {m.limits.max_attempts} are allowed"
    return f"{key} waits for another attempt after a permanent error"


def _deadline_kept(m: Moment, was: Slot, now: Slot, key: str) -> str:
    return f"{key} was sent at {m.now_ms}, and its deadline was {was.intent.deadline_ms if was.intent else 0}"


def _cancel_honoured(m: Moment, was: Slot, now: Slot, key: str) -> str:
    if len(now.effects) > len(was.effects) or now.calls > was.calls:
        return f"{key} was sent after its cancellation"
    if now.intent is not None and now.intent.state is State.CANCELLED and not now.intent.cleaned:
        return f"{key} is cancelled, and clean-up has not run"
    if now.intent is not None and now.intent.state is State.CANCELLED and now.lease is not None:
        return f"{key} is cancelled, and still leased"
    return f"the cancellation of {key} was not kept"


def _refusal(m: Moment, was: Slot, now: Slot, key: str) -> str:
    names = [a.name for a in fields(Slot) if getattr(was, a.name) != getattr(now, a.name)]
    return f"a refusal changed {', '.join(names)} of {key}"


def _unknown_kept(m: Moment, was: Slot, now: Slot, key: str) -> str:
    state = now.intent.state if now.intent else "gone"
    return f"{key} is {state}, and " + ("its effect is there" if now.effects else "was unknown until now")


def _one_lease(m: Moment, was: Slot, now: Slot, key: str) -> str:
    if m.action.verb is Verb.RENEW:
        return f"a lease of {key} was renewed that had ended"
    lease = was.lease
    return f"{key} was granted at {m.now_ms} while {lease.owner} held it until {lease.expiry_ms}" if lease else ""


def _lease_kept(m: Moment, was: Slot, now: Slot, key: str) -> str:
    lease = was.lease
    return f"the lease of {lease.owner} on {key} ended at {m.now_ms}, before {lease.expiry_ms}" if lease else ""


def _permits_kept(m: Moment, was: Slot, now: Slot, key: str) -> str:
    leases = [s.lease for n, s in enumerate(m.before.slots) if f"k{n + 1}" != key]
    others = sum(lease is not None and m.now_ms < lease.expiry_ms for lease in leases)
    have = f"{others} other {'key was' if others == 1 else 'keys were'} in hand"
    return f"{key} was taken in hand at {m.now_ms} while {have}, with permits for {m.limits.permits} in all"


def _grant_kept(m: Moment, was: Slot, now: Slot, key: str) -> str:
    old, new = was.approval, now.approval
    return f"the approval of {key} was {old.status if old else 'given'} and is {new.status if new else 'gone'}"


_WORDS: dict[str, Words] = {
    "one-effect": lambda m, was, now, key: f"{key} has {len(now.effects)} effects",
    "right-payload": _right_payload,
    "valid-approval": _valid_approval,
    "effect-has-intent": lambda m, was, now, key: f"an effect under {key} that has no intent",
    "intent-kept": lambda m, was, now, key: f"the intent of {key} is {'gone' if was.intent else 'not there'}",
    "no-stale-token": _no_stale_token,
    "true-completion": _true_completion,
    "first-receipt": _first_receipt,
    "terminal-stays": lambda m, was, now, key: (
        f"{key} was {was.intent.state if was.intent else ''} and is {now.intent.state if now.intent else 'gone'}"
    ),
    "bounded-attempts": _bounded_attempts,
    "deadline-kept": _deadline_kept,
    "cancel-honoured": _cancel_honoured,
    "refusal-changes-nothing": _refusal,
    "unknown-kept": _unknown_kept,
    "one-lease": _one_lease,
    "lease-kept": _lease_kept,
    "permits-kept": _permits_kept,
    "grant-kept": _grant_kept,
}
