"""What two statements touch says whether their order can be noticed."""

from __future__ import annotations

import pytest

ADD_A, ADD_B = (f"UPDATE {t} SET n = n + 1" for t in "ab")  # noqa: S608
DOUBLE_A = "UPDATE a SET n = n * 2"
READ_A, READ_B = (f"SELECT n FROM {t}" for t in "ab")  # noqa: S608
ALONE = ("BEGIN IMMEDIATE", ADD_A, "COMMIT")


@pytest.mark.parametrize(
    ("first", "second", "complete"),
    [
        ((ADD_A,), (ADD_B,), 1),
        ((ADD_A,), (READ_B,), 1),
        ((READ_A,), (READ_A,), 1),
        ((ADD_A,), (READ_A,), 2),
        ((ADD_A,), (DOUBLE_A,), 2),
        (("UPDATE a SET n = 5 WHERE id = 77",), (READ_A,), 1),
        (("INSERT OR IGNORE INTO a VALUES (1, 1)",), (READ_A,), 1),
        (("INSERT OR IGNORE INTO a VALUES (2, 1)",), (READ_A,), 2),
        (ALONE, (READ_A,), 2),
        (ALONE, (READ_B,), 1),
        (("BEGIN IMMEDIATE", ADD_A, "ROLLBACK"), (READ_A,), 1),
        (ALONE, (READ_A, READ_A, READ_A), 4),
    ],
)
def test_only_what_is_noticed_is_ordered(searched, program, first, second, complete: int) -> None:
    """Tables of one's own, a write that changes no row, one that is rolled back, and reads, go in any order.

    A write in a transaction is noticed at its COMMIT alone.
    """
    found = searched(program(first, second))

    assert complete == found.counts.schedules
    assert complete == len(found.endings)
