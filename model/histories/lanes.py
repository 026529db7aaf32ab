"""A group of calls laid out for the judge: lane by lane, with what each call has to wait for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from attrs import field, frozen

from model.histories.history import Call, MalformedHistoryError, precedes

SHIFT = 24
"""A lane's cell holds the number of its calls that are over, and in the lowest bits the memo of the next one."""
MASK = (1 << SHIFT) - 1


@frozen
class Lane:
    """One caller's calls, in order.

    ``waits`` has for each call the cells that other lanes must have reached before its first stage. ``dies`` says
    for each call whether it has to be given up at some point, so that others may begin.
    """

    calls: tuple[Call, ...]
    waits: tuple[tuple[tuple[int, int], ...], ...]
    dies: tuple[bool, ...]
    over: int = field(init=False)
    """The cell when all calls are over."""
    enough: int = field(init=False)
    """The least cell with which a history may end: a last call without an answer may be anywhere."""

    def __attrs_post_init__(self) -> None:
        calls = len(self.calls)
        object.__setattr__(self, "over", calls << SHIFT)
        object.__setattr__(self, "enough", (calls - (not self.calls[-1].is_answered)) << SHIFT)


def lanes_of(calls: Sequence[Call]) -> tuple[Lane, ...]:
    """The lanes of a group, by number. Raises MalformedHistoryError."""
    by_lane: dict[int, list[Call]] = {}
    for call in sorted(calls, key=lambda c: (c.lane, c.begin)):
        by_lane.setdefault(call.lane, []).append(call)
    rows = [tuple(row) for row in by_lane.values()]
    for row in rows:
        _check(row)
    return tuple(
        Lane(row, _waits(rows, n), tuple(c.is_crashed and any(precedes(c, d) for d in calls) for c in row))
        for n, row in enumerate(rows)
    )


def _check(row: tuple[Call, ...]) -> None:
    for call in row:
        if call.end is None and call.outcome is not None:
            raise MalformedHistoryError(f"{call} was answered and has no end; give it the position of its answer")
        if call.end is not None and call.end <= call.begin:
            raise MalformedHistoryError(f"{call} ends before it begins; positions rise along the run")
    for earlier, later in pairwise(row):
        if not precedes(earlier, later):
            raise MalformedHistoryError(
                f"{later} begins before {earlier} of the same lane has ended; calls of one lane follow one another, "
                "so give concurrent calls lanes of their own"
            )


def _waits(rows: list[tuple[Call, ...]], lane: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """What an earlier call of the lane has waited for need not be waited for again."""
    found = []
    waited = [0] * len(rows)
    for call in rows[lane]:
        needed = [sum(precedes(other, call) for other in row) for row in rows]
        found.append(tuple((n, needed[n] << SHIFT) for n in range(len(rows)) if n != lane and needed[n] > waited[n]))
        waited = needed
    return tuple(found)
