"""Possible worlds: what may be true after an operation was interrupted.

A killed operation leaves one world per prefix of its stages, and nobody knows which. Each later observation removes
the worlds that it contradicts. If none is left, the subject did what the model does not allow.
"""

from __future__ import annotations

from collections.abc import Iterable

from model.actions import Action
from model.step import Model, dead
from model.words import Outcome, Stores, World

Worlds = tuple[World, ...]
"""The worlds that are possible now, each once, in the order in which they were found."""


def after(model: Model, worlds: Iterable[World], action: Action, outcome: Outcome) -> Worlds:
    """The worlds in which ``action`` would have answered ``outcome``."""
    found: dict[World, None] = {}
    for world in worlds:
        then, answer = model.step(world, action)
        if answer == outcome:
            found[then] = None
    return tuple(found)


def after_crash(model: Model, worlds: Iterable[World], action: Action) -> Worlds:
    """The worlds that a process may leave which died somewhere inside ``action``, or right after it.

    An action of a worker ends that worker. An action of a client ends the client's connection and nothing else.
    """
    found: dict[World, None] = {}
    for world in worlds:
        for stage in (world, *model.take(world, action).stages):
            found[dead(stage, action.worker) if action.worker >= 0 else stage] = None
    return tuple(found)


def seen(worlds: Iterable[World], stores: Stores) -> Worlds:
    """The worlds whose stores are those that an oracle read."""
    return tuple(world for world in worlds if world.stores == stores)
