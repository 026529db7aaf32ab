"""Permits: at most so many keys are in hand at once, and a permit comes back with the lease that it was taken with."""

from __future__ import annotations

import pytest
from attrs import evolve

from model import Kind, Limits, Stores
from model.properties import PROPERTIES, broken, stuck
from tests.model.conftest import ALL

ONE = Limits(permits=1)
TWO_KEYS = ("submit k1 p1", "approve k1 p1", "advance tick", "submit k2 p1", "approve k2 p1")
IN_HAND = (*TWO_KEYS, "claim w1 k1")

ENDS = {
    "released": ("release w1 k1",),
    "completed": ("dispatch w1 k1 done", "acknowledge w1 k1"),
    "failed": ("dispatch w1 k1 permanent", "acknowledge w1 k1"),
    "reconciled": ("dispatch w1 k1 silent", "reconcile w1 k1"),
    "cancelled": ("cancel k1",),
    "denied": ("deny k1",),
    "run out": ("advance k1 lease",),
    "run out with a send on its way": ("stall w1 k1", "advance k1 lease"),
    "reaped": ("advance k1 lease", "reap_read w2", "reap_apply w2"),
    "expired": ("advance k1 deadline", "reap_read w2", "reap_apply w2"),
}
"""How a lease ends, after which somebody else may take a key in hand."""


def permits(run):
    """Whether each key's permit has been taken and has not come back."""
    return tuple(slot.permit for slot in run.stores.slots)


def test_a_claim_is_refused_for_want_of_a_permit(play) -> None:
    """While the one permit is taken another key is refused, with the reason, and nothing has changed."""
    run = play(limits=ONE)
    run.do(*IN_HAND)
    before = run.stores

    outcome = run.do("claim w2 k2")

    assert (Kind.REFUSED, "no permit left") == (outcome.kind, outcome.reason)
    assert before is run.stores
    assert {"permit-refusal"} == run.witnessed()


@pytest.mark.parametrize("end", ENDS)
def test_a_permit_comes_back_with_the_end_of_the_lease(play, end: str) -> None:
    """However the lease ends, the other key is granted then, and no promise broke on the way."""
    run = play(limits=ONE)
    run.do(*IN_HAND, *ENDS[end])
    held = permits(run)[0]

    assert Kind.OK is run.do("claim w2 k2").kind
    assert (end.startswith("run out"), True) == (held, permits(run)[1])
    assert [] == run.broken()


@pytest.mark.parametrize(("to", "kind"), [("lease-1", Kind.REFUSED), ("lease", Kind.OK), ("lease+1", Kind.OK)])
def test_a_permit_is_free_when_its_lease_has_run_out(play, to: str, kind: Kind) -> None:
    """In its last millisecond a lease holds its permit, and not a tick later."""
    run = play(limits=ONE)
    run.do(*IN_HAND, f"advance k1 {to}")

    assert kind is run.do("claim w2 k2").kind


def test_a_renewal_keeps_the_permit(play) -> None:
    """A lease that is renewed holds its permit for as long as it lasts then."""
    run = play(limits=ONE)
    run.do(*IN_HAND, "advance k1 lease-1", "renew w1 k1", "advance tick", "advance tick")

    assert Kind.REFUSED is run.do("claim w2 k2").kind


def test_a_key_is_taken_over_with_its_own_permit(play) -> None:
    """A stale claim does not count against the limit that is needed to claim its key again."""
    run = play(limits=ONE)
    run.do(*IN_HAND, "dispatch w1 k1 lost", "kill w1", "advance k1 lease")

    assert Kind.OK is run.do("claim w2 k1").kind
    assert (True, False) == permits(run)
    assert Kind.REFUSED is run.do("claim w2 k2").kind


def test_a_key_that_nobody_may_claim_is_refused_for_that(play) -> None:
    """What has ended, is held or is not there is refused for its own sake, and is no witness of the limit."""
    run = play(limits=ONE)
    run.do(*IN_HAND, "cancel k2")
    reasons = [run.do(f"claim w2 {key}").reason for key in ("k1", "k2")]

    assert ["held by another", "already ended"] == reasons
    assert set() == run.witnessed()


def test_as_many_keys_are_in_hand_as_there_are_permits(play) -> None:
    """With two permits the third key is refused; without a limit none is, and no permit is taken."""
    claims = [f"submit k{n} p1" for n in (1, 2, 3)] + ["claim w1 k1", "claim w1 k2", "claim w2 k3"]
    runs = [play(limits=Limits(permits=limit), keys=3) for limit in (2, 3, None)]
    kinds = [run.do(*claims).kind for run in runs]

    assert [Kind.REFUSED, Kind.OK, Kind.OK] == kinds
    assert [(True, True, False), (True,) * 3, (False,) * 3] == [permits(run) for run in runs]


def test_a_permit_that_is_left_breaks_progress(play) -> None:
    """After quiesce a permit that has not come back is as stuck as a lease is."""
    run = play(limits=ONE)
    run.do("submit k1 p1", "claim w1 k1")
    run.do("cancel k1")
    moment, (ended, other) = run.moments[-1], run.stores.slots
    kept = evolve(moment, after=Stores(1, (evolve(ended, permit=True), other)))

    assert [None, PROPERTIES["progress"]] == [stuck(m, ALL) for m in (moment, kept)]


def test_a_refusal_that_takes_the_permit_changes_something(play) -> None:
    """A refused claim that gives a permit back, or takes one, is not one that changes nothing."""
    run = play(limits=ONE)
    run.do(*IN_HAND, "claim w2 k2")
    moment, (held, free) = run.moments[-1], run.stores.slots
    taken = evolve(moment, after=Stores(1, (held, evolve(free, permit=True))))

    assert [None, PROPERTIES["refusal-changes-nothing"]] == [broken(m, ALL) for m in (moment, taken)]
