"""The price of each weaker contract: a shortest failure order that breaks a promise under it alone."""

from __future__ import annotations

import pytest
from attrs import frozen

from model import CHOICES, contracts_from

UNCHANGED = {
    ("attempt_timeout", "thread"),
    ("attempt_timeout", "process"),
    *(("durability", choice) for choice in CHOICES["durability"][1:]),
}
"""What the model cannot tell apart: how an attempt is ended, and what a disk keeps."""


@frozen
class Price:
    """A contract's weaker choice, what it breaks, and the failure order."""

    contract: str
    choice: str
    breaks: str
    order: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.contract}={self.choice} breaks {self.breaks}"


def price(contract: str, choice: str, breaks: str, *order: str) -> Price:
    return Price(contract, choice, breaks, order)


READY = ("submit k1 p1", "approve k1 p1", "claim w1 k1")

PRICES = [
    price(
        "deadline",
        "per-attempt",
        "deadline-kept",
        "submit k1 p1",
        "advance k1 deadline",
        "approve k1 p1",
        "claim w1 k1",
        "dispatch w1 k1 done",
    ),
    price("retry", "every-error", "bounded-attempts", *READY, "dispatch w1 k1 permanent", "acknowledge w1 k1"),
    price("cancellation", "forceful", "cancel-honoured", "submit k1 p1", "cancel k1"),
    price(
        "approval",
        "caller",
        "valid-approval",
        "submit k1 p1",
        "forge k1 signature",
        "claim w1 k1",
        "dispatch w1 k1 done",
    ),
    price(
        "approval",
        "caller",
        "valid-approval",
        "submit k1 p1",
        "approve k1 p2",
        "claim w1 k1",
        "dispatch w1 k1 done",
    ),
    price("approval", "caller", "valid-approval", *READY, "bump_policy", "dispatch w1 k1 done"),
    price("approval", "advisory", "valid-approval", "submit k1 p1", "claim w1 k1", "dispatch w1 k1 done"),
    price("checkpoint", "before-effect", "true-completion", "submit k1 p1", "claim w1 k1", "checkpoint w1 k1"),
    price("idempotency", "client", "one-effect", *READY, "dispatch w1 k1 silent", "dispatch w1 k1 done"),
    price("idempotency", "none", "one-effect", *READY, "dispatch w1 k1 done", "dispatch w1 k1 done"),
    price("idempotency", "none", "right-payload", "submit k1 p1", "submit k1 p2"),
    price(
        "fencing",
        "claim-only",
        "no-stale-token",
        "submit k1 p1",
        "claim w1 k1",
        "advance k1 lease",
        "claim w2 k1",
        "renew w1 k1",
    ),
    price("fencing", "none", "one-lease", "submit k1 p1", "claim w1 k1", "claim w2 k1"),
]


def _name(one: Price) -> str:
    return one.name


def test_every_weaker_choice_has_its_price() -> None:
    """Every choice that the model can tell from the default is shown to break something."""
    weaker = {(name, str(choice)) for name, choices in CHOICES.items() for choice in choices[1:]}

    assert weaker - UNCHANGED == {(one.contract, one.choice) for one in PRICES}


@pytest.mark.parametrize("one", PRICES, ids=_name)
def test_the_weaker_choice_breaks_it(play, one: Price) -> None:
    """Under the weaker choice the failure order breaks the promise at its last step, and nothing before."""
    run = play(contracts_from({one.contract: one.choice}))
    run.do(*one.order[:-1])
    assert [] == run.broken()

    run.do(one.order[-1])

    assert [one.breaks] == run.broken()


@pytest.mark.parametrize("one", PRICES, ids=_name)
def test_the_default_survives_it(play, one: Price) -> None:
    """Under the default the same failure order, as far as a caller can go along, breaks nothing."""
    assert [] == play().try_(*one.order).broken()


@pytest.mark.parametrize("one", PRICES, ids=_name)
def test_no_step_can_be_left_out(play, one: Price) -> None:
    """Each failure order is shortest: without any one of its steps nothing of the kind happens."""
    contracts = contracts_from({one.contract: one.choice})
    needless = [
        label
        for index, label in enumerate(one.order)
        if one.breaks in play(contracts).try_(*one.order[:index], *one.order[index + 1 :]).broken()
    ]

    assert [] == needless


def test_a_forceful_end_lets_the_effect_happen(play) -> None:
    """Under forceful cancellation an effect lands after the cancellation was acknowledged."""
    run = play(contracts_from({"cancellation": "forceful"}))
    run.do(*READY, "stall w1 k1", "cancel k1", "wake w1 done")

    assert ["cancel-honoured", "cancel-honoured"] == run.broken()
    assert 1 == len(run.stores.slots[0].effects)


LATE_WAKE = (*READY, "stall w1 k1", "advance k1 lease", "claim w2 k1", "reconcile w2 k1", "wake w1 done")
"""The former owner's send arrives after its successor has asked the sink what became of the key."""


@pytest.mark.parametrize(("fencing", "effects"), [("sink-and-ledger", 0), ("claim-only", 1), ("none", 1)])
def test_only_a_fenced_sink_turns_a_former_owner_away(play, fencing: str, effects: int) -> None:
    """A sink that has seen the newer token refuses the older one; without fencing the late effect lands."""
    run = play(contracts_from({"fencing": fencing}))
    run.do(*LATE_WAKE)

    assert effects == len(run.stores.slots[0].effects)


def test_a_grant_alone_fences_the_sink(play) -> None:
    """A former owner's send does not land after a newer grant, even before the newer token has reached the sink."""
    run = play()
    run.do(*READY, "stall w1 k1", "advance k1 lease", "claim w2 k1", "wake w1 done")

    assert [] == run.broken()


@pytest.mark.parametrize(("contract", "choice"), sorted(UNCHANGED))
def test_what_the_model_cannot_tell_apart(play, contract: str, choice: str) -> None:
    """The choices that are left to other engines give the very same worlds in the model."""
    order = (*READY, "dispatch w1 k1 silent", "advance k1 lease", "claim w2 k1", "reconcile w2 k1")

    default, weaker = play(), play(contracts_from({contract: choice}))
    default.do(*order)
    weaker.do(*order)

    assert default.world == weaker.world
