"""Choices by name: which of them a set of lanes offers, in the order in which a search tries them.

Shared by the systems that a search runs, so that a choice means the same in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from stateful.schedules.lanes import Lane
from stateful.schedules.program import BUSY, KILL


def transitions(lanes: Sequence[Lane], last: Lane | None, *, waits_end: bool = False) -> list[str]:
    """Who can go on, the lane that ran last first; then the waits that may end.

    A wait ends only where nobody can go on, unless ``waits_end``.
    """
    ready = [lane.name for lane in lanes if not lane.finished and not lane.is_blocked]
    if last is not None and last.name in ready:
        ready.remove(last.name)
        ready.insert(0, last.name)
    if ready and not waits_end:
        return ready
    return ready + [f"{lane.name} {BUSY}" for lane in lanes if not lane.finished and lane.is_blocked]


def deaths(lanes: Sequence[Lane]) -> list[str]:
    """Who can die."""
    return [f"{KILL} {lane.name}" for lane in lanes if not lane.finished]


def is_deadlock(lanes: Sequence[Lane]) -> bool:
    """Whether every lane that is left waits for another."""
    return all(lane.finished or lane.is_blocked for lane in lanes)


def left_by(choice: str, lanes: Sequence[Lane], last: Lane | None) -> str:
    """The lane that ran last, if the choice goes on with another although it could have gone on; empty otherwise."""
    if last is None or choice == last.name or last.finished or last.is_blocked:
        return ""
    return last.name if any(choice == lane.name for lane in lanes) else ""
