"""The reducer: one-minimal, the same promise, the same every time."""

from __future__ import annotations

import pytest

from impl.mistakes import MISTAKES
from stateful.engines.walk import walk
from stateful.reduce import Reducer
from stateful.verdict import Tally

PLANTED = [
    ("", {"idempotency": "none"}, 6),
    ("", {"idempotency": "client"}, 6),
    ("", {"approval": "advisory"}, 3),
    ("", {"fencing": "none"}, 5),
    ("", {"checkpoint": "before-effect"}, 3),
    ("AppliesTwice", {}, 4),
    ("LosesSubmit", {}, 1),
]


@pytest.fixture(params=PLANTED, ids=lambda p: p[0] or str(p[1]))
def planted(request, rig):
    """A rig with a planted failure, a long order that shows it, the promise, and the most steps that it needs."""
    name, choices, most = request.param
    failing = rig(name, **choices)
    tally = Tally("walk", stop_at_first=True)
    walk(failing, 0, 200, tally)
    broken = next(iter(tally.broken.values()))
    return failing, broken, most


def test_no_step_can_go(planted):
    """The order that is left breaks the same promise, is short, and survives without any one of its steps."""
    failing, broken, most = planted
    done = Reducer(failing, broken.property_id).reduce(broken.steps)
    again = failing.run(done.steps, until=broken.property_id).finding
    fewer = [
        failing.run(done.steps[:n] + done.steps[n + 1 :], until=broken.property_id).finding
        for n in range(len(done.steps))
    ]

    assert (broken.property_id, True, True) == (again.property_id, done.minimal, len(done.steps) <= most), [
        s.label for s in done.steps
    ]
    assert broken.property_id not in {f.property_id for f in fewer if f}


MINIMA = {
    "M025": (3, "submit k1 p1|claim w1 k1|reap_read w1|reap_apply w1"),
    "M027": (4, "submit k1 p1|claim w2 k1|approve k1 p1|dispatch w2 k1 done|advance k1 lease|claim w1 k1"),
    "M035": (3, "submit k1 p1|claim w1 k1|approve k1 p1|dispatch w1 k1 done|acknowledge w1 k1|cancel k1"),
    "M061": (
        6,
        (
            "submit k1 p1|approve k1 p1|submit k2 p1|claim w1 k2|advance k1 approval|approve k2 p1|claim w2 k2|"
            "dispatch w1 k2 done"
        ),
    ),
    "M075": (5, "submit k1 p1|claim w1 k1|approve k1 p1|stall w1 k1|wake w1 transient|acknowledge w1 k1"),
    "M096": (
        5,
        (
            "submit k1 p1|approve k1 p1|claim w1 k1|dispatch w1 k1 done|dispatch w1 k1 done|advance k1 lease|claim w2 k1|"
            "dispatch w2 k1 silent"
        ),
    ),
    "M110": (
        7,
        (
            "submit k1 p1|claim w1 k1|approve k1 p1|release w1 k1|claim w2 k1|dispatch w2 k1 done|acknowledge w2 k1|"
            "dispatch w1 k1 done|checkpoint w1 k1"
        ),
    ),
}
"""One-minimal orders that are longer than need be, and the fewest steps, which ``benchmarks.minima`` found."""


@pytest.mark.parametrize("mistake", MINIMA)
def test_it_leaps_to_the_minimum(rig, steps, mistake):
    """An order that no single removal makes shorter is left for a shorter one that breaks the promise another way."""
    least, labels = MINIMA[mistake]
    order, promise = steps(*labels.split("|")), MISTAKES[mistake].breaks
    failing = rig(mistake=mistake)
    plain = Reducer(failing, promise, leaps=False).reduce(order)
    done = Reducer(failing, promise).reduce(order)

    assert (least, True) == (len(done.steps), done.minimal), [s.label for s in done.steps]
    assert len(plain.steps) > least
    assert done.steps == failing.run(done.steps, until=promise).steps[: len(done.steps)]


def test_it_is_deterministic(planted):
    """The same order is reduced to the same order, in as many runs."""
    failing, broken, _ = planted
    done = [Reducer(failing, broken.property_id).reduce(broken.steps) for _ in range(2)]

    assert done[0] == done[1]


def test_an_order_that_does_not_fail_again_is_kept(rig, steps):
    """What cannot be repeated is handed back whole, and not called minimal."""
    order = steps("submit k1 p1", "claim w1 k1")
    done = Reducer(rig(), "one-effect").reduce(order)

    assert (order, False, "the order did not fail again when it was repeated") == (
        done.steps,
        done.minimal,
        done.detail,
    )


def test_the_bound_on_runs_is_kept(rig, steps):
    """A reduction that runs out of runs says that it is not minimal."""
    order = steps("submit k2 p1", "submit k1 p2", "submit k1 p1", "submit k2 p2", "submit k1 p1")
    done = Reducer(rig("LosesSubmit"), "intent-kept", 1).reduce(order)

    assert (False, 1) == (done.minimal, len(done.steps))


def test_names_come_in_order(rig, steps):
    """The first worker and the first key to appear are w1 and k1, and a lost answer that does not matter is not lost."""
    order = steps("submit k2 p1", "claim w2 k2", "dispatch w2 k2 silent")
    done = Reducer(rig("AppliesTwice", approval="advisory"), "valid-approval", leaps=False).reduce(order)

    assert ["submit k1 p1", "claim w1 k1", "dispatch w1 k1 done"] == [s.label for s in done.steps]
