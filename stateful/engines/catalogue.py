"""What there is to kill: for each operation and each way it can end, a short order that leads up to it.

The orders are found on the model alone, by random walk and reduction, so that a new action or a new outcome is swept
without anybody listing it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from attrs import frozen

from model.actions import ALPHABET, Action, Step, Verb
from model.step import Model
from model.words import Kind, World
from stateful.engines.walk import Chooser

TRIES = 400
STEPS = 30


@frozen
class Target:
    """An operation about to be killed: the order that leads up to it, the action, and how it would end."""

    prefix: tuple[Step, ...]
    action: Action
    kind: Kind

    @property
    def name(self) -> str:
        """The operation without its worker and key, and its ending: ``dispatch silent -> unknown``."""
        choice = f" {self.action.choice}" if self.action.choice else ""
        return f"{self.action.verb}{choice} -> {self.kind}"


def targets(model: Model, verbs: frozenset[Verb], seed: int) -> list[Target]:
    """One target for each operation, choice and ending that random walks on the model reach."""
    rng = random.Random(seed)  # noqa: S311 - a seed must give the same run
    chooser = Chooser(model, verbs, rng)
    found: dict[str, Target] = {}
    dry = 0
    while dry < TRIES:
        dry += 1
        chooser.reweigh()
        world = model.first()
        steps: list[Step] = []
        for _ in range(STEPS):
            action = chooser.choose(world).action
            then, outcome = model.step(world, action)
            if ALPHABET[action.verb].stores:
                target = Target(tuple(steps), action, outcome.kind)
                if target.name not in found:
                    found[target.name], dry = Target(_shortened(model, target), action, outcome.kind), 0
            steps.append(Step(action))
            world = then
    return [found[name] for name in sorted(found)]


def _replayed(model: Model, steps: tuple[Step, ...]) -> World:
    world = model.first()
    for step in steps:
        if model.is_enabled(step.action, world):
            world, _ = model.step(world, step.action)
    return world


def _leads_up(model: Model, steps: tuple[Step, ...], target: Target) -> bool:
    world = _replayed(model, steps)
    if not model.is_enabled(target.action, world):
        return False
    return model.step(world, target.action)[1].kind is target.kind


def _shortened(model: Model, target: Target) -> tuple[Step, ...]:
    """The order without the steps that do not matter to how the operation ends."""
    steps = target.prefix
    for index in range(len(steps) - 1, -1, -1):
        shorter = steps[:index] + steps[index + 1 :]
        if _leads_up(model, shorter, target):
            steps = shorter
    return tuple(_enabled_ones(model, steps))


def _enabled_ones(model: Model, steps: tuple[Step, ...]) -> Iterator[Step]:
    world = model.first()
    for step in steps:
        if model.is_enabled(step.action, world):
            yield step
            world, _ = model.step(world, step.action)
