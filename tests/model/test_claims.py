"""Claims as somebody writes them: read whole, put in order, and refused with the reason."""

from __future__ import annotations

import pytest

from model.claims import CLAIMS, EXCLUDED, Claimed, ClaimError, all_claimed, claimed_from

PROGRESS = {"id": "progress", "choice": "operator"}
BUDGET = {"id": "retry-budget", "limit": 3}


def test_a_claim_is_read_with_all_that_is_said_of_it() -> None:
    """In whose words, where it stands, and what is excluded."""
    raw = {"id": "approval-once", "says": "once", "where": "README", "excludes": [*EXCLUDED]}

    assert Claimed(CLAIMS["approval-once"], "once", "README", "", 0, EXCLUDED) == claimed_from(raw)


def test_nothing_need_be_said_of_a_claim() -> None:
    """All but the identifier may be left out, where the claim has neither choice nor limit."""
    claimed = claimed_from({"id": "approval-once"})

    assert ("approval-once", "", "", "", 0, ()) == (
        claimed.id, claimed.says, claimed.where, claimed.choice, claimed.limit, claimed.excludes,
    )  # fmt: skip


@pytest.mark.parametrize("choice", CLAIMS["progress"].choices)
def test_a_choice_is_one_that_the_claim_has(choice: str) -> None:
    """Each of its choices can be made."""
    assert choice == claimed_from({"id": "progress", "choice": choice}).choice


@pytest.mark.parametrize("limit", [1, 3])
def test_a_limit_counts_from_one(limit: int) -> None:
    """A claim with a limit is made with a number."""
    assert limit == claimed_from({"id": "retry-budget", "limit": limit}).limit


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (3, '3 is no claim: it is an object with an "id" out of at-most-once, '),
        ({}, "{} is no claim: "),
        ({"id": 3}, "{'id': 3} is no claim: "),
        ({"id": "never"}, "there is no claim 'never'; the claims are at-most-once, "),
        ({"id": "approval-once", "b": 1, "a": 1}, "claim 'approval-once' has no 'a', 'b'"),
        ({"id": "progress"}, "claim 'progress' is made with choice ''; it is one of alone, operator"),
        ({"id": "approval-once", "choice": "alone"}, "claim 'approval-once' has no choices, and is made with 'alone'"),
        ({"id": "approval-once", "limit": 1}, "claim 'approval-once' is made with limit 1; its limit is none"),
        *(
            (BUDGET | {"limit": n}, f"claim 'retry-budget' is made with limit {n!r}; its limit is a number from 1")
            for n in (0, -1, True, 1.5, "3", None)
        ),
        *(
            (
                {"id": "approval-once", "excludes": what},
                f"claim 'approval-once' excludes {what!r}; what can be excluded is pause, ended",
            )
            for what in ("pause", ["pause", "deaths"])
        ),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_claim_is_refused(raw: object, said: str) -> None:
    """The message says which claim it is about, and what would be right."""
    with pytest.raises(ClaimError) as caught:
        claimed_from(raw)

    assert said == str(caught.value)[: len(said)]


def test_claims_stand_in_the_order_of_the_table() -> None:
    """Whatever order they were made in."""
    made = all_claimed([PROGRESS, {"id": "approval-once"}, BUDGET])

    assert ["approval-once", "retry-budget", "progress"] == [one.id for one in made]


def test_a_claim_is_made_once() -> None:
    """All that were made twice are named, each once."""
    with pytest.raises(ClaimError) as caught:
        all_claimed([BUDGET, PROGRESS, BUDGET, BUDGET, PROGRESS])

    assert "claimed twice: progress, retry-budget; leave one of them" == str(caught.value)
