"""Every seeded mistake is caught by the walk, told in a short trace, and the trace blames nobody else."""

from __future__ import annotations

import pytest
from attrs import define

from impl.mistakes import MISTAKES
from model.contracts import Contracts
from stateful.engines.walk import walk
from stateful.order import Rig
from stateful.reduce import Reducer
from stateful.subject import load_subject
from stateful.verdict import Tally

SEEDS = (6, 5, 2, 3)
"""Tried in turn, until one of them yields a short trace."""
ORDERS = 750
"""With each seed."""
SHORT = 8


@define
class Until(Tally):
    """A tally that stops at the first order that breaks one promise."""

    promise: str = ""

    def take(self, rig, ran):
        super().take(rig, ran)
        return self.promise in self.broken


def shortest(rig, promise):
    """The shortest reduced order that breaks the promise, of those that the seeds lead to; None if there is none."""
    best = None
    for seed in SEEDS:
        tally = Until("walk", promise=promise)
        walk(rig, seed, ORDERS, tally)
        if promise in tally.broken:
            steps = Reducer(rig, promise, leaps=False).reduce(tally.broken[promise].steps).steps
            best = min(best or steps, steps, key=len)
        if best is not None and len(best) <= SHORT:
            break
    return best


@pytest.fixture(scope="module")
def plain():
    with Rig(load_subject(), Contracts()) as rig:
        yield rig


@pytest.mark.parametrize("one", [pytest.param(one, id=one.id) for one in MISTAKES.values() if not one.shown_by])
def test_a_mistake_is_caught(one, plain):
    """Random orders break the promise that it is about; the reduced order breaks it again, and only there."""
    with Rig(load_subject(mistake=one.id), Contracts()) as mistaken:
        steps = shortest(mistaken, one.breaks)
        assert steps is not None, f"{one.id}: no order of {ORDERS} with each of the seeds {SEEDS} breaks {one.breaks}"
        again = mistaken.run(steps, until=one.breaks).finding

    assert again is not None
    assert one.breaks == again.property_id
    assert len(steps) <= SHORT, [step.label for step in steps]
    assert plain.run(steps).finding is None


def test_the_unchanged_dispatcher_is_not_caught(plain):
    """The same seeds find nothing in the dispatcher as it is, so that what they find is the mistake."""
    tally = Tally("walk")
    walk(plain, SEEDS[0], ORDERS, tally)

    assert {} == tally.broken
    assert ORDERS == tally.orders
