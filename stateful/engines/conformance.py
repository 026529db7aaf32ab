"""Conformance: every transition of the model's bounded state graph, executed on the real dispatcher.

A search finds the states. Each is put into real stores, each of its actions is done there, and the answer and every
row are compared with the model's; a death inside an operation is done at a boundary that leaves the same stages done.
Where model and implementation disagree, one of them is wrong: the finding comes with an order that leads there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from attrs import define, field, frozen

from model.actions import Action, Step, Verb
from model.search.space import ModelEdge, ModelSpace
from model.words import Kind, Outcome, Stores, World
from stateful.bench import SubjectFailedError
from stateful.judge import difference, told
from stateful.order import Rig
from stateful.place import Placer, concrete

AFTER_THE_LAST = 1_000
"""A boundary that no operation has: the process dies right after the operation."""
BOUNDARIES_MAX = 60
REPORT_EVERY = 2_000
FINDINGS_MAX = 20


@frozen
class Disagreement:
    """A transition on which model and implementation differ, and labels that lead from the start to its state."""

    labels: tuple[str, ...]
    step: Step
    detail: str


@define
class Conformance:
    """What has been executed so far.

    ``edges`` counts the labelled transitions of the graph, ``covered`` those that were executed and agreed on,
    ``executed`` the steps that it took.
    """

    states: int = 0
    edges: int = 0
    covered: int = 0
    executed: int = 0
    cut: str = ""
    by_verb: Counter[str] = field(factory=Counter)
    disagreements: list[Disagreement] = field(factory=list)

    @property
    def complete(self) -> bool:
        """Whether every transition of the graph was executed, and agreed on."""
        return not self.cut and self.covered == self.edges


class Conformer:
    """Executes a space's transitions on one rig, whose limits, workers and keys must be the space's."""

    def __init__(self, space: ModelSpace, rig: Rig, *, states_max: int | None = None) -> None:
        self._states_max = states_max
        self._space = space
        self._rig = rig
        self._boundaries: dict[tuple[str, str, int, int], int] = {}
        self._parents: dict[int, int] = {}
        self.report = Conformance()

    def run(self, goes_on: Callable[[Conformance], str] = lambda _: "") -> Conformance:
        """Execute every transition, breadth first. ``goes_on`` returns why to stop early, or nothing."""
        rig, report = self._rig, self.report
        finding = rig.start()
        if finding is not None:
            report.disagreements.append(Disagreement((), Step(self._tick), finding.detail))
            return report
        self._placer = Placer(rig)
        self._present = rig.look().read()
        try:
            for state in self._states():
                report.states += 1
                self._state(state)
                if self._states_max is not None and report.states >= self._states_max:
                    report.cut = "states"
                elif len(report.disagreements) >= FINDINGS_MAX:
                    report.cut = "too many disagreements"
                elif report.states % REPORT_EVERY == 0:
                    report.cut = goes_on(report)
                if report.cut:
                    break
        finally:
            self._placer.close()
        return report

    @property
    def _tick(self) -> Action:
        return self._rig.model.alphabet.by_label["advance tick"]

    def _states(self) -> Iterator[int]:
        parents, layer = self._parents, [self._space.initial]
        parents[layer[0]] = layer[0]
        while layer:
            following: list[int] = []
            for state in layer:
                yield state
                for target in self._space.successors(state):
                    if target not in parents:
                        parents[target] = state
                        following.append(target)
            layer = following

    def _state(self, state: int) -> None:
        world = concrete(self._space.world(state))
        by_action: dict[Action, list[ModelEdge]] = {}
        for edge in self._space.edges(state):
            by_action.setdefault(edge.action, []).append(edge)
        for action, edges in by_action.items():
            self.report.edges += len(edges)
            self.report.by_verb[str(action.verb)] += len(edges)
            self.report.covered += sum(self._edge(state, world, edge) for edge in edges)

    def _edge(self, state: int, world: World, edge: ModelEdge) -> bool:
        action = edge.action
        if edge.died_after >= 0:
            return self._die(state, world, edge)
        outcome, read = self._do(world, Step(action))
        then, answer = self._rig.model.step(world, action)
        if outcome == answer and read == then.stores:
            return True
        detail = f"the subject answered {told(outcome)}, the model {told(answer)}"
        return self._disagree(state, Step(action), f"{detail}; {difference(then.stores, read)}")

    def _do(self, world: World, step: Step) -> tuple[Outcome, Stores]:
        """Do one step from a world; what it answered, and the stores after it."""
        rig = self._rig
        self._placer.place(world, self._present)
        self.report.executed += 1
        at_ms = world.now_ms + (step.action.verb is Verb.ADVANCE)
        rig.bench.know_stores(world.stores)
        try:
            outcome = rig.bench.do(step, at_ms, rig.look().receipts)
        except SubjectFailedError as error:
            outcome = Outcome(Kind.UNKNOWN, str(error))
        self._present = rig.look().read()
        return outcome, self._present

    def _disagree(self, state: int, step: Step, detail: str) -> bool:
        path = [state]
        while self._parents[path[-1]] != path[-1]:
            path.append(self._parents[path[-1]])
        labels = self._space.spell(tuple(reversed(path)))
        self.report.disagreements.append(Disagreement(labels, step, detail))
        return False

    def _die(self, state: int, world: World, edge: ModelEdge) -> bool:
        """Die at a boundary that leaves the wanted stages done: the one that did so last time, or the first that does."""
        action = edge.action
        stages = self._rig.model.take(world, action).stages
        prefixes = [stage.stores for stage in (world, *stages)]
        kind = (str(action.verb), action.choice, len(stages), edge.died_after)
        first = {0: 1, len(stages): AFTER_THE_LAST}.get(edge.died_after) or self._boundaries.get(kind)
        for boundary in ([first] if first else []) + list(range(2, BOUNDARIES_MAX)):
            step = Step(action, boundary)
            _, read = self._do(world, step)
            if read not in prefixes:
                return self._disagree(state, step, "no prefix of the operation leaves such rows")
            if read == prefixes[edge.died_after]:
                self._boundaries[kind] = boundary
                return True
        return self._disagree(state, Step(action, 1), f"no boundary leaves {edge.died_after} stages done")
