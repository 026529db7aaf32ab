"""The machine engine: a Hypothesis ``RuleBasedStateMachine`` that drives model and subject in lockstep.

One rule a verb, each with a real precondition: the verb has an action that makes sense now. Time's tick is always
enabled, so that no order ends for want of a step. The stores are real SQLite files, and a process can die at any
boundary of any operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from model.actions import ALPHABET, Action, Step, Verb
from stateful.engines.walk import BOUNDARY_MAX, verbs_of
from stateful.order import Rig, watched, Hang
from stateful.verdict import Tally

NAME = "machine"
STEPS = 40
ORDERS_AT_ONCE = 100
"""Hypothesis runs this many orders under one seed; the next hundred get the next seed."""
_DRAW_MAX = (1 << 16) - 1
_KILLS = 64 - BOUNDARY_MAX
"""Of 64 values of a draw's high bits, those from here on are boundaries at which the process dies."""


class Found(Exception):
    """An order broke a promise: Hypothesis need not go on with it."""


class OrderMachine(RuleBasedStateMachine):
    """Failure orders for one rig. ``with_rules`` makes the subclass that has the rules."""

    rig: Rig
    tally: Tally

    def __init__(self) -> None:
        super().__init__()
        self._finding = self.rig.start()
        self._enabled: dict[Verb, list[Action]] = {}

    def can(self, verb: Verb) -> bool:
        """Whether some action of the verb makes sense now; worked out once a step."""
        actions = self._enabled.get(verb)
        if actions is None:
            actions = self._enabled[verb] = self.rig.model.enabled(self.rig.judge.world, verb)
        return bool(actions)

    def act(self, verb: Verb, draw: int) -> None:
        """Take the action of ``verb`` that ``draw`` chooses; its high bits say whether the process dies in it."""
        if not self.can(verb):
            return
        actions = self._enabled[verb]
        action = actions[(draw & 0x3FF) % len(actions)]
        boundary = (draw >> 10) - _KILLS + 1
        step = Step(action, boundary if boundary > 0 and ALPHABET[verb].stores else 0)
        self._enabled = {}
        self._finding = self._finding or self.rig.do(step)
        if self._finding is not None:
            raise Found

    def teardown(self) -> None:
        """Quiesce, and count the order."""
        finding = self._finding or self.rig.finish()
        self.tally.take(self.rig, self.rig.ran(finding))


def _rule(verb: Verb) -> Callable[..., None]:
    def act(self: OrderMachine, draw: int) -> None:
        self.act(verb, draw)

    act.__name__ = str(verb)
    decorated: Callable[..., None] = rule(draw=st.integers(0, _DRAW_MAX))(act)
    if verb is not Verb.ADVANCE:
        decorated = precondition(lambda self: self.can(verb))(decorated)
    return decorated


def machine_for(rig: Rig, tally: Tally) -> type[OrderMachine]:
    """A state machine class for one rig, with a rule for each verb that its subject has a part for."""
    rules: dict[str, Any] = {str(v): _rule(v) for v in Verb if v in verbs_of(rig)}
    return type("FailureOrders", (OrderMachine,), {**rules, "rig": rig, "tally": tally})


def run(rig: Rig, first_seed: int, orders: int, tally: Tally) -> None:
    """Run ``orders`` orders; what is found goes into ``tally``."""
    while tally.orders < orders:
        done = tally.orders
        count = min(ORDERS_AT_ONCE, orders - done)
        _run_some(rig, first_seed * 1_000_003 + done, count, tally)
        if tally.orders == done:
            tally.failed = "Hypothesis ended without running an order"
            return
        if tally.stop_at_first and tally.broken:
            return


def _run_some(rig: Rig, number: int, count: int, tally: Tally) -> None:
    chosen = settings(
        max_examples=count,
        stateful_step_count=STEPS,
        database=None,
        deadline=None,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    machine = seed(number)(machine_for(rig, tally))
    try:
        run_state_machine_as_test(machine, settings=chosen)
    except Found:
        pass
