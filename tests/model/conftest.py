"""A played model: labels in, moments out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import define, field

from model import Action, Contracts, Kind, Limits, Model, Moment, Outcome, Stores, Verb, World
from model.properties import broken, stuck, witnessed
from model.words import Capability

ALL = frozenset(Capability)


@define
class Play:
    """A run of labelled actions on a model, with the moment that each step was.

    ``do`` insists that an action is enabled; ``try_`` leaves out what no caller could do, as a reducer would.
    """

    model: Model
    world: World = field(init=False)
    moments: list[Moment] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.world = self.model.first()

    def act(self, action: Action) -> Outcome:
        world, outcome = self.model.step(self.world, action)
        return self._moved(action, world, outcome)

    def jump(self, action: Action, world: World, kind: Kind) -> Outcome:
        """Go to a world that ``action`` may have left, such as one where it was killed halfway."""
        return self._moved(action, world, Outcome(kind))

    def _moved(self, action: Action, world: World, outcome: Outcome) -> Outcome:
        before, self.world = self.world, world
        worker = before.workers[action.worker] if action.worker >= 0 else None
        key = worker.stalled if worker is not None and action.verb is Verb.WAKE else action.key
        token = worker.tokens[key] if worker is not None and key >= 0 else 0
        self.moments.append(
            Moment(before.stores, world.stores, before.now_ms, action, outcome, key, token, self.model.limits)
        )
        return outcome

    def do(self, *labels: str) -> Outcome:
        outcome = Outcome(Kind.OK)
        for label in labels:
            action = self.model.alphabet.by_label[label]
            assert self.model.is_enabled(action, self.world), f"{label!r} makes no sense after {self.labels}"
            outcome = self.act(action)
        return outcome

    def try_(self, *labels: str) -> Play:
        for label in labels:
            action = self.model.alphabet.by_label[label]
            if self.model.is_enabled(action, self.world):
                self.act(action)
        return self

    def enabled(self) -> list[Action]:
        return [action for verb in Verb for action in self.model.enabled(self.world, verb)]

    @property
    def labels(self) -> list[str]:
        return [m.action.label for m in self.moments]

    @property
    def stores(self) -> Stores:
        return self.world.stores

    def broken(self) -> list[str]:
        """The identifiers of the always properties that broke, in order."""
        found = [broken(m, ALL) for m in self.moments]
        return [p.id for p in found if p is not None]

    def stuck(self) -> str | None:
        prop = stuck(self.moments[-1], ALL)
        return prop.id if prop else None

    def witnessed(self) -> set[str]:
        return {w for m in self.moments for w in witnessed(m)}


@pytest.fixture
def play() -> Callable[..., Play]:
    """Start a run under the named contract choices."""

    def start(contracts: Contracts | None = None, limits: Limits | None = None, **sizes: int) -> Play:
        return Play(Model(contracts or Contracts(), limits or Limits(), **sizes))

    return start
