"""Rigs that are closed, subjects by name, and short hunts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from model.actions import Alphabet, Step
from model.contracts import contracts_from
from stateful.engines.walk import walk
from stateful.order import Rig
from stateful.subject import Subject, load_subject
from stateful.verdict import Tally

ROOT = Path(__file__).parents[2]
BY_LABEL = Alphabet(2, 2).by_label


def step_of(label: str) -> Step:
    """A step by its label: ``dispatch w1 k1 done`` or ``dispatch w1 k1 done!3``, which dies at boundary 3."""
    name, _, boundary = label.partition("!")
    return Step(BY_LABEL[name], int(boundary or 0))


@pytest.fixture
def steps() -> Callable[..., tuple[Step, ...]]:
    """Labels to steps; ``!3`` after a label kills it at boundary 3."""
    return lambda *labels: tuple(map(step_of, labels))


@pytest.fixture
def subject() -> Callable[..., Subject]:
    """A subject of ``subjects.py`` by its class name; the SQLite dispatcher without one."""

    def load(name: str = "", mistake: str = "") -> Subject:
        if not name:
            return load_subject(mistake=mistake)
        full = name if ":" in name else f"tests.stateful.subjects:{name}"
        return load_subject(full, folder=ROOT, probe=False)

    return load


@pytest.fixture
def rig(subject: Callable[..., Subject]) -> Iterator[Callable[..., Rig]]:
    """A rig for a subject under the named contract choices, closed in the end."""
    with ExitStack() as stack:

        def make(name: str = "", *, mistake: str = "", in_memory: bool = True, **choices: str) -> Rig:
            return stack.enter_context(Rig(subject(name, mistake), contracts_from(choices), in_memory=in_memory))

        yield make


@pytest.fixture
def hunt(rig: Callable[..., Rig]) -> Callable[..., Tally]:
    """Walk until a promise breaks, ``orders`` at most."""

    def go(name: str = "", *, orders: int = 60, seed: int = 0, **choices: str) -> Tally:
        tally = Tally("walk", stop_at_first=True)
        walk(rig(name, **choices), seed, orders, tally)
        return tally

    return go
