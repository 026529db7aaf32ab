"""Failure orders that were found once: each still breaks what it broke, under its contracts and under no others.

A trace is written by the tool itself: ``survives check --contracts NAME=CHOICE`` keeps it below ``.survives``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from model.contracts import CHOICES, Contracts
from stateful.findings import told_again
from stateful.trace import SURVIVED, read_trace

TRACES = {path.stem: read_trace(path) for path in sorted(Path(__file__).parent.glob("*.json"))}
OTHER_ENGINES = {"attempt_timeout", "durability"}
"""Contracts that no order of the alphabet can break: the attempts and power engines are for them."""


@pytest.mark.parametrize("name", TRACES)
def test_it_breaks_what_it_broke(name):
    """Replayed on real files, it breaks the promise that it names."""
    story = told_again(TRACES[name])[0]

    assert TRACES[name].expect == story.verdict, story.text()


@pytest.mark.parametrize("name", TRACES)
def test_the_default_contracts_survive_it(name):
    """The same order survives under the contracts that hold."""
    story = told_again(evolve(TRACES[name], contracts=Contracts()))[0]

    assert SURVIVED == story.verdict, story.text()


@pytest.mark.parametrize("name", [n for n, t in TRACES.items() if t.contracts.weakened()])
def test_its_name_says_what_it_is(name):
    """A file is called by its one weakened contract, the choice, and the promise that it breaks."""
    trace = TRACES[name]
    ((contract, choice),) = trace.contracts.weakened().items()

    assert f"{contract.replace('_', '-')}-{choice}-{trace.expect}" == name


def test_every_weaker_choice_has_one():
    """Each choice that is weaker than the default, and that an order can break, has a trace."""
    weaker = {(name, str(c)) for name, choices in CHOICES.items() if name not in OTHER_ENGINES for c in choices[1:]}

    assert weaker == {pair for trace in TRACES.values() for pair in trace.contracts.weakened().items()}


def test_it_is_short():
    """Each is one-minimal, and so is read at a glance."""
    assert {} == {name: len(t.steps) for name, t in TRACES.items() if len(t.steps) > 7}
