"""The survival matrix: contract choice by kind of failure, each cell earned twice.

A cell is first searched: every order of the model within the column's bound. Then it is executed: a counterexample is
run on the real dispatcher under the same contract and must break the same promise there; where none was found, every
transition of the cell's state graph is run on the real dispatcher and compared. Where the two disagree, the cell says
so, and one of them is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

from attrs import evolve, field, frozen

from model.actions import Step, Verb
from model.contracts import CHOICES, Contracts, Limits, contracts_from
from model.properties import PROPERTIES, breaks
from model.search import Bounds, ModelBounds, ModelSpace, Result, Verdict, search
from model.step import Model, dead
from model.words import Reply, World
from stateful.engines.conformance import Conformer
from stateful.judge import told
from stateful.order import Rig
from stateful.subject import Subject, load_subject

LIMITS = Limits(lease_ms=1, other_lease_ms=2, approval_ms=1, deadline_ms=2, max_attempts=2)
"""In ticks: enough to have each expiry come before, with and after each other one."""
STATES_MAX = 400_000
NO_FAILURE, CLOCK = "no failure", "clock"
_TIMED = (NO_FAILURE, CLOCK)
_BASE = frozenset({Verb.SUBMIT, Verb.APPROVE, Verb.CLAIM, Verb.DISPATCH, Verb.ACKNOWLEDGE, Verb.CHECKPOINT})
_RECOVERY = frozenset({Verb.ADVANCE, Verb.RECONCILE, Verb.REAP_READ, Verb.REAP_APPLY})
_STALL = frozenset({Verb.STALL, Verb.WAKE})
EXECUTED_ELSEWHERE = frozenset({"durability", "attempt_timeout"})
"""Contracts that the model does not tell apart: only a power cut shows the one, only an await the other."""


@frozen
class Column:
    """A kind of failure: what may happen beside a well-behaved client, approver and worker.

    ``repeats``: a worker sends again although it has an answer. ``blind``: a worker dispatches without any grant.
    """

    name: str
    says: str
    verbs: frozenset[Verb] = frozenset()
    replies: frozenset[Reply] = frozenset({Reply.DONE})
    kills: int = 0
    policy_bumps: int = 0
    payload_changes: bool = False
    repeats: bool = False
    blind: bool = False
    grants: int = 2
    beyond: tuple[str, ...] = (NO_FAILURE,)
    """The columns that have less in them: what breaks there is not told again here."""

    def bounds(self, limits: Limits = LIMITS) -> ModelBounds:
        """The column as bounds of a search, for two workers and one key that is granted at most twice."""
        return ModelBounds(
            workers=2,
            keys=1,
            kills=self.kills,
            policy_bumps=self.policy_bumps,
            grants=self.grants,
            payload_changes=self.payload_changes,
            verbs=_BASE | self.verbs,
            replies=self.replies,
            limits=limits,
            repeats=self.repeats,
            blind=self.blind,
        )


COLUMNS: dict[str, Column] = {
    column.name: column
    for column in (
        Column(NO_FAILURE, "two workers, and nothing goes wrong", beyond=()),
        Column(
            "retry",
            "a worker sends again, and the sink fails for a while or for good",
            replies=frozenset({Reply.DONE, Reply.TRANSIENT, Reply.PERMANENT}),
            repeats=True,
        ),
        Column(
            CLOCK,
            "time runs past every expiry and deadline, and wall clocks jump, while one worker goes on",
            frozenset({Verb.ADVANCE, Verb.JUMP_WALL}),
            grants=1,
        ),
        Column(
            "kill",
            "a worker dies at any stage of any operation, twice",
            _RECOVERY | {Verb.RESTART},
            kills=2,
            beyond=_TIMED,
        ),
        Column(
            "lease expiry",
            "a worker stalls before its send while its lease runs out",
            _RECOVERY | _STALL | {Verb.RENEW, Verb.RELEASE},
            beyond=_TIMED,
        ),
        Column("payload change", "another payload comes under the same key", payload_changes=True),
        Column(
            "approval change",
            "approvals are missing, denied, revoked, forged, handed in again, expired or of an older policy",
            frozenset({Verb.DENY, Verb.REVOKE, Verb.FORGE, Verb.BUMP_POLICY, Verb.ADVANCE}),
            policy_bumps=1,
            blind=True,
            grants=1,
        ),
        Column("cancellation", "a client cancels at any time", _STALL | {Verb.CANCEL, Verb.RECONCILE}),
        Column(
            "silent sink",
            "the request or its answer is lost",
            frozenset({Verb.RECONCILE}),
            replies=frozenset({Reply.DONE, Reply.SILENT, Reply.LOST}),
            repeats=True,
        ),
        Column(
            "restart with other settings",
            "a worker dies and comes back with another lease time and an open gate in its settings",
            _RECOVERY | {Verb.KILL, Verb.RESTART},
            kills=1,
            beyond=_TIMED,
        ),
    )
}
NOT_YET = {"power cut": "no engine here cuts the power; see the limits in the README"}
"""Columns that nothing fills."""


class Mark(StrEnum):
    """What a cell says."""

    SURVIVES = "survives"
    VIOLATED = "violated"
    AS_LESS = "as with less"
    """What breaks here breaks with less too: without any failure, or by the mere passing of time."""
    BOUNDED = "bounded"
    """A bound cut the search: nothing was found so far."""
    NOT_APPLICABLE = "not applicable"


@frozen
class Cell:
    """One contract choice under one kind of failure.

    ``executed`` counts transitions on the real dispatcher, ``agrees`` says whether they were those of the model.
    """

    row: str
    column: str
    mark: Mark
    states: int = 0
    transitions: int = 0
    property_id: str = ""
    labels: tuple[str, ...] = ()
    steps: tuple[Step, ...] = field(default=(), repr=False)
    answers: tuple[str, ...] = ()
    executed: int = 0
    agrees: bool = True
    note: str = ""

    @property
    def text(self) -> str:
        """The cell in a few words."""
        match self.mark:
            case Mark.VIOLATED:
                return f"{self.property_id} ({len(self.labels)})"
            case Mark.SURVIVES:
                return f"survives ({self.states:,})"
            case Mark.BOUNDED:
                return f"bounded ({self.states:,})"
            case Mark.AS_LESS:
                return f"as {self.note}"
        return "-"

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "contract": self.row,
            "failure": self.column,
            "verdict": str(self.mark),
            "states": self.states,
            "transitions": self.transitions,
            "property": self.property_id,
            "trace": list(self.labels),
            "executed_on_sqlite": self.executed,
            "agrees": self.agrees,
            "note": self.note,
        }


def rows() -> dict[str, Contracts]:
    """The default contracts, and each weaker choice alone."""
    out = {"default": Contracts()}
    for name, choices in CHOICES.items():
        for choice in choices[1:]:
            out[f"{name}={choice}"] = contracts_from({name: choice})
    return out


@frozen
class Matrix:
    """The cells, row by row."""

    cells: tuple[Cell, ...]

    def cell(self, row: str, column: str) -> Cell:
        """One cell."""
        return next(c for c in self.cells if c.row == row and c.column == column)

    @property
    def agrees(self) -> bool:
        """Whether model and implementation agree in every cell."""
        return all(c.agrees for c in self.cells)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        bound = {c.name: c.says for c in COLUMNS.values()}
        return {
            "format": "survives-matrix",
            "version": 1,
            "bound": "2 workers, 1 key, 2 grants; lease and approval 1 tick, deadline 2 ticks, 2 attempts",
            "failures": bound,
            "cells": [c.to_json() for c in self.cells],
        }


def fill(
    row_names: tuple[str, ...] = (),
    column_names: tuple[str, ...] = (),
    *,
    report: Callable[[Cell], None] = lambda _: None,
    states_executed: int = 0,
) -> Matrix:
    """Fill the matrix, or the named rows and columns of it.

    ``states_executed`` bounds of how many states of a cell the transitions are executed on SQLite; 0 for all of them.
    """
    subject = load_subject()
    chosen = {n: c for n, c in rows().items() if not row_names or n in row_names}
    columns = [c for n, c in COLUMNS.items() if not column_names or n in column_names]
    cells = []
    for name, contracts in chosen.items():
        for cell in _row(name, contracts, columns, subject, states_executed or STATES_MAX):
            report(cell)
            cells.append(cell)
    return Matrix(tuple(cells))


def _row(
    name: str, contracts: Contracts, columns: list[Column], subject: Subject, conform_states: int
) -> Iterator[Cell]:
    if name.partition("=")[0] in EXECUTED_ELSEWHERE:
        note = "a kill cannot show it" if name.startswith("durability") else "the model has no awaits"
        yield from (Cell(name, c.name, Mark.NOT_APPLICABLE, note=note) for c in columns)
        return
    found: dict[str, frozenset[str]] = {}
    for column in (COLUMNS[NO_FAILURE], COLUMNS[CLOCK]):
        found[column.name] = frozenset(searched(contracts, column)[1].traces)
    for column in columns:
        space, result = searched(contracts, column)
        cell = _judged(name, column, result, found)
        yield (
            executed(cell, space, subject)
            if cell.mark is Mark.VIOLATED
            else _conforming(cell, space, subject, conform_states)
        )


def searched(contracts: Contracts, column: Column) -> tuple[ModelSpace, Result]:
    """A column's space under some contracts, and every promise that breaks in it, by its shortest order."""
    space = ModelSpace(Model(contracts), column.bounds())
    return space, search(space, Bounds(states=STATES_MAX), all_properties=True)


def _judged(row: str, column: Column, result: Result, found: dict[str, frozenset[str]]) -> Cell:
    """What a search says, but for what breaks with less: without any failure, or by the mere passing of time."""
    cell = Cell(row, column.name, Mark.SURVIVES, result.states, result.transitions)
    less = column.beyond
    new = {p: t for p, t in result.traces.items() if not any(p in found[name] for name in less)}
    if new:
        order = list(PROPERTIES)
        property_id = min(new, key=lambda p: (len(new[p]), order.index(p)))
        return evolve(cell, mark=Mark.VIOLATED, property_id=property_id, labels=new[property_id])
    if result.traces:
        return evolve(cell, mark=Mark.AS_LESS, note=next(n for n in less if found[n] & set(result.traces)))
    return evolve(cell, mark=Mark.BOUNDED) if result.verdict is Verdict.BOUNDED else cell


def _rig(model: Model, subject: Subject) -> Rig:
    return Rig(subject, model.contracts, model.limits, workers=model.workers, keys=model.keys)


def executed(cell: Cell, space: ModelSpace, subject: Subject) -> Cell:
    """Run the counterexample on the real dispatcher: it must break the same promise at the same step."""
    with _rig(space.model, subject) as rig:
        broke, steps, answers = run_labels(cell.labels, rig, cell.property_id)
    agrees = broke == cell.property_id
    note = "" if agrees else f"on SQLite: {broke or 'no promise broke'}"
    return evolve(cell, steps=steps, answers=answers, executed=len(steps), agrees=agrees, note=note)


def run_labels(labels: tuple[str, ...], rig: Rig, property_id: str) -> tuple[str, tuple[Step, ...], tuple[str, ...]]:
    """Run labels of a space on a rig: the property that broke at the last step, the steps, the answers.

    Where several broke at once, ``property_id`` is the one that is told.
    """
    rig.start()
    world, finding = rig.model.first(), None
    steps: list[Step] = []
    for label in labels:
        step, world = _step(label, world, rig, tuple(steps))
        steps.append(step)
        finding = rig.do(step)
    moment = rig.judge.moment
    broke = finding.property_id if finding is not None else ""
    if moment is not None and breaks(moment, property_id):
        broke = property_id
    return broke, tuple(steps), tuple(told(t.outcome) for t in rig.told)


def _step(label: str, world: World, rig: Rig, before: tuple[Step, ...]) -> tuple[Step, World]:
    """A label of the space as a step, with the boundary at which its process has to die, and the world after it."""
    name, died, number = label.partition(" killed after stage ")
    action = rig.model.alphabet.by_label[name]
    if not died:
        return Step(action), rig.model.step(world, action)[0]
    stage = int(number)
    stages = (world, *rig.model.take(world, action).stages)
    then = dead(stages[stage], action.worker) if action.worker >= 0 else stages[stage]
    for boundary in range(1, 60):
        step = Step(action, boundary)
        with Rig(
            rig.subject, rig.model.contracts, rig.model.limits, workers=rig.model.workers, keys=rig.model.keys
        ) as trial:
            trial.start()
            for earlier in before:
                trial.do(earlier)
            trial.do(step)
            if trial.judge.stores == stages[stage].stores:
                return step, then
    return Step(action, 1_000), then


def _conforming(cell: Cell, space: ModelSpace, subject: Subject, conform_states: int) -> Cell:
    """Execute every transition of the cell's graph on the real dispatcher."""
    with _rig(space.model, subject) as rig:
        done = Conformer(space, rig, states_max=conform_states).run()
    note = cell.note or (f"executed up to {done.states:,} states" if done.cut else "")
    if done.disagreements:
        first = done.disagreements[0]
        note = f"{'; '.join(first.labels)}; {first.step.label}: {first.detail}"
    return evolve(cell, executed=done.executed, agrees=not done.disagreements, note=note)
