"""The reducer of programs: from a program of which some schedule breaks a promise to the smallest that still has one.

Calls, steps that lead up to them, deaths and moves of time are taken out one by one; each candidate's schedules are
searched again, those with the fewest preemptions first. What is left is told by the schedule with the fewest switches.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve, frozen

from model.actions import ALPHABET, Action, Step
from stateful.judge import Finding
from stateful.order import Rig
from stateful.reduce import Reduced, Reducer
from stateful.schedules.program import BUSY, KILL, Program, Scheduled, turns_of
from stateful.schedules.rig import ScheduledRig
from stateful.schedules.search import Bounds, Search
from stateful.schedules.system import ProgramSystem
from stateful.verdict import Broken

SCHEDULES_MAX = 1_500
"""So many schedules of a candidate are run before it counts as one that breaks nothing."""
RUNS_MAX = 20_000
"""Schedules in one reduction."""
PREEMPTIONS = 3
"""A race needs few preemptions; with none the calls just follow one another in some order."""


@frozen
class Witnessed:
    """A program, one of its schedules that breaks the promise, and what was seen."""

    program: Program
    scheduled: Scheduled
    finding: Finding
    preemptions: int | None


@frozen
class ReducedProgram:
    """The smallest that was reached. ``minimal`` is False if the bound on runs ended the reduction."""

    found: Witnessed
    runs: int
    minimal: bool


class ProgramReducer:
    """Reduces programs on one rig, for one promise."""

    def __init__(self, rig: ScheduledRig, property_id: str) -> None:
        self._rig = rig
        self._property_id = property_id
        self._tried: dict[Program, Witnessed | None] = {}
        self.runs = 0

    def reduce(self, found: Witnessed) -> ReducedProgram:
        """The smallest program that can be reached by taking things out, with its plainest schedule."""
        best = self._plainest(found)
        while (smaller := self._smaller(best)) is not None:
            best = smaller
        return ReducedProgram(best, self.runs, minimal=self.runs < RUNS_MAX)

    def _plainest(self, found: Witnessed) -> Witnessed:
        """The same program, by a schedule with as few preemptions as will do."""
        return self._breaks(found.program, PREEMPTIONS) or found

    def _smaller(self, best: Witnessed) -> Witnessed | None:
        for candidate in _candidates(best.program):
            if self.runs >= RUNS_MAX:
                return None
            if candidate not in self._tried:
                bound = PREEMPTIONS if best.preemptions is None else best.preemptions
                self._tried[candidate] = self._breaks(candidate, bound)
            found = self._tried[candidate]
            if found is not None:
                return found
        return None

    def _breaks(self, program: Program, preemptions: int) -> Witnessed | None:
        """A schedule that breaks the promise with as few preemptions as will do, if there is one within the bounds."""
        system = ProgramSystem(self._rig, program, until=self._property_id)
        if system.prepare() is not None:
            return None
        for bound in range(preemptions + 1):
            bounds = Bounds(preemptions=bound, schedules=min(SCHEDULES_MAX, max(1, RUNS_MAX - self.runs)))
            found = self._fewest_switches(system, Search(system, bounds), bound)
            if found is not None:
                return found
        return None

    def _fewest_switches(self, system: ProgramSystem, search: Search, bound: int) -> Witnessed | None:
        for _ in search.runs():
            self.runs += 1
            if system.finding is not None and system.finding.property_id == self._property_id:
                turns = turns_of(system.turns)
                return Witnessed(system.program, Scheduled(system.program.lanes, turns), system.finding, bound)
        return None


def _candidates(program: Program) -> Iterator[Program]:
    """Programs with one thing less, or one thing simpler; what takes most away comes first."""
    yield from _with_less(program)
    for lane, calls in enumerate(program.lanes):
        for index, action in enumerate(calls):
            for simpler in _simpler(action):
                yield _with_lane(program, lane, (*calls[:index], simpler, *calls[index + 1 :]))
    for index, step in enumerate(program.setup):
        for simpler in _simpler(step.action):
            yield evolve(program, setup=(*program.setup[:index], Step(simpler), *program.setup[index + 1 :]))


def _with_less(program: Program) -> Iterator[Program]:
    if program.kills:
        yield evolve(program, kills=program.kills - 1)
    if program.waits_end:
        yield evolve(program, waits_end=False)
    for index in range(len(program.moves)):
        yield evolve(program, moves=program.moves[:index] + program.moves[index + 1 :])
    for lane, calls in enumerate(program.lanes):
        for index in range(len(calls) - 1, -1, -1):
            yield _with_lane(program, lane, calls[:index] + calls[index + 1 :])
    for index in range(len(program.setup) - 1, -1, -1):
        yield evolve(program, setup=program.setup[:index] + program.setup[index + 1 :])


def _with_lane(program: Program, index: int, calls: tuple[Action, ...]) -> Program:
    return evolve(program, lanes=(*program.lanes[:index], calls, *program.lanes[index + 1 :]))


def _simpler(action: Action) -> Iterator[Action]:
    """The same action with a choice that the alphabet names earlier."""
    choices = ALPHABET[action.verb].choices
    if action.choice in choices:
        for choice in choices[: choices.index(action.choice)]:
            if choice != "tick":
                yield evolve(action, choice=choice)


def reduced_program(rig: Rig, broken: Broken) -> Broken:
    """A broken promise with its program made small; one that needs nothing side by side becomes a plain order."""
    assert isinstance(rig, ScheduledRig)
    assert broken.scheduled is not None
    finding = Finding(broken.property_id, broken.detail)
    found = Witnessed(broken.scheduled.program(broken.steps), broken.scheduled, finding, None)
    done = ProgramReducer(rig, broken.property_id).reduce(found)
    one_by_one = _one_by_one(rig, done.found)
    if one_by_one is not None:
        runs = done.runs + one_by_one.runs
        return evolve(
            broken,
            steps=one_by_one.steps,
            scheduled=None,
            detail=one_by_one.detail,
            minimal=one_by_one.minimal,
            runs=runs,
        )
    return evolve(
        broken,
        steps=done.found.program.setup,
        scheduled=done.found.scheduled,
        detail=done.found.finding.detail,
        minimal=done.minimal,
        runs=done.runs,
    )


def _one_by_one(rig: ScheduledRig, found: Witnessed) -> Reduced | None:
    """A plain order of the same calls that breaks the same promise, if there is one: as they began, or as they ended."""
    if any(turn.do in {KILL, BUSY} for turn in found.scheduled.turns):
        return None
    for as_begun in (False, True):
        reducer = Reducer(rig, found.finding.property_id)
        reduced = reducer.reduce(tuple(_in_turn(found, as_begun=as_begun)))
        if reducer.detail:  # it did break
            return reduced
    return None


def _in_turn(found: Witnessed, *, as_begun: bool) -> Iterator[Step]:
    """The steps, then whole calls and moves of time: a call comes where it ended in the schedule, or where it began."""
    yield from found.program.setup
    lanes = found.scheduled.lanes
    done = [0] * len(lanes)
    for turn in found.scheduled.turns:
        if turn.move is not None:
            yield Step(turn.move)
        else:
            is_inside = not turn.is_at_end and turn.boundary > 1
            upto = len(lanes[turn.lane]) if turn.is_at_end else turn.call - 1 + (is_inside and as_begun)
            yield from map(Step, lanes[turn.lane][done[turn.lane] : upto])
            done[turn.lane] = max(done[turn.lane], upto)
    for calls, upto in zip(lanes, done, strict=True):  # a promise may have broken before they ended
        yield from map(Step, calls[upto:])
