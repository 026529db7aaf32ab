"""The alphabet: labels, and when an action makes sense."""

from __future__ import annotations

import pytest

from model import ALPHABET, Action, Alphabet, Contracts, Step, Verb
from model.actions import instant
from model.contracts import Checkpoint
from model.words import Slot

ALPHABET_OF_TWO = Alphabet(workers=2, keys=2)


@pytest.mark.parametrize(("workers", "keys"), [(1, 1), (2, 1), (2, 2), (3, 3)])
def test_labels_are_unique(workers: int, keys: int) -> None:
    """No two actions share a label, so that a label is enough to write an action down."""
    alphabet = Alphabet(workers, keys)

    actions = [action for group in alphabet.by_verb.values() for action in group]

    assert len(actions) == len({action.label for action in actions})
    assert len(actions) == len(alphabet.by_label)


def test_an_action_names_its_worker_and_its_key_or_none() -> None:
    """Workers and keys are counted from 0, and -1 is none."""
    actions = ALPHABET_OF_TWO.by_label.values()

    assert ({-1, 0, 1}, {-1, 0, 1}) == ({a.worker for a in actions}, {a.key for a in actions})


@pytest.mark.parametrize("label", ALPHABET_OF_TWO.by_label)
def test_labels_round_trip(label: str) -> None:
    """A label leads back to its action."""
    assert label == ALPHABET_OF_TWO.by_label[label].label


def test_every_verb_has_a_form_and_actions() -> None:
    """No verb is without a sentence for the reader, and none is without an action."""
    assert set(Verb) == set(ALPHABET) == set(ALPHABET_OF_TWO.by_verb)
    assert all(form.says for form in ALPHABET.values())
    assert all(ALPHABET_OF_TWO.by_verb.values())


def test_the_plain_tick_is_one_action() -> None:
    """Time that just passes belongs to no key, so it is there once."""
    plain = [a for a in ALPHABET_OF_TWO.by_verb[Verb.ADVANCE] if a.choice == "tick"]

    assert [Action(Verb.ADVANCE, choice="tick")] == plain


def test_there_is_always_something_to_do(play) -> None:
    """In the first world clients can submit and approve, the policy can move, and time can pass."""
    verbs = {a.verb for a in play().enabled()}

    assert {Verb.SUBMIT, Verb.APPROVE, Verb.ADVANCE, Verb.BUMP_POLICY} <= verbs


def test_what_needs_an_answer_waits_for_it(play) -> None:
    """Acknowledge and checkpoint make no sense before a worker has an answer and a receipt."""
    run = play()
    acknowledge, checkpoint = (run.model.alphabet.by_label[f"{v} w1 k1"] for v in ("acknowledge", "checkpoint"))
    run.do("submit k1 p1", "approve k1 p1", "claim w1 k1")
    assert not run.model.is_enabled(acknowledge, run.world)
    assert not run.model.is_enabled(checkpoint, run.world)

    run.do("dispatch w1 k1 done")

    assert run.model.is_enabled(acknowledge, run.world)
    assert run.model.is_enabled(checkpoint, run.world)


def test_only_whoever_holds_a_token_can_send(play) -> None:
    """A worker that has claimed nothing dispatches nothing, and neither does it stall."""
    run = play()
    run.do("submit k1 p1", "approve k1 p1", "claim w1 k1")

    senders = {a.worker for a in run.enabled() if a.verb in {Verb.DISPATCH, Verb.STALL} and a.key == 0}

    assert {0} == senders


def test_a_checkpoint_before_the_effect_needs_no_receipt(play) -> None:
    """Under the weaker checkpoint contract a worker may write its checkpoint as soon as it has the lease."""
    run = play(Contracts(checkpoint=Checkpoint.BEFORE_EFFECT))
    run.do("submit k1 p1", "claim w1 k1")

    assert run.model.is_enabled(run.model.alphabet.by_label["checkpoint w1 k1"], run.world)


def test_a_dead_worker_can_only_restart(play) -> None:
    """A killed worker does nothing until it is started again; its wall clock goes on being somebody else's."""
    run = play()
    run.do("submit k1 p1", "claim w1 k1", "kill w1")

    assert {Verb.RESTART, Verb.JUMP_WALL} == {a.verb for a in run.enabled() if a.worker == 0}


def test_a_stalled_worker_can_only_wake_or_die(play) -> None:
    """A worker that froze before its send does nothing but wake or die."""
    run = play()
    run.do("submit k1 p1", "approve k1 p1", "claim w1 k1", "stall w1 k1")

    assert {Verb.WAKE, Verb.KILL, Verb.JUMP_WALL} == {a.verb for a in run.enabled() if a.worker == 0}


def test_time_never_moves_back(play) -> None:
    """An instant that has passed is not offered."""
    run = play()
    run.do("submit k1 p1", "claim w1 k1", "advance k1 lease+1")

    enabled = run.model.enabled(run.world, Verb.ADVANCE)

    assert not [a.label for a in enabled if a.choice.startswith("lease")]


def test_only_what_is_still_to_come_has_an_instant(play) -> None:
    """A lease, a grant and a deadline have their instant while they last, and none once it does not matter."""
    run = play()
    run.do("submit k1 p1", "approve k1 p1", "claim w1 k1")
    before = [
        instant(run.stores.slots[0], what) for what in ("lease-1", "lease", "approval", "deadline", "deadline+1")
    ]
    run.do("revoke k1", "cancel k1")
    after = [
        instant(run.stores.slots[0], what) for what in ("lease-1", "lease", "approval", "deadline", "deadline+1")
    ]

    assert [99, 100, 250, 600, 601] == before
    assert (
        [None] * 5
        == after
        == [instant(Slot(), what) for what in ("lease-1", "lease", "approval", "deadline", "tick")]
    )


def test_a_step_says_where_it_dies() -> None:
    """A step with a crash inside names the boundary; a whole one is named like its action."""
    action = ALPHABET_OF_TWO.by_label["claim w1 k1"]

    assert "claim w1 k1 killed at boundary 3" == Step(action, 3).label
    assert "claim w1 k1" == Step(action).label
