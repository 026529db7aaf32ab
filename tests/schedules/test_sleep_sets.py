"""What sleep sets leave out is only the order of what commutes: held against the search that leaves out nothing."""

from __future__ import annotations

import pytest

from stateful.schedules import search
from stateful.schedules.raw import RawProgram
from tests.schedules.generated import program as generated

A, B, C = (f"UPDATE {t} SET n = n + 1" for t in "abc")  # noqa: S608
READ_A, READ_B, READ_C = (f"SELECT n FROM {t}" for t in "abc")  # noqa: S608
COUNTER = (READ_C, "BEGIN IMMEDIATE", C, "COMMIT", READ_C)
DEFERRED = ("BEGIN", READ_A, "UPDATE b SET n = n * 2 + 1", "COMMIT")
MOSTLY_APART = ((A, A, READ_C, A, C, A), (B, B, READ_C, B, C, B))

LANES = {
    "autocommit": ((A, READ_B, C), (B, READ_A, C)),
    "deferred": (DEFERRED, ("BEGIN", READ_B, A, "COMMIT")),
    "deferred, two readers": ((*DEFERRED[:2], READ_B, "COMMIT"), (A, B)),
    "immediate": (COUNTER, COUNTER),
    "exclusive": (("BEGIN EXCLUSIVE", A, "COMMIT"), (READ_A, "BEGIN", READ_A, "COMMIT")),
    "savepoint": (("SAVEPOINT s", A, "RELEASE s", A), ("BEGIN IMMEDIATE", READ_A, "COMMIT")),
    "refused row": (("BEGIN", "INSERT INTO a VALUES (1, 1)", "COMMIT"), ("BEGIN", B, "COMMIT")),
    "unknown, then written": (("BEGIN", "PRAGMA user_version", B, "COMMIT"), (A,)),
    "three lanes": ((A, READ_B), (B, READ_A), ("BEGIN IMMEDIATE", A, "COMMIT")),
}


def both(searched, program: RawProgram, **bounds):
    """The search that leaves out nothing, and the one with sleep sets."""
    return searched(program, reduce=False, **bounds), searched(program, **bounds)


@pytest.mark.parametrize("kills", [0, 1])
@pytest.mark.parametrize("wal", [False, True], ids=["journal", "wal"])
@pytest.mark.parametrize("name", LANES)
def test_nothing_is_lost(searched, program, name: str, wal: bool, kills: int) -> None:
    """With sleep sets every ending, crash state and state of a program is found, and no other."""
    everything, reduced = both(searched, program(*LANES[name], wal=wal, kills=kills))

    assert everything.counts.exhausted
    assert everything.all == reduced.all


@pytest.mark.parametrize("wal", [False, True], ids=["journal", "wal"])
def test_nothing_is_lost_over_two_databases(searched, schema: str, wal: bool) -> None:
    """With sleep sets nothing is lost where each lane writes to two databases, in opposite orders."""

    def there(first, second):
        return first.execute(A).rowcount, second.execute(READ_A).fetchall(), second.execute(A).rowcount

    def back(first, second):
        return second.execute(A).rowcount, first.execute(READ_A).fetchall(), first.execute(A).rowcount

    everything, reduced = both(searched, RawProgram((schema, schema), (there, back), wal=wal))

    assert everything.all == reduced.all
    assert everything.runs > reduced.runs


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_lost_in_generated_programs(searched, seed: int) -> None:
    """With sleep sets nothing is lost in programs that nobody thought of."""
    everything, reduced = both(searched, generated(seed), schedules=1_000)

    assert reduced.counts.exhausted
    assert everything.endings <= reduced.endings
    assert not everything.counts.exhausted or everything.all == reduced.all


def test_lanes_that_hardly_meet_are_cut_tenfold(searched, program) -> None:
    """Of 924 schedules of two times six statements, a third of them shared, less than a tenth is run."""
    everything, reduced = both(searched, program(*MOSTLY_APART))

    assert (924, 924) == (everything.counts.schedules, everything.runs)
    assert (4, 12) == (reduced.counts.schedules, reduced.runs)


def test_transactions_are_cut(searched, program) -> None:
    """Of 52 schedules of two counters under BEGIN IMMEDIATE, with a read before and after, a quarter is run."""
    everything, reduced = both(searched, program(COUNTER, COUNTER))

    assert (52, 13) == (everything.runs, reduced.runs)


def test_a_death_counts_where_it_leaves_other_rows(searched, program) -> None:
    """Crash states are those that a death at each boundary in each schedule leaves behind."""
    found = searched(program((A, A), (B,), kills=1), reduce=False)
    rows = {(lane, at, dict(tables)["a"], dict(tables)["b"]) for lane, at, tables in found.system.crash_states}

    zero, one, two = (((1, n),) for n in range(3))
    first = {("w1", 1 + n, ((1, n),), b) for n in (0, 1) for b in (zero, one)}
    second = {("w2", 1, a, zero) for a in (zero, one, two)}
    assert first | second == rows


def test_an_ending_is_lost_if_everything_commutes(searched, program, monkeypatch) -> None:
    """The comparison has teeth: if all transitions were said to commute, endings would be missing."""
    lanes = program((READ_A, "UPDATE a SET n = n + 1"), (READ_A, "UPDATE a SET n = n * 2"))
    everything = searched(lanes, reduce=False)
    monkeypatch.setattr(search, "commute", lambda a, b: True)

    assert everything.endings > searched(lanes).endings
