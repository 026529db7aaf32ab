"""Small raw programs, searched with and without sleep sets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import frozen

from stateful.schedules.raw import RawProgram
from stateful.schedules.search import Bounds, Counts, Search
from stateful.schedules.statements import StatementSystem


@frozen
class Found:
    """What a search found, and what it did for it."""

    counts: Counts
    system: StatementSystem

    @property
    def all(self) -> tuple[object, object, object]:
        """Everything that a reduced search must not lose."""
        return set(self.system.endings), self.system.crash_states, self.system.states

    @property
    def endings(self) -> set[object]:
        """How runs ended."""
        return set(self.system.endings)

    @property
    def runs(self) -> int:
        """How often the program was started."""
        return self.counts.schedules + self.counts.redundant


@pytest.fixture
def searched() -> Callable[..., Found]:
    """Search a program within bounds, each node's state kept."""

    def go(program: RawProgram, **bounds) -> Found:
        with StatementSystem(program, keep_states=True) as system:
            return Found(Search(system, Bounds(**bounds)).run(), system)

    return go


@pytest.fixture
def schema() -> str:
    """Three tables of one counter each."""
    return "".join(
        f"CREATE TABLE {t} (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO {t} VALUES (1, 0);"  # noqa: S608
        for t in "abc"
    )


@pytest.fixture
def program(schema: str) -> Callable[..., RawProgram]:
    """A program of these lanes on the three tables."""
    return lambda *lanes, **options: RawProgram((schema,), lanes, **options)
