"""The survival matrix: contract choice by kind of failure, each cell earned twice.

A cell is first searched: every order of the model within the column's bound. Then it is executed: a counterexample is
run on the real dispatcher under the same contract and must break the same promise there; where none was found, every
transition of the cell's state graph is run on the real dispatcher and compared. Where the two disagree, the cell says
so, and one of them is wrong.

Power cuts, storage faults and awaits have searches and executions of their own. What survives a power cut in the model
has to survive it in every crash state of the power engine's standard order, and what does not breaks in one crash state
of the shortest order. A storage fault may break on SQLite, of a sample of operations failed at each call, no more than
it does in the model. At the awaits of one operation the rule of ``model.attempts`` is searched, and the real runner
goes through the same on a virtual clock.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, evolve, field

from model.actions import Step
from model.contracts import Contracts
from model.properties import PROPERTIES, breaks
from model.search import Bounds, FaultSpace, ModelSpace, PowerSpace, Result, Symmetric, Verdict, search
from model.step import Model, dead
from model.words import World
from stateful.attempts import cell as attempts_cell
from stateful.cells import Cell, Mark, Matrix
from stateful.columns import COLUMNS, LIMITS, Column, not_applicable, rows
from stateful.engines.conformance import Conformer
from stateful.failing.cell import sweep
from stateful.judge import told
from stateful.order import Rig
from stateful.power.cell import shortest_order, standard_order
from stateful.subject import Subject, load_subject

STATES_MAX = 400_000


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
        row = _Row(name, contracts, subject, states_executed)
        for column in columns:
            cell = row.cell(column)
            report(cell)
            cells.append(cell)
    return Matrix(tuple(cells))


@define
class _Row:
    """One row under way: a column is searched once, also where another column asks what breaks with less."""

    name: str
    contracts: Contracts
    subject: Subject
    states_executed: int
    _searched: dict[str, tuple[ModelSpace, Result]] = field(factory=dict, init=False)

    def cell(self, column: Column) -> Cell:
        """A cell, searched and executed."""
        why_not = not_applicable(self.name, column)
        if why_not:
            return Cell(self.name, column.name, Mark.NOT_APPLICABLE, note=why_not)
        if column.cuts:
            result = cut_through(self.contracts, column)
            return self._cut(self._judged(column, result), result)
        if column.awaits:
            return self._attempted(column)
        if column.faults:
            result = failed_through(self.contracts, column)
            return self._failed(self._judged(column, result), result)
        space, result = self._search(column)
        cell = self._judged(column, result)
        if cell.mark is Mark.VIOLATED:
            return executed(cell, space, self.subject)
        return _conforming(cell, space, self.subject, self.states_executed or STATES_MAX)

    def _attempted(self, column: Column) -> Cell:
        """Run one operation's attempts by the rule and on the real runner: they must break the same promises."""
        by_rule = attempts_cell.searched(self.contracts)
        done = attempts_cell.enacted(self.subject, self.contracts, runs_max=self.states_executed)
        cell = Cell(self.name, column.name, Mark.SURVIVES, by_rule.cases, by_rule.outcomes, runs=done.runs)
        if done.unsupported:
            return evolve(cell, mark=Mark.UNSUPPORTED, note=done.unsupported)
        if by_rule.broken:
            order = list(PROPERTIES)
            shortest = min(
                by_rule.broken, key=lambda p: (len(attempts_cell.labels(by_rule.broken[p])), order.index(p))
            )
            labels = attempts_cell.labels(by_rule.broken[shortest])
            cell = evolve(cell, mark=Mark.VIOLATED, property_id=shortest, labels=labels)
        more = sorted(done.broke.keys() - by_rule.broken.keys())
        missing = cell.mark is Mark.VIOLATED and cell.property_id not in done.broke and not self.states_executed
        note = done.forbidden or (f"on SQLite: {more[0]}: {done.broke[more[0]]}" if more else "")
        note = note or ("on SQLite: it does not break" if missing else "")
        return evolve(cell, agrees=not note, note=note)

    def _search(self, column: Column) -> tuple[ModelSpace, Result]:
        if column.name not in self._searched:
            self._searched[column.name] = searched(self.contracts, column)
        return self._searched[column.name]

    def _judged(self, column: Column, result: Result) -> Cell:
        """What a search says, but for what breaks with less: without any failure, or by the mere passing of time."""
        cell = Cell(self.name, column.name, Mark.SURVIVES, result.states, result.transitions)
        new, less = dict(result.traces), ""
        for name in column.beyond:
            known = self._search(COLUMNS[name])[1].traces if new else {}
            less = less or (name if new.keys() & known.keys() else "")
            new = {p: t for p, t in new.items() if p not in known}
        if new:
            order = list(PROPERTIES)
            property_id = min(new, key=lambda p: (len(new[p]), order.index(p)))
            return evolve(cell, mark=Mark.VIOLATED, property_id=property_id, labels=new[property_id])
        if result.traces:
            return evolve(cell, mark=Mark.AS_LESS, less=less)
        return evolve(cell, mark=Mark.BOUNDED) if result.verdict is Verdict.BOUNDED else cell

    def _cut(self, cell: Cell, result: Result) -> Cell:
        """Cut the power on the real dispatcher: whether it breaks there what it breaks in the model, and no more."""
        if cell.mark is Mark.VIOLATED:
            done = shortest_order(self.subject, self.contracts, LIMITS, cell.labels)
            cell = evolve(cell, steps=done.steps, answers=done.answers)
        else:
            done = standard_order(self.subject, self.contracts, steps_max=self.states_executed)
        cell = evolve(cell, executed=len(done.answers), crashes=done.crashes)
        return _compared(cell, result, done.broke, done.unsupported)

    def _failed(self, cell: Cell, result: Result) -> Cell:
        """Fail the real dispatcher's storage: whether that breaks what it breaks in the model, and no more."""
        done = sweep(self.subject, self.contracts, targets_max=self.states_executed)
        return _compared(evolve(cell, faults=done.calls), result, done.broke, done.unsupported)


def _compared(cell: Cell, result: Result, broke: dict[str, str], unsupported: str) -> Cell:
    """A cell beside what broke on the real dispatcher: nothing may that holds in the model, and the cell's own must."""
    if unsupported:
        return evolve(cell, mark=Mark.UNSUPPORTED, note=unsupported)
    if cell.mark is Mark.VIOLATED and cell.property_id not in broke:
        said = ", ".join(broke) or "no promise broke"
        return evolve(cell, agrees=False, note=f"on SQLite: {said}")
    more = [] if cell.mark is Mark.VIOLATED else [id_ for id_ in broke if id_ not in result.traces]
    return evolve(cell, agrees=not more, note=f"on SQLite: {more[0]}: {broke[more[0]]}" if more else "")


def cut_through(contracts: Contracts, column: Column) -> Result:
    """The search of a column in which the power fails.

    Where durability does not keep what was acknowledged, the first promise that breaks is enough: what was lost is lost
    in a step or two, and each further promise breaks by the same loss of something else.
    """
    space = PowerSpace(Model(contracts), column.bounds(), column.cuts)
    keeps = contracts.durability.keeps
    return search(Symmetric(space, space.canonical()), Bounds(states=STATES_MAX), all_properties=keeps)


def searched(contracts: Contracts, column: Column) -> tuple[ModelSpace, Result]:
    """A column's space under some contracts, and every promise that breaks in it, by its shortest order."""
    space = ModelSpace(Model(contracts), column.bounds())
    return space, search(space, Bounds(states=STATES_MAX), all_properties=True)


def failed_through(contracts: Contracts, column: Column) -> Result:
    """The search of a column in which storage fails."""
    space = FaultSpace(Model(contracts), column.bounds(), column.faults)
    return search(Symmetric(space, space.canonical()), Bounds(states=STATES_MAX), all_properties=True)


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
    note = f"executed up to {done.states:,} states" if done.cut else ""
    if done.disagreements:
        first = done.disagreements[0]
        note = f"{'; '.join(first.labels)}; {first.step.label}: {first.detail}"
    return evolve(cell, executed=done.executed, agrees=not done.disagreements, note=note)
