"""The record of one run: who called what, in which order calls began and ended, and whether the model explains it."""

from __future__ import annotations

from collections import Counter

from attrs import frozen

from model.histories import (
    Call,
    DispatcherHistory,
    Group,
    Judge,
    Operation,
    Verdict,
    merged,
    precedes,
    said,
    same_slots,
)
from model.properties import CONFORMS
from model.step import Model
from model.words import Outcome, Stores, World
from stateful.judge import Finding, same_effects
from stateful.order import Rig
from stateful.schedules.calls import CallUnderWay

STATES_MAX = 20_000
"""Configurations that the judge of histories looks at before it says that it does not know."""
ENVIRONMENT = -1
"""The lane of time and death."""


@frozen
class _LooseHistory(DispatcherHistory):
    """For a subject of whose rows nothing is known: answers agree where they are of one kind."""

    def matches(self, operation: Operation, expected: Outcome, outcome: Outcome) -> bool:
        """Whether they are of one kind."""
        return expected.kind is outcome.kind


class Record:
    """Records the runs of one program, one after the other, and explains each. Equal histories are explained once."""

    def __init__(self, rig: Rig, model: Model, first: World) -> None:
        self._rig = rig
        make = DispatcherHistory if rig.subject.has_ledger else _LooseHistory
        self._judges = {busy: Judge(make(model, first, busy=busy)) for busy in (False, True)}
        self._known: dict[object, tuple[World, ...] | Finding] = {}
        self._events = 0
        self._calls: list[Call] = []
        self.endings: Counter[object] = Counter()
        """How the runs ended: what every call answered, what was stored, and the time."""
        self.undecided = 0

    def begin(self) -> None:
        """Another run."""
        self._events, self._calls = 0, []

    def event(self) -> int:
        """The place of what happens now among all that happens."""
        self._events += 1
        return self._events

    def ended(self, lane: int, call: CallUnderWay) -> None:
        """A call has answered."""
        operation = Operation(call.action, lane)
        self._calls.append(Call(lane, operation, call.begin, call.end, call.outcome))

    def died(self, lane: int, call: CallUnderWay | None) -> None:
        """A lane died inside a call: what that did is done, and it may be nothing."""
        if call is not None and call.begin:
            self._calls.append(Call(lane, Operation(call.action, lane), call.begin, self.event(), None))

    def environment(self, operation: Operation, outcome: Outcome) -> None:
        """Something that is over at once, and not a lane's doing."""
        begin = self.event()
        self._calls.append(Call(ENVIRONMENT, operation, begin, self.event(), outcome))

    def explained(self, read: Stores, now_ms: int, *, busy: bool) -> tuple[World, ...] | Finding:
        """The worlds that the run may have led to, given what is stored; or that no order of the model explains it.

        ``busy`` says that somebody was told BUSY, and may have answered so. No worlds where nobody knows.
        """
        answered = (c for c in sorted(self._calls, key=_by_lane) if c.lane >= 0 and c.is_answered)
        self.endings[tuple((c.operation, c.outcome) for c in answered), read, now_ms] += 1
        key = (self._relations(), read, busy)
        if key not in self._known:
            self._known[key] = self._explained(read, busy=busy)
        return self._known[key]

    def _relations(self) -> tuple[object, ...]:
        """All that an explanation depends on: the calls, their answers, and which of them were over before which."""
        calls = self._calls
        return tuple(
            (c.lane, c.operation, c.outcome, sum(1 << n for n, d in enumerate(calls) if precedes(d, c)))
            for c in calls
        )

    def _explained(self, read: Stores, *, busy: bool) -> tuple[World, ...] | Finding:
        has_ledger = self._rig.subject.has_ledger
        accepts = same_slots(read) if has_ledger else _same_effects_as(read)
        found = self._judges[busy].explain(self._calls, accepts=accepts, states_max=STATES_MAX)
        if found.verdict is Verdict.EXPLAINED:
            return merged(found)
        if found.verdict is Verdict.UNDECIDED or not has_ledger:
            self.undecided += has_ledger
            return ()
        stuck = said(found.stuck) if found.stuck is not None else "what is stored in the end"
        after = f", after {'; '.join(map(said, found.prefix))}" if found.prefix else ""
        return Finding(CONFORMS.id, f"no order of the model explains {stuck}{after}")


class _same_effects_as:  # noqa: N801 - called like a function
    """Whether a world has the effects that were read, as far as a group's keys go."""

    def __init__(self, read: Stores) -> None:
        self._read = read

    def __call__(self, group: Group, world: World) -> bool:
        return same_effects(world.stores, self._read, group.scope.indices)


def _by_lane(call: Call) -> tuple[int, int]:
    return call.lane, call.begin
