"""The real half of a power cut's cell in the survival matrix: the power engine cuts an order under a row's contracts."""

from __future__ import annotations

from attrs import field, frozen

from model.actions import Step
from model.contracts import Contracts, Limits
from model.search.power import CUT
from model.step import Model
from stateful.engines.power import GENERATED, standard
from stateful.judge import Finding, told
from stateful.power.cutter import Cutter
from stateful.power.recorded import record
from stateful.storage.abi import UnsupportedStorageError
from stateful.storage.crashes import Bounds
from stateful.storage.rig import RecordingRig
from stateful.subject import Subject


@frozen
class Enacted:
    """What the crash states of one order showed.

    ``broke`` has a detail for each property that one of them breaks.
    """

    steps: tuple[Step, ...] = ()
    answers: tuple[str, ...] = ()
    crashes: int = 0
    points: int = 0
    broke: dict[str, str] = field(factory=dict)
    unsupported: str = ""
    """Why nothing was recorded, if it was not."""


def standard_order(subject: Subject, contracts: Contracts, *, steps_max: int = 0) -> Enacted:
    """The crash states of the standard order: from submission to checkpoint, for two keys.

    With ``steps_max``, of so many of its steps, and as many at each point as of a generated order; otherwise as many as
    the power engine looks at.
    """
    try:
        with RecordingRig(subject, contracts) as rig:
            steps = standard(rig)
            return _cut(rig, steps[: steps_max or len(steps)], GENERATED if steps_max else Bounds())
    except UnsupportedStorageError as error:
        return Enacted(unsupported=str(error))


def shortest_order(subject: Subject, contracts: Contracts, limits: Limits, labels: tuple[str, ...]) -> Enacted:
    """The crash states of a counterexample of the model, which ends in a power cut, for two workers and one key.

    Raises ValueError for an order that goes on after a power cut: the engine cuts recorded orders, and ends with them.
    """
    try:
        with RecordingRig(subject, contracts, limits, workers=2, keys=1) as rig:
            return _cut(rig, steps_of(labels, rig.model), Bounds())
    except UnsupportedStorageError as error:
        return Enacted(unsupported=str(error))


def steps_of(labels: tuple[str, ...], model: Model) -> tuple[Step, ...]:
    """The steps of a counterexample without its power cut, which is made at every point of all of them."""
    *before, last = labels
    interrupted, _, at = last.partition(f", {CUT}")
    done = [*before, interrupted] if at else before
    by_label = model.alphabet.by_label
    unknown = next((label for label in done if label not in by_label), "")
    if unknown or not (at or last.startswith(CUT)):
        raise ValueError(f"{unknown or last!r} stands in an order that should have one power cut, at its end")
    return tuple(Step(by_label[label]) for label in done)


def _cut(rig: RecordingRig, steps: tuple[Step, ...], bounds: Bounds) -> Enacted:
    """Cut an order at every point, and judge every crash state within bounds."""
    recorded = record(rig, steps)
    if isinstance(recorded, Finding):
        return Enacted(steps, broke={recorded.property_id: recorded.detail})
    if recorded.strays:
        return Enacted(steps, unsupported=f"it writes files that cannot be recorded: {', '.join(recorded.strays)}")
    broke: dict[str, str] = {}
    with Cutter(rig, bounds) as cutter:
        for loss in cutter.cut(recorded):
            broke.setdefault(loss.finding.property_id, loss.finding.detail)
        counts = cutter.counts
    answers = tuple(told(t.outcome) for t in recorded.told)
    return Enacted(recorded.steps, answers, counts.states, counts.points, broke)
