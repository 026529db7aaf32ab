"""One schedule played again, on the subject that it was found on or on another.

The turns say where a lane is to stand, not how many statements it takes: where a subject has fewer boundaries, or
others, a turn ends as soon as the lane is there or past it.
"""

from __future__ import annotations

from collections.abc import Iterable

from model.properties import ANSWERS
from stateful.judge import Finding
from stateful.schedules.program import BUSY, KILL, RUN, TIME, Turn
from stateful.schedules.system import ProgramSystem

TRANSITIONS_MAX = 2_000
"""A program that is not at its end by then never ends, as far as anybody can tell."""


def play(system: ProgramSystem, turns: Iterable[Turn]) -> Finding | None:
    """Play a schedule on a prepared system, let what is left run on, and judge it. What broke, if anything did."""
    system.begin()
    budget = [TRANSITIONS_MAX]
    for turn in turns:
        _take(system, turn, budget)
    while (options := system.options()) and budget[0] > 0:
        choice = next((c for c in options if c != TIME and not c.startswith(KILL)), None)
        if choice is None:
            break
        budget[0] -= 1
        system.take(choice)
    is_over = not system.options()
    system.finish(complete=is_over)
    if not is_over and system.finding is None:
        return Finding(ANSWERS.id, f"the lanes do not end: {TRANSITIONS_MAX:,} transitions, and no end of them")
    return system.finding


def _take(system: ProgramSystem, turn: Turn, budget: list[int]) -> None:
    if turn.do == RUN:
        target = (turn.call, turn.boundary)
        while turn.name in system.options() and (turn.is_at_end or system.stands(turn.lane) < target):
            budget[0] -= 1
            if budget[0] < 0 or system.take(turn.name) is None:
                return
        return
    choice = {KILL: f"{KILL} {turn.name}", BUSY: f"{turn.name} {BUSY}", TIME: TIME}[turn.do]
    if choice in system.options() or (turn.do == KILL and turn.name in system.options()):
        system.take(choice)
