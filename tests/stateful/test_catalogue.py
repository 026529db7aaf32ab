"""The catalogue: what there is to kill, found on the model and listed by nobody."""

from __future__ import annotations

import pytest

from model.actions import ALPHABET
from model.step import Model
from stateful.engines.catalogue import targets

ALL = frozenset(ALPHABET)


@pytest.fixture(scope="module")
def found():
    return targets(Model(), ALL, 0)


def replayed(model, steps):
    world = model.first()
    for step in steps:
        assert model.is_enabled(step.action, world), step.label
        world, _ = model.step(world, step.action)
    return world


def test_every_operation_is_in_it(found):
    """Each verb that touches a store is swept."""
    assert {verb for verb, form in ALPHABET.items() if form.stores} == {t.action.verb for t in found}


def test_each_target_once(found):
    """A target is an operation, its choice and its ending; none comes twice, and they are in order."""
    names = [t.name for t in found]

    assert sorted(set(names)) == names


def test_the_order_leads_up_to_it(found):
    """Played on the model, each prefix makes sense step by step, and the operation ends as the target says."""
    model = Model()
    ends = [model.step(replayed(model, t.prefix), t.action)[1].kind for t in found]

    assert [t.kind for t in found] == ends


def test_the_order_is_no_longer_than_needed(found):
    """The endings that every dispatcher has are reached in the fewest steps."""
    lengths = {t.name: len(t.prefix) for t in found}
    wanted = {"submit p1 -> ok": 0, "claim -> ok": 1, "dispatch silent -> unknown": 3, "acknowledge -> ok": 4}

    assert wanted == {name: lengths[name] for name in wanted}


def test_a_seed_gives_the_same_catalogue(found):
    """The same seed, the same catalogue."""
    assert found == targets(Model(), ALL, 0)


def test_only_what_the_subject_has(found):
    """Verbs that a subject has no part for are not swept."""
    verbs = frozenset(v for v, form in ALPHABET.items() if form.needs is None)

    assert set() == {t.action.verb for t in targets(Model(), verbs, 0)} - verbs
