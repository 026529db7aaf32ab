"""The machine engine against Hypothesis machines with as many rules that do nothing.

Hypothesis switches rules off at random, by the name of their function. An empty machine whose rules are written out has
a name for each; one whose rules come out of a loop may have one name for all, and then nothing is ever switched off,
which is much cheaper. Both are floors worth knowing.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import seed
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from benchmarks.rows import Row, by_turns, rate_of
from model.contracts import Contracts
from stateful.engines import machine
from stateful.order import Rig
from stateful.subject import load_subject
from stateful.verdict import Tally

ORDERS = 200
SEED = 1
TARGET = 0.7


class Empty(RuleBasedStateMachine):
    """A machine whose rules only count."""

    steps = 0


def _empty(rules: int, *, draws: bool, apart: bool) -> type[Empty]:
    parts: dict[str, Any] = {}
    for number in range(rules):

        def count(self: Empty, draw: int = 0) -> None:
            Empty.steps += 1

        if apart:
            count.__name__ = f"rule_{number}"
        decorated: Any = rule(draw=st.integers(0, machine.DRAW_MAX)) if draws else rule()
        parts[f"rule_{number}"] = decorated(count)
    return type("EmptyMachine", (Empty,), parts)


def _steps_of(kind: type[Empty]) -> int:
    before = Empty.steps
    for number in range(0, ORDERS, machine.ORDERS_AT_ONCE):
        chosen = machine.settings_for(machine.ORDERS_AT_ONCE)
        run_state_machine_as_test(seed(SEED + number)(kind), settings=chosen)
    return Empty.steps - before


def steps_of(rig: Rig) -> int:
    """Run orders on a rig whose stores are files; how many steps that were."""
    before = rig.steps_done
    machine.run(rig, SEED, ORDERS, Tally(machine.NAME))
    return rig.steps_done - before


def rows() -> list[Row]:
    """Steps a second, against four machines that do nothing."""
    with Rig(load_subject(), Contracts(), in_memory=False) as rig:
        rules = len(machine.machine_for(rig, Tally(machine.NAME)).setup_state().rules)
        floors = {
            f"{rules} empty rules, {names}, {drawing}": _empty(rules, draws=draws, apart=apart)
            for names, apart in (("a name each", True), ("one name for all", False))
            for drawing, draws in (("with draws", True), ("no draws", False))
        }
        ours, *theirs = by_turns(
            lambda: rate_of(partial(steps_of, rig)),
            *(partial(rate_of, partial(_steps_of, kind)) for kind in floors.values()),
        )
    return [
        Row("machine", against, "steps/s", ours, floor, TARGET) for against, floor in zip(floors, theirs, strict=True)
    ]
