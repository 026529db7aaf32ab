"""Rigs that are closed, subjects by name, and short hunts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from attrs import frozen

from model.actions import Alphabet, Step
from model.contracts import contracts_from
from stateful.engines.walk import walk
from stateful.order import Rig
from stateful.schedules.program import Program
from stateful.schedules.rig import ScheduledRig
from stateful.schedules.search import Bounds, Counts, Search
from stateful.schedules.system import ProgramSystem
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


def program_of(setup: str, lanes: str, moves: str = "", **options: bool | int) -> Program:
    """A program as it is written: ``submit k1 p1; claim w1 k1``, ``renew w1 k1 | claim w2 k1``, ``advance k1 lease``."""
    calls = tuple(tuple(BY_LABEL[label] for label in _labels(lane)) for lane in lanes.split("|"))
    moved = tuple(BY_LABEL[label] for label in _labels(moves))
    return Program(tuple(map(step_of, _labels(setup))), calls, moved, **options)


def _labels(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


@pytest.fixture
def program() -> Callable[..., Program]:
    """A program from its setup, its lanes and its moves of time, as they are written."""
    return program_of


@frozen
class Explored:
    """All that a search of a program came to."""

    counts: Counts
    system: ProgramSystem
    broken: dict[str, str]
    """Each promise that broke in some schedule, with what was seen first."""


def explored(rig: ScheduledRig, program: Program, **bounds: bool | int) -> Explored:
    """Search the schedules of a program to the end, whatever breaks."""
    system = ProgramSystem(rig, program, until="to the end")
    assert system.prepare() is None
    broken: dict[str, str] = {}

    def note() -> None:
        if system.finding is not None:
            broken.setdefault(system.finding.property_id, system.finding.detail)

    system.on_complete = note
    return Explored(Search(system, Bounds(**bounds)).run(), system, broken)


@pytest.fixture
def explore() -> Callable[..., Explored]:
    """Search the schedules of a program on a rig to the end, within bounds if there are any."""
    return explored


@pytest.fixture
def in_python() -> Callable[..., str]:
    """What a script prints that runs in an interpreter of its own."""

    def run(script: str, *arguments: object) -> str:
        command = [sys.executable, "-c", script, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert 0 == done.returncode, done.stderr
        return done.stdout

    return run


@pytest.fixture
def lanes(subject: Callable[..., Subject]) -> Iterator[Callable[..., ScheduledRig]]:
    """A rig for lanes, for a subject under the named contract choices, closed in the end."""
    with ExitStack() as stack:

        def make(name: str = "", *, mistake: str = "", **choices: str) -> ScheduledRig:
            return stack.enter_context(ScheduledRig(subject(name, mistake), contracts_from(choices)))

        yield make
