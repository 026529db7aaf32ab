"""Programs and schedules: what the lanes do, and in which order their boundaries are passed.

A program is data: the steps that lead up to it, then a few calls for each lane, and the moves of time that may come
anywhere between. A schedule says how one run went, as *turns*: a lane runs until it stands before a certain boundary
of a certain call. A turn names places, not counts of statements overall, so that it means the same on another Python,
and nearly the same on another dispatcher.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from model.actions import DEATHS, Action, Step, Verb

RUN, KILL, BUSY, TIME = "run", "kill", "busy", "time"
LANE_VERBS = frozenset(Verb) - {Verb.ADVANCE, Verb.JUMP_WALL, Verb.RESTART, Verb.STALL, Verb.WAKE} - DEATHS
"""What a lane may call. It is frozen anywhere by not being chosen, so that it needs no stall."""


@frozen
class Program:
    """What is run side by side. Lane n is worker n's process; a client's call may be any lane's."""

    setup: tuple[Step, ...]
    lanes: tuple[tuple[Action, ...], ...]
    moves: tuple[Action, ...] = ()
    kills: int = 1
    """How many lanes may die in one run."""
    waits_end: bool = False
    """Whether a wait for a lock may end: the statement fails with BUSY."""

    @property
    def calls(self) -> int:
        """How many calls there are in all lanes."""
        return sum(map(len, self.lanes))

    @property
    def label(self) -> str:
        """The program in one line: ``claim w1 k1; renew w1 k1 | cancel k1 | time: advance k1 lease``."""
        lanes = [_called(calls) for calls in self.lanes]
        if self.moves:
            lanes.append(f"time: {_called(self.moves)}")
        return " | ".join(lanes)


def _called(actions: tuple[Action, ...]) -> str:
    return "; ".join(a.label for a in actions) or "-"


@frozen
class Turn:
    """One piece of a schedule: what happened, to which lane, and where the lane then stood.

    ``call`` counts the lane's calls from 1, ``boundary`` the boundaries of the call from 1; 0 and 0 are past them all.
    ``before`` names the boundary for the reader. ``move`` is what time did.
    """

    do: str
    lane: int = -1
    call: int = 0
    boundary: int = 0
    before: str = field(default="", eq=False)
    move: Action | None = None

    @property
    def name(self) -> str:
        """The lane's name."""
        return lane_name(self.lane) if self.lane >= 0 else ""

    @property
    def is_at_end(self) -> bool:
        """Whether the lane had finished."""
        return self.call == 0


@frozen
class Scheduled:
    """A program's lanes and one schedule of them: what a trace adds to the steps that lead up to it."""

    lanes: tuple[tuple[Action, ...], ...]
    turns: tuple[Turn, ...]

    @property
    def length(self) -> int:
        """How many calls, deaths and moves of time there are."""
        return sum(map(len, self.lanes)) + sum(turn.do in {KILL, TIME} for turn in self.turns)

    @property
    def switches(self) -> int:
        """How often another lane goes on."""
        return sum(turn.do in {RUN, BUSY} for turn in self.turns)

    def program(self, setup: tuple[Step, ...]) -> Program:
        """The program that the schedule is one of."""
        return Program(
            setup,
            self.lanes,
            moves=tuple(turn.move for turn in self.turns if turn.move is not None),
            kills=sum(turn.do == KILL for turn in self.turns),
            waits_end=any(turn.do == BUSY for turn in self.turns),
        )


def lane_name(index: int) -> str:
    """A lane is called as the worker whose process it is."""
    return f"w{index + 1}"


def turns_of(places: Iterable[Turn]) -> tuple[Turn, ...]:
    """Turns without those at which a lane stood still only to be chosen again."""
    out: list[Turn] = []
    for turn in places:
        if out and turn.do == RUN and out[-1].do == RUN and out[-1].lane == turn.lane:
            out[-1] = turn
        else:
            out.append(turn)
    return tuple(out)
