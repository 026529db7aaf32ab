"""The power of the properties: each is broken by a moment of its own, and kept by the nearest legal one."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve, frozen

from model import (
    ALPHABET,
    PROPERTIES,
    WITNESSES,
    Action,
    Capability,
    Kind,
    Limits,
    Moment,
    Outcome,
    Sort,
    Stores,
    Verb,
)
from model.properties import breaks, broken, stuck, witnessed
from model.words import Approval, Effect, Grant, Intent, Lease, Progress, Slot, State

ALL = frozenset(Capability)

GRANT = Approval("p1", "alice", expiry_ms=250, revision=1, status=Grant.GRANTED)
WAITING = Slot(Intent("p1", State.PENDING, deadline_ms=600))
READY = evolve(WAITING, approval=GRANT, lease=Lease("w1", 1, expiry_ms=100), token_high=1)
EFFECT = Effect("p1", token=1, at_ms=10)


def with_intent(slot: Slot, **changes: Any) -> Slot:
    """The slot with parts of its intent changed."""
    assert slot.intent is not None
    return evolve(slot, intent=evolve(slot.intent, **changes))


def with_grant(slot: Slot, **changes: Any) -> Slot:
    """The slot with parts of its approval changed."""
    assert slot.approval is not None
    return evolve(slot, approval=evolve(slot.approval, **changes))


SENT = with_grant(with_intent(READY, state=State.DISPATCHING, attempts=1), status=Grant.SPENT)
LANDED = evolve(SENT, effects=(EFFECT,), fence=1, calls=1)
DOUBTED = with_intent(LANDED, state=State.UNKNOWN)
LOST = with_intent(SENT, state=State.UNKNOWN)
DONE = with_intent(evolve(LANDED, lease=None), state=State.COMPLETED, receipt=1)
FAILED = with_intent(evolve(SENT, lease=None), state=State.FAILED)
CANCELLED = with_intent(evolve(READY, lease=None), state=State.CANCELLED, cleaned=True)
TAKEN_OVER = evolve(READY, lease=Lease("w2", 2, expiry_ms=200), token_high=2)


@frozen
class Seen:
    """One moment of key k1, in as few words as will do."""

    verb: Verb
    was: Slot
    now: Slot
    kind: Kind = Kind.OK
    value: int = 0
    choice: str = ""
    token: int = 1
    at_ms: int = 10
    revision: int = 1
    reason: str = ""
    beside: Slot | None = None
    """Another key's slot, before and after."""
    permits: int | None = None

    def moment(self) -> Moment:
        form = ALPHABET[self.verb]
        beside = (self.beside,) if self.beside is not None else ()
        action = Action(self.verb, 0 if form.worker else -1, 0 if form.key else -1, self.choice)
        return Moment(
            before=Stores(self.revision, (self.was, *beside)),
            after=Stores(self.revision, (self.now, *beside)),
            now_ms=self.at_ms,
            action=action,
            outcome=Outcome(self.kind, value=self.value, reason=self.reason),
            key=0,
            token=self.token if form.worker else 0,
            limits=Limits(permits=self.permits),
        )


@frozen
class Pair:
    """A moment that breaks a property (or is a witness), and its nearest neighbour that does not (or is none)."""

    id: str
    what: str
    bad: Seen
    legal: Seen

    @property
    def name(self) -> str:
        return f"{self.id}: {self.what}"


def pair(id_: str, what: str, bad: Seen, **legal: Any) -> Pair:
    return Pair(id_, what, bad, evolve(bad, **legal))


DISPATCHED = Seen(Verb.DISPATCH, READY, LANDED)
TWICE = evolve(DOUBTED, effects=(EFFECT, EFFECT), calls=2)
RESENT = with_intent(evolve(DOUBTED, calls=2), attempts=2, state=State.DISPATCHING)
WRONG = Effect("p2", token=1, at_ms=10)
CLAIMED = Seen(Verb.CLAIM, WAITING, evolve(WAITING, lease=Lease("w1", 1, 110), token_high=1), value=1, token=0)
SECOND = evolve(CLAIMED, beside=READY, permits=1)
STALE = evolve(TAKEN_OVER, lease=Lease("w1", 1, expiry_ms=110))
REJECTED = evolve(SENT, calls=1, rejected=1)
PUT_BACK = with_intent(evolve(READY, calls=1, rejected=1), attempts=1)
NEXT = evolve(READY, lease=Lease("w2", 2, expiry_ms=200), token_high=2)


def refused_gate(what: str, **approval: Any) -> Pair:
    was = with_grant(READY, **approval)
    now = evolve(LANDED, approval=evolve(was.approval, status=Grant.SPENT))
    return pair("valid-approval", what, Seen(Verb.DISPATCH, was, now), was=READY, now=LANDED)


BREAKING = [
    pair("one-effect", "a second effect", Seen(Verb.DISPATCH, DOUBTED, TWICE), now=RESENT),
    pair("right-payload", "an effect of another payload", evolve(DISPATCHED, now=evolve(LANDED, effects=(WRONG,))),
         now=LANDED),
    pair("right-payload", "a changed payload accepted", Seen(Verb.SUBMIT, WAITING, WAITING, choice="p2"),
         kind=Kind.REFUSED),
    pair("right-payload", "a changed payload replayed",
         Seen(Verb.SUBMIT, DONE, DONE, Kind.REPLAYED, value=1, choice="p2"), choice="p1"),
    pair("right-payload", "an equal payload refused", Seen(Verb.SUBMIT, WAITING, WAITING, Kind.REFUSED, choice="p1"),
         reason="busy"),
    pair("right-payload", "a payload swapped", Seen(Verb.RELEASE, READY, with_intent(READY, digest="p2")),
         now=evolve(READY, lease=None)),
    refused_gate("expired", expiry_ms=10),
    refused_gate("forged", authentic=False),
    refused_gate("not by an approver", approver="mallory"),
    refused_gate("for another payload", digest="p2"),
    refused_gate("under another policy", revision=2),
    refused_gate("revoked", status=Grant.REVOKED),
    refused_gate("denied", status=Grant.DENIED),
    refused_gate("spent before", status=Grant.SPENT),
    pair("valid-approval", "none at all", evolve(DISPATCHED, was=evolve(READY, approval=None)), was=READY),
    pair("valid-approval", "left unspent", evolve(DISPATCHED, now=evolve(LANDED, approval=GRANT)), now=LANDED),
    pair("valid-approval", "a stalled send", Seen(Verb.STALL, with_grant(READY, authentic=False), SENT), was=READY),
    pair("effect-has-intent", "an effect of nobody's",
         Seen(Verb.WAKE, evolve(SENT, intent=None), evolve(LANDED, intent=None)), was=SENT, now=LANDED),
    pair("intent-kept", "an intent gone", Seen(Verb.RELEASE, READY, evolve(READY, intent=None)),
         now=evolve(READY, lease=None)),
    pair("intent-kept", "an acknowledged intent not there", Seen(Verb.SUBMIT, Slot(), Slot(), choice="p1"),
         now=WAITING),
    pair("no-stale-token", "a former owner's renewal", Seen(Verb.RENEW, TAKEN_OVER, STALE, Kind.UNKNOWN),
         was=READY, now=evolve(READY, lease=Lease("w1", 1, expiry_ms=110))),
    pair("no-stale-token", "a former owner's record",
         Seen(Verb.ACKNOWLEDGE, with_intent(NEXT, state=State.UNKNOWN, attempts=1),
              with_intent(NEXT, state=State.DISPATCHING, attempts=1)), token=2),
    pair("no-stale-token", "a former owner's checkpoint",
         Seen(Verb.CHECKPOINT, evolve(DONE, token_high=2), evolve(DONE, token_high=2, progress=Progress(1, 1))),
         token=2),
    pair("no-stale-token", "a token given twice", evolve(CLAIMED, was=evolve(WAITING, token_high=1)), was=WAITING),
    pair("no-stale-token", "a token that fell",
         Seen(Verb.RELEASE, NEXT, evolve(NEXT, lease=None, token_high=1), token=2),
         now=evolve(NEXT, lease=None)),
    pair("true-completion", "completed without effect",
         Seen(Verb.ACKNOWLEDGE, SENT, with_intent(evolve(SENT, lease=None), state=State.COMPLETED, receipt=1)),
         was=LANDED, now=DONE),
    pair("true-completion", "completed without receipt",
         Seen(Verb.ACKNOWLEDGE, LANDED, with_intent(DONE, receipt=0)), now=DONE),
    pair("true-completion", "a checkpoint without effect",
         Seen(Verb.CHECKPOINT, SENT, evolve(SENT, progress=Progress(1, 0))),
         was=LANDED, now=evolve(LANDED, progress=Progress(1, 1))),
    pair("first-receipt", "another receipt", Seen(Verb.DISPATCH, DONE, DONE, Kind.REPLAYED, value=2), value=1),
    pair("terminal-stays", "a failure that came back",
         Seen(Verb.ACKNOWLEDGE, FAILED, with_intent(FAILED, state=State.PENDING)), now=FAILED),
    pair("terminal-stays", "an end exchanged for another",
         Seen(Verb.CANCEL, FAILED, with_intent(FAILED, state=State.CANCELLED, cleaned=True)), now=FAILED),
    pair("bounded-attempts", "one more than allowed",
         Seen(Verb.DISPATCH, with_intent(LOST, attempts=3), with_intent(LOST, attempts=4), Kind.UNKNOWN),
         was=with_intent(LOST, attempts=2), now=with_intent(LOST, attempts=3)),
    pair("bounded-attempts", "one more than counted",
         Seen(Verb.DISPATCH, with_intent(evolve(LOST, calls=3), attempts=2),
              with_intent(evolve(LOST, calls=4), attempts=3), Kind.UNKNOWN),
         was=with_intent(evolve(LOST, calls=2), attempts=2), now=with_intent(evolve(LOST, calls=3), attempts=3)),
    pair("bounded-attempts", "a permanent error retried", Seen(Verb.ACKNOWLEDGE, REJECTED, PUT_BACK),
         was=evolve(REJECTED, rejected=0), now=evolve(PUT_BACK, rejected=0)),
    pair("deadline-kept", "a send at the deadline",
         Seen(Verb.STALL, with_grant(READY, expiry_ms=900), with_grant(SENT, expiry_ms=900), at_ms=600), at_ms=599),
    pair("deadline-kept", "an effect at the deadline",
         Seen(Verb.WAKE, SENT, evolve(LANDED, effects=(Effect("p1", 1, at_ms=600),)), at_ms=600),
         now=evolve(LANDED, effects=(Effect("p1", 1, at_ms=599),)), at_ms=599),
    pair("cancel-honoured", "an effect after it", Seen(Verb.WAKE, CANCELLED, evolve(CANCELLED, effects=(EFFECT,))),
         was=SENT, now=LANDED),
    pair("cancel-honoured", "no clean-up", Seen(Verb.CANCEL, READY, with_intent(CANCELLED, cleaned=False)),
         now=CANCELLED),
    pair("cancel-honoured", "a lease left", Seen(Verb.CANCEL, READY, evolve(CANCELLED, lease=READY.lease)),
         now=CANCELLED),
    pair("refusal-changes-nothing", "a lease dropped on the way out",
         Seen(Verb.RELEASE, READY, evolve(READY, lease=None), Kind.REFUSED), kind=Kind.OK),
    pair("unknown-kept", "called a failure", Seen(Verb.ACKNOWLEDGE, LOST, FAILED), verb=Verb.RECONCILE),
    pair("unknown-kept", "put back to be sent again",
         Seen(Verb.REAP_APPLY, LOST, with_intent(LOST, state=State.PENDING), at_ms=100),
         now=evolve(LOST, lease=None)),
    pair("unknown-kept", "an effect called a failure",
         Seen(Verb.ACKNOWLEDGE, LANDED, with_intent(evolve(LANDED, lease=None), state=State.FAILED)),
         was=SENT, now=FAILED),
    pair("one-lease", "given away one tick early",
         Seen(Verb.CLAIM, READY, NEXT, value=2, token=0, at_ms=99), at_ms=100),
    pair("one-lease", "renewed when it had run out",
         Seen(Verb.RENEW, READY, evolve(READY, lease=Lease("w1", 1, 200)), at_ms=100), at_ms=99),
    pair("lease-kept", "reaped one tick early",
         Seen(Verb.REAP_APPLY, READY, evolve(READY, lease=None), at_ms=99), at_ms=100),
    pair("lease-kept", "released by another", Seen(Verb.RELEASE, READY, evolve(READY, lease=None), token=2), token=1),
    pair("grant-kept", "revoked and open again",
         Seen(Verb.APPROVE, with_grant(READY, status=Grant.REVOKED), READY, Kind.REPLAYED, choice="again"),
         now=with_grant(READY, status=Grant.REVOKED)),
    pair("permits-kept", "one key too many", SECOND, permits=2),
    pair("permits-kept", "beside a lease that runs", evolve(SECOND, at_ms=99), at_ms=100),
    pair("permits-kept", "by a claim that died", evolve(SECOND, kind=Kind.KILLED), permits=2),
    pair("grant-kept", "lost", Seen(Verb.RENEW, READY, evolve(READY, approval=None)), now=READY),
    pair("grant-kept", "spent on nothing", Seen(Verb.RENEW, READY, with_grant(READY, status=Grant.SPENT)),
         now=READY),
    pair("cancel-honoured", "a late one forgotten",
         Seen(Verb.RENEW, with_intent(LOST, cancel_requested=True), LOST), was=LOST),
]  # fmt: skip

WITNESSED = [
    pair("replay", "a dispatch", Seen(Verb.DISPATCH, DONE, DONE, Kind.REPLAYED, value=1), kind=Kind.OK),
    pair("replay", "no mere submit", Seen(Verb.WAKE, LANDED, LANDED, Kind.REPLAYED, value=1), verb=Verb.SUBMIT,
         choice="p1"),
    pair("permit-refusal", "all of them taken", evolve(SECOND, now=WAITING, kind=Kind.REFUSED), permits=2),
    pair("permit-refusal", "a lease that runs", evolve(SECOND, now=WAITING, kind=Kind.REFUSED, at_ms=99), at_ms=100),
    pair("permit-refusal", "an intent that lives", evolve(SECOND, now=WAITING, kind=Kind.REFUSED),
         was=CANCELLED, now=CANCELLED),
    pair("permit-refusal", "a key that is free", evolve(SECOND, now=WAITING, kind=Kind.REFUSED), was=READY, now=READY),
    pair("stale-refusal", "a former owner", Seen(Verb.RENEW, TAKEN_OVER, TAKEN_OVER, Kind.REFUSED), token=2),
    pair("stale-refusal", "no newcomer", Seen(Verb.CLAIM, TAKEN_OVER, TAKEN_OVER, Kind.REFUSED), token=0),
    pair("takeover", "a lease that had run out", Seen(Verb.CLAIM, READY, NEXT, value=2, token=0, at_ms=100),
         was=evolve(READY, lease=None)),
    pair("kill-in-window", "after the effect", Seen(Verb.DISPATCH, READY, LANDED, Kind.KILLED), now=SENT),
    pair("kill-in-window", "no answer lost", Seen(Verb.DISPATCH, READY, LANDED, Kind.KILLED), kind=Kind.OK),
    pair("payload-conflict", "a changed payload", Seen(Verb.SUBMIT, WAITING, WAITING, Kind.REFUSED, choice="p2"),
         kind=Kind.REPLAYED, choice="p1"),
    pair("expired-approval", "at its expiry", Seen(Verb.DISPATCH, READY, READY, Kind.REFUSED, at_ms=250), at_ms=249),
    pair("reconciled", "an effect found", Seen(Verb.RECONCILE, DOUBTED, DONE, Kind.REPLAYED, value=1),
         now=DOUBTED, kind=Kind.REFUSED),
]  # fmt: skip


def _name(one: Pair) -> str:
    return one.name


def _first(seen: Seen) -> str | None:
    prop = broken(seen.moment(), ALL)
    return prop.id if prop else None


def test_every_property_has_a_breaking_moment() -> None:
    """No property that is judged at every step goes without a test of its power."""
    judged_elsewhere = {"conforms", "answers", "ack-durable"}
    always = {p.id for p in PROPERTIES.values() if p.sort is Sort.ALWAYS}

    assert always - judged_elsewhere == {one.id for one in BREAKING}


def test_every_witness_has_its_moment() -> None:
    """No witness goes without a test of its power."""
    assert set(WITNESSES) == {one.id for one in WITNESSED}


@pytest.mark.parametrize("one", BREAKING, ids=_name)
def test_a_broken_property_is_reported(one: Pair) -> None:
    """The moment that breaks a property is reported under its name."""
    assert one.id == _first(one.bad)


@pytest.mark.parametrize("one", BREAKING, ids=_name)
def test_the_legal_neighbour_is_not(one: Pair) -> None:
    """The nearest legal moment breaks nothing at all."""
    assert None is _first(one.legal)


@pytest.mark.parametrize("one", BREAKING, ids=_name)
def test_one_property_is_asked_about_alone(one: Pair) -> None:
    """The moment that breaks a property breaks it when only this one is asked about; the legal neighbour does not."""
    assert (True, False) == (breaks(one.bad.moment(), one.id), breaks(one.legal.moment(), one.id))


@pytest.mark.parametrize("one", BREAKING, ids=_name)
def test_what_a_dispatcher_lacks_is_not_judged(one: Pair) -> None:
    """Without the capabilities that a property needs, its breach is another property's or nobody's."""
    needs = PROPERTIES[one.id].needs
    for capability in needs:
        found = broken(one.bad.moment(), ALL - {capability})
        assert found is None or found.id != one.id


@pytest.mark.parametrize("one", WITNESSED, ids=_name)
def test_a_witness_is_seen(one: Pair) -> None:
    """A witness is seen where it is, and not in the moment next to it."""
    assert one.id in witnessed(one.bad.moment())
    assert one.id not in witnessed(one.legal.moment())


@pytest.mark.parametrize("left", [READY, WAITING, LOST, evolve(DONE, lease=READY.lease)], ids=str)
def test_what_is_stuck_is_reported(left: Slot) -> None:
    """After quiesce a live intent or a lease that is left breaks progress."""
    prop = stuck(Seen(Verb.ADVANCE, left, left, choice="tick").moment(), ALL)

    assert PROPERTIES["progress"] is prop


@pytest.mark.parametrize("ended", [DONE, FAILED, CANCELLED, Slot()], ids=str)
def test_what_has_ended_is_not_stuck(ended: Slot) -> None:
    """After quiesce an ended intent without a lease, or none at all, breaks nothing."""
    assert None is stuck(Seen(Verb.ADVANCE, ended, ended, choice="tick").moment(), ALL)


def test_progress_is_not_asked_for_before_quiesce() -> None:
    """A live intent in the middle of a run breaks nothing."""
    assert None is _first(Seen(Verb.ADVANCE, READY, READY, choice="tick"))


def test_another_key_is_judged_too() -> None:
    """An operation on one key that harms another is reported."""
    moment = Seen(Verb.RELEASE, READY, evolve(READY, lease=None)).moment()
    harmed = evolve(
        moment,
        before=Stores(1, (*moment.before.slots, FAILED)),
        after=Stores(1, (*moment.after.slots, with_intent(FAILED, state=State.PENDING))),
    )

    prop = broken(harmed, ALL)

    assert PROPERTIES["terminal-stays"] is prop
    assert breaks(harmed, "terminal-stays")


@pytest.mark.parametrize(
    ("seen", "starts"),
    [
        (Seen(Verb.DISPATCH, SENT, evolve(SENT, calls=1), Kind.ERROR), True),
        (Seen(Verb.DISPATCH, SENT, evolve(SENT, effects=(Effect("p1", 1, at_ms=10),)), Kind.UNKNOWN), True),
        (Seen(Verb.STALL, SENT, SENT), True),
        (Seen(Verb.STALL, SENT, SENT, Kind.REFUSED), False),
        (Seen(Verb.DISPATCH, SENT, SENT), False),
        (Seen(Verb.WAKE, SENT, evolve(SENT, calls=1), Kind.ERROR), False),
    ],
    ids=[
        "the sink was called",
        "an effect is there",
        "it froze",
        "it was refused",
        "nothing moved",
        "authorised before",
    ],
)
def test_a_send_that_nobody_counted_is_a_start_all_the_same(seen: Seen, starts: bool) -> None:
    """What the sink has seen, or a worker says, is a start that the deadline forbids, whatever the ledger counted."""
    assert starts is breaks(evolve(seen, at_ms=600).moment(), "deadline-kept")


def test_stores_are_compared_key_by_key() -> None:
    """Stores of other keys before than after are no moment."""
    moment = Seen(Verb.RELEASE, READY, READY).moment()
    with pytest.raises(ValueError, match="zip"):
        broken(evolve(moment, after=Stores(1, (READY, READY))), ALL)


@pytest.mark.parametrize("prop", [*PROPERTIES.values(), *WITNESSES.values()], ids=lambda p: p.id)
def test_a_name_is_a_sentence(prop: Any) -> None:
    """A property is named by a sentence, and every promise says why it is one."""
    assert prop.name[0].isupper()
    assert prop.name.endswith(".")
    assert prop.rationale or prop.sort is Sort.SOMETIMES
