"""Programs and schedules: what the lanes do, and in which order their boundaries are passed.

A program is data: the steps that lead up to it, then a few calls for each lane, and the moves of time that may come
anywhere between. A schedule says how one run went, as *turns*: a lane runs until it stands before a certain boundary
of a certain call. A turn names places, not counts of statements overall, so that it means the same on another Python,
and nearly the same on another dispatcher.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve, field, frozen

from model.actions import ALPHABET, Action, Step, Verb

RUN, KILL, BUSY, TIME = "run", "kill", "busy", "time"
END = 0
"""The boundary after the last: the lane has finished."""
LANE_VERBS = frozenset(Verb) - {Verb.ADVANCE, Verb.JUMP_WALL, Verb.KILL, Verb.RESTART, Verb.STALL, Verb.WAKE}
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

    ``call`` counts the lane's calls from 1, ``boundary`` the boundaries of the call from 1; END is past them all.
    ``before`` names the boundary for the reader, and so that a changed dispatcher is noticed.
    """

    do: str
    lane: int = -1
    call: int = 0
    boundary: int = END
    before: str = field(default="", eq=False)

    @property
    def name(self) -> str:
        """The lane's name."""
        return lane_name(self.lane) if self.lane >= 0 else ""

    def to_json(self) -> dict[str, Any]:
        """For a trace."""
        out: dict[str, Any] = {"do": self.do}
        if self.lane >= 0:
            out["lane"] = self.name
        if self.do == RUN:
            out["until"] = (
                {"call": self.call, "boundary": self.boundary, "before": self.before} if self.call else "end"
            )
        return out


def lane_name(index: int) -> str:
    """A lane is called as the worker whose process it is."""
    return f"w{index + 1}"


def turns_of(places: list[Turn]) -> tuple[Turn, ...]:
    """Turns without those in which a lane was left only to be chosen again."""
    out: list[Turn] = []
    for turn in places:
        if out and turn.do == RUN and out[-1].do == RUN and out[-1].lane == turn.lane:
            out[-1] = turn
        else:
            out.append(turn)
    return tuple(out)


def with_lane(program: Program, index: int, calls: tuple[Action, ...]) -> Program:
    """The program with one lane's calls replaced."""
    return evolve(program, lanes=(*program.lanes[:index], calls, *program.lanes[index + 1 :]))


def touches_stores(action: Action) -> bool:
    """Whether a call can be interleaved at all."""
    return ALPHABET[action.verb].stores
