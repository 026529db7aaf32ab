"""The machine engine: a Hypothesis ``RuleBasedStateMachine`` that drives model and subject in lockstep.

A rule for each verb, or for a few that share one, each with a real precondition: there is an action that makes sense
now. Time's tick is always enabled, so that no order ends for want of a step. The stores are real SQLite files, and a
process can die at any boundary of any operation.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from model.actions import ALPHABET, Action, Step, Verb
from stateful.engines.walk import BOUNDARY_MAX, Chooser, verbs_of
from stateful.order import Rig
from stateful.verdict import Tally

NAME = "machine"
STEPS = 40
ORDERS_AT_ONCE = 100
"""Hypothesis runs this many orders under one seed; the next hundred get the next seed."""
STRIDE = 4
"""A rule that follows the guide takes one to four steps: what leads into the depths need not be drawn step by step."""
GUIDES = 8
"""So many rules follow the guide: Hypothesis chooses evenly among rules, and a quarter of the steps should."""
_GROUPED = {
    "disturb": (Verb.FORGE, Verb.REVOKE, Verb.BUMP_POLICY, Verb.JUMP_WALL, Verb.POWER_CUT),
    "call_off": (Verb.DENY, Verb.CANCEL),
    "reap": (Verb.REAP_APPLY, Verb.REAP_READ),
    "dispatch_too": (Verb.DISPATCH,),
    "wake_too": (Verb.WAKE,),
    "restart_too": (Verb.RESTART,),
}
RULES: dict[str, tuple[Verb, ...]] = _GROUPED | {
    str(verb): (verb,)
    for verb in Verb
    if verb not in {*_GROUPED["disturb"], *_GROUPED["call_off"], *_GROUPED["reap"]}
}
"""The rules and their verbs. Hypothesis chooses evenly among rules: what matters has two, what disturbs shares one."""
DRAW_MAX = (1 << 17) - 1


class Found(Exception):  # noqa: N818 - an event, not an error
    """An order broke a promise: Hypothesis need not go on with it."""


class OrderMachine(RuleBasedStateMachine):
    """Failure orders for one rig. ``machine_for`` makes the subclass that has the rules."""

    rig: Rig
    tally: Tally
    guide: Chooser
    troubles: list[Exception]

    def __init__(self) -> None:
        super().__init__()
        with self._noting():
            self._finding = self.rig.start()
        self._enabled: dict[Verb, list[Action]] = {}

    def can(self, verbs: tuple[Verb, ...]) -> bool:
        """Whether some action of the verbs makes sense now."""
        return any(self.actions(verb) for verb in verbs)

    def actions(self, verb: Verb) -> list[Action]:
        """The verb's actions that make sense now, time's tick apart; worked out once a step."""
        actions = self._enabled.get(verb)
        if actions is None:
            actions = self.rig.model.enabled(self.rig.judge.world, verb)
            if verb is Verb.ADVANCE:
                actions = [a for a in actions if a.key >= 0]
            self._enabled[verb] = actions
        return actions

    def act(self, verbs: tuple[Verb, ...], draw: int) -> None:
        """Take the action of ``verbs`` that ``draw`` chooses; its high bits say whether the process dies in it."""
        groups = [actions for verb in verbs if (actions := self.actions(verb))]
        if groups:
            actions = groups[draw % len(groups)]
            self._do(actions[(draw >> 2 & 0xFF) % len(actions)], draw)

    def follow(self, draw: int) -> None:
        """Take a few steps with the guide, for the worker and key that ``draw`` chooses; the last one may die."""
        for left in range(draw % STRIDE, -1, -1):
            action = self.guide.follow(self.rig.judge.world, draw // STRIDE)
            if action is None:
                return
            self._do(action, 0 if left else draw)

    def tick(self) -> None:
        """Let a millisecond pass: always enabled, so that no order ends for want of a step."""
        self._do(self.rig.model.alphabet.by_label["advance tick"], 0)

    def _do(self, action: Action, draw: int) -> None:
        # The highest values, which Hypothesis does not favour: one draw in nine, shrinking towards no death at all.
        boundary = (draw >> 10) - (DRAW_MAX >> 10) + BOUNDARY_MAX
        step = Step(action, boundary if boundary > 0 and ALPHABET[action.verb].stores else 0)
        self._enabled = {}
        with self._noting():
            self._finding = self._finding or self.rig.do(step)
        if self._finding is not None:
            raise Found

    def teardown(self) -> None:
        """Quiesce, and count the order."""
        with self._noting():
            finding = self._finding or self.rig.finish()
        self.tally.take(self.rig, self.rig.ran(finding))

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note what goes wrong with the order itself: Hypothesis would run it again, and tell of that instead."""
        try:
            yield
        except Exception as error:
            self.troubles.append(error)
            raise


def _named(name: str, function: Callable[..., None]) -> Callable[..., None]:
    """Hypothesis' swarm testing switches rules off by their functions' names: each rule needs one of its own."""
    function.__name__ = name
    function.__qualname__ = f"{OrderMachine.__qualname__}.{name}"
    return function


def _rule(name: str, verbs: tuple[Verb, ...]) -> Callable[..., None]:
    def act(self: OrderMachine, draw: int) -> None:
        self.act(verbs, draw)

    act = _named(name, act)

    decorated: Callable[..., None] = rule(draw=st.integers(0, DRAW_MAX))(act)
    return precondition(lambda self: self.can(verbs))(decorated)


def _follow(name: str) -> Callable[..., None]:
    def follow(self: OrderMachine, draw: int) -> None:
        self.follow(draw)

    follow = _named(name, follow)

    decorated: Callable[..., None] = rule(draw=st.integers(0, DRAW_MAX))(follow)
    return decorated


def machine_for(rig: Rig, tally: Tally) -> type[OrderMachine]:
    """A state machine class for one rig, with the rules that its subject has a part for."""
    verbs = verbs_of(rig)
    rules: dict[str, Any] = {"always": rule()(OrderMachine.tick)}
    for name, group in RULES.items():
        have = tuple(v for v in group if v in verbs)
        if have:
            rules[name] = _rule(name, have)
    for number in range(GUIDES):
        rules[f"follow_{number}"] = _follow(f"follow_{number}")
    guide = Chooser(rig.model, verbs, random.Random(0))  # noqa: S311 - it only follows
    return type(
        "FailureOrders", (OrderMachine,), {**rules, "rig": rig, "tally": tally, "guide": guide, "troubles": []}
    )


def run(rig: Rig, first_seed: int, orders: int, tally: Tally) -> None:
    """Run ``orders`` orders; what is found goes into ``tally``."""
    while tally.orders < orders:
        done = tally.orders
        count = min(ORDERS_AT_ONCE, orders - done)
        _run_some(rig, first_seed * 1_000_003 + done, count, tally)
        if tally.orders == done:
            tally.failed = "Hypothesis ended without running an order"
            return
        if tally.enough:
            return


def settings_for(orders: int) -> settings:
    """Settings that only generate: nothing is shrunk, kept or reported, as the reducer and the tally do that."""
    return settings(
        max_examples=orders,
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


def _run_some(rig: Rig, number: int, count: int, tally: Tally) -> None:
    machine = seed(number)(machine_for(rig, tally))
    try:
        with suppress(Found):
            run_state_machine_as_test(machine, settings=settings_for(count))
    except Exception:
        if machine.troubles:
            raise machine.troubles[0] from None
        raise
