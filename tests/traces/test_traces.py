"""Failure orders that were found once: each still breaks what it broke, under its contracts and under no others.

A trace is written by the tool itself: ``survives check --contracts NAME=CHOICE`` keeps it below ``.survives``, as does
``survives interleave --mistake ID`` one of a race, and ``survives attempts`` one of an operation's attempts.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest
from attrs import evolve

from impl.mistakes import MISTAKES
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
    """The same order survives under the contracts that hold, without the mistake that it was found with."""
    story = told_again(evolve(TRACES[name], contracts=Contracts(), mistake=""))[0]

    assert SURVIVED == story.verdict, story.text()


def test_each_file_is_run():
    """Every file of the folder that is no Python is a trace that the tests above run, at whatever depth it lies."""
    folder = Path(__file__).parent
    files = {p.relative_to(folder) for p in folder.rglob("*") if p.is_file() and not p.suffix.startswith(".py")}

    assert files == {Path(f"{name}.json") for name in TRACES}


def test_a_new_file_is_run_too(tmp_path):
    """A trace that is dropped into the folder is run by the tests above, with nothing else to change."""
    there = Path(shutil.copy(__file__, tmp_path))
    shutil.copy(Path(__file__).with_name("race-M017-no-stale-token.json"), tmp_path / "dropped.json")
    spec = importlib.util.spec_from_file_location("traces_with_one_more", there)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    replays = (module.test_it_breaks_what_it_broke, module.test_the_default_contracts_survive_it)

    assert [["dropped"]] * 2 == [list(test.pytestmark[0].args[1]) for test in replays]


@pytest.mark.parametrize("name", [n for n, t in TRACES.items() if t.contracts.weakened()])
def test_its_name_says_what_it_is(name):
    """A file is called by its one weakened contract, the choice, and the promise that it breaks."""
    trace = TRACES[name]
    ((contract, choice),) = trace.contracts.weakened().items()

    assert f"{contract.replace('_', '-')}-{choice}-{trace.expect}" == name


@pytest.mark.parametrize("name", [n for n, t in TRACES.items() if t.scheduled is not None])
def test_a_race_is_named_by_its_mistake(name):
    """A file with lanes is called by its mistake and the promise that it breaks, and breaks it the same each time."""
    trace = TRACES[name]
    stories = {told_again(trace)[0].text() for _ in range(3)}

    assert (f"race-{trace.mistake}-{trace.expect}", 1) == (name, len(stories))


@pytest.mark.parametrize("name", [n for n, t in TRACES.items() if t.attempts is not None and t.mistake])
def test_attempts_are_named_by_their_mistake(name):
    """A file with a mistake's attempts is called by it and the promise that it breaks, and is told the same each time."""
    trace = TRACES[name]
    stories = {told_again(trace)[0].text() for _ in range(3)}

    assert (f"attempts-{trace.mistake}-{trace.expect}", 1) == (name, len(stories))


def test_every_race_has_one():
    """Each mistake that shows only when operations run inside one another has a trace of the promise that it breaks."""
    races = {(m.id, m.breaks) for m in MISTAKES.values() if m.shown_by == "interleavings"}

    assert races == {(t.mistake, t.expect) for t in TRACES.values() if t.scheduled is not None}


def test_every_weaker_choice_has_one():
    """Each choice that is weaker than the default, and that an order can break, has a trace."""
    weaker = {(name, str(c)) for name, choices in CHOICES.items() if name not in OTHER_ENGINES for c in choices[1:]}

    assert weaker == {pair for trace in TRACES.values() for pair in trace.contracts.weakened().items()}


def test_it_is_short():
    """Each is one-minimal, and so is read at a glance, with what runs side by side."""
    beside = {n: (t.scheduled or t.attempts) for n, t in TRACES.items()}
    lengths = {n: len(t.steps) + (beside[n].length if beside[n] else 0) for n, t in TRACES.items()}

    assert {} == {name: length for name, length in lengths.items() if length > 7}
