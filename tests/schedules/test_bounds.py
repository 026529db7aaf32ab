"""How many schedules there are, and what a bound leaves of them."""

from __future__ import annotations

import sqlite3
from math import comb, factorial

import pytest

from stateful.schedules.raw import RawProgram
from tests.schedules.generated import program as generated

ADD = "UPDATE a SET n = n + 1"
TWICE = "UPDATE a SET n = n * 2"
READ = "SELECT n FROM a"
RACES = ((READ, ADD, READ, ADD), (READ, TWICE, READ, TWICE))


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 3), (4, 4), (5, 2), (6, 6)])
def test_statements_interleave_in_every_way(searched, program, first: int, second: int) -> None:
    """Two lanes of n and m statements have as many schedules as there are ways to choose n of n + m."""
    found = searched(program((ADD,) * first, (ADD,) * second), reduce=False)

    assert comb(first + second, first) == found.counts.schedules
    assert first + second == found.counts.deepest
    assert found.counts.exhausted


def test_three_lanes_interleave_in_every_way(searched, program) -> None:
    """Three lanes of two statements have 6! / 2!^3 schedules."""
    found = searched(program(*[(ADD, READ)] * 3), reduce=False)

    assert factorial(6) // 8 == found.counts.schedules


def test_transactions_exclude_each_other(searched, program) -> None:
    """Three transactions under BEGIN IMMEDIATE have a schedule for each order of theirs."""
    found = searched(program(*[("BEGIN IMMEDIATE", READ, ADD, "COMMIT")] * 3), reduce=False)

    assert factorial(3) == found.counts.schedules


def test_without_preemption_lanes_run_one_after_the_other(searched, program) -> None:
    """Bound 0 leaves the serial runs, one for each order."""
    found = searched(program(*RACES), preemptions=0, reduce=False)

    rows = {ending.rows("a") for ending in found.endings}
    assert 2 == found.counts.schedules
    assert {((1, (0 + 2) * 4),), ((1, 0 * 4 + 2),)} == rows


def test_a_higher_bound_finds_more(searched, program) -> None:
    """Each preemption that is allowed adds endings, until all are there."""
    found = [searched(program(*RACES), preemptions=n, reduce=False).endings for n in range(4)]

    assert found[0] < found[1] < found[2] <= found[3]
    assert found[3] <= searched(program(*RACES)).endings


@pytest.mark.parametrize("preemptions", range(4))
def test_sleep_sets_lose_nothing_within_a_bound(searched, program, preemptions: int) -> None:
    """What stands for a schedule that was left out is itself within the bound."""
    everything, reduced = (
        searched(program(*RACES, (READ,)), preemptions=preemptions, reduce=reduce) for reduce in (False, True)
    )

    assert everything.endings == reduced.endings


@pytest.mark.parametrize("preemptions", [0, 1, 2])
@pytest.mark.parametrize("seed", range(100, 120))
def test_sleep_sets_lose_nothing_of_generated_programs_within_a_bound(searched, seed: int, preemptions: int) -> None:
    """The same holds for programs that nobody thought of."""
    bounds = {"preemptions": preemptions, "schedules": 500}
    everything, reduced = (searched(generated(seed), reduce=reduce, **bounds) for reduce in (False, True))

    assert reduced.counts.exhausted
    assert everything.endings <= reduced.endings
    assert not everything.counts.exhausted or everything.endings == reduced.endings


def test_a_program_that_never_ends_is_cut(searched, schema: str) -> None:
    """A run that is cut is counted as such, ends nowhere, and the search is not exhausted."""

    def forever(connection: sqlite3.Connection) -> None:
        while True:
            connection.execute(READ)

    found = searched(RawProgram((schema,), (forever, (ADD,))), transitions=8, reduce=False)

    assert 9 == found.counts.cut_by_transitions
    assert (0, 0, set()) == (found.counts.schedules, found.counts.redundant, found.endings)
    assert not found.counts.exhausted


def test_a_search_that_was_stopped_is_not_exhausted(searched, program) -> None:
    """Neither a limit on schedules nor a cut is ever called exhausted; the limit that is just enough is."""
    lanes = program((ADD,) * 2, (ADD,) * 2)

    assert [False, True, True] == [searched(lanes, schedules=n, reduce=False).counts.exhausted for n in (5, 6, 7)]
    assert not searched(lanes, transitions=3, schedules=6, reduce=False).counts.exhausted
