"""Helpers that several tests of histories share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from model.contracts import Contracts, Limits
from model.histories import Call, DispatcherHistory, Operation
from model.step import Model
from model.words import Kind, Outcome, World
from tests.model.histories.generated import ENVIRONMENT_LANE


@pytest.fixture
def history_of() -> Callable[..., DispatcherHistory]:
    """A dispatcher's specification from the world that labelled actions lead to, one after another."""

    def start(
        *labels: str,
        contracts: Contracts | None = None,
        limits: Limits | None = None,
        busy: bool = False,
        keys: int = 2,
    ) -> DispatcherHistory:
        model = Model(contracts or Contracts(), limits or Limits(), keys=keys)
        world: World = model.first()
        for label in labels:
            action = model.alphabet.by_label[label]
            assert model.is_enabled(action, world), f"{label!r} makes no sense here"
            world, _outcome = model.step(world, action)
        return DispatcherHistory(model, world, busy)

    return start


@pytest.fixture
def calls_of() -> Callable[..., tuple[Call, ...]]:
    """Calls from rows of (lane, label, begin, end, answer): ``(0, "claim w1 k1", 1, 2, "ok 1")``; "" for no answer."""

    def read(
        specification: DispatcherHistory, rows: Iterable[tuple[int, str, int, int | None, str]]
    ) -> tuple[Call, ...]:
        by_label = specification.model.alphabet.by_label
        return tuple(
            Call(lane, Operation(by_label[label], lane), begin, end, _outcome(answer))
            for lane, label, begin, end, answer in rows
        )

    return read


def _outcome(answer: str) -> Outcome | None:
    kind, _, value = answer.partition(" ")
    return Outcome(Kind(kind), "", int(value or 0)) if answer else None


@pytest.fixture
def environment() -> int:
    """The lane of time, deaths and restarts."""
    return ENVIRONMENT_LANE
