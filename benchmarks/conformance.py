"""Conformance: transitions of the model's graph executed on SQLite in memory, from a restored snapshot each.

The floor is a number, 10,000 transitions a second: there is no smaller thing to run that does the same.
"""

from __future__ import annotations

from benchmarks.rows import Row, rate_of
from model.search import ModelBounds, ModelSpace
from model.step import Model
from stateful.engines.conformance import Conformance, Conformer
from stateful.order import Rig
from stateful.subject import load_subject

BOUNDS = ModelBounds(kills=0, policy_bumps=0, grants=1, payload_changes=False)
STATES = 2_000
FLOOR = 10_000.0
STEPS_OF_A_PEER = 12.7


def _run(space: ModelSpace) -> Conformance:
    model = space.model
    with Rig(load_subject(), model.contracts, model.limits, keys=model.keys) as rig:
        return Conformer(space, rig, states_max=STATES).run()


def rows() -> list[Row]:
    """Transitions a second, and executed steps for each transition covered."""
    space = ModelSpace(Model(), BOUNDS)
    _run(space)  # the space is built once; what is measured is the execution
    done: list[Conformance] = []

    def once() -> int:
        done.append(_run(space))
        return done[-1].executed

    rates = sorted(rate_of(once) for _ in range(3))
    steps = done[-1].executed / done[-1].covered
    return [
        Row("conformance", "10,000 transitions/s", "transitions/s", rates[1], FLOOR, 1),
        Row(
            "conformance, steps an edge", "a peer's 12.7", "steps", steps, STEPS_OF_A_PEER, 2 / STEPS_OF_A_PEER, False
        ),
    ]
