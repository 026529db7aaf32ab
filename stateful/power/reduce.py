"""The reducer of power cuts: fewer steps, and of the cuts that break the promise the one that loses least."""

from __future__ import annotations

from attrs import evolve

from model.actions import Step
from stateful.judge import Finding
from stateful.order import Rig
from stateful.power.cutter import Cutter, Loss
from stateful.power.recorded import record
from stateful.storage.crashes import Bounds
from stateful.storage.rig import RecordingRig
from stateful.verdict import Broken

STATES_MAX = 1_500
"""So many crash states of a candidate are looked at before it counts as one that breaks nothing."""
LEAST_OF = 40
"""So many cuts that break the promise are compared."""
BOUNDS = Bounds(exhaustive=6, samples=16, window=8, names=4, torn=4)
Found = tuple[tuple[Step, ...], Loss]


def reduced_cut(rig: Rig, broken: Broken) -> Broken:
    """A promise that a power cut broke, with its order made short and its cut made plain."""
    assert isinstance(rig, RecordingRig)
    reducer = _Reducer(rig, broken.property_id)
    best = reducer.shortest(broken.steps)
    if best is None:
        return broken
    steps, loss = best
    return evolve(broken, steps=steps, cut=loss.cut, detail=loss.finding.detail, minimal=True, runs=reducer.runs)


class _Reducer:
    def __init__(self, rig: RecordingRig, property_id: str) -> None:
        self._rig = rig
        self._property_id = property_id
        self.runs = 0

    def shortest(self, steps: tuple[Step, ...]) -> Found | None:
        """Take out one step after the other, the last first, while some cut still breaks the promise."""
        best = self._broken(steps, of=1)
        if best is None:
            return None
        index = len(best[0]) - 1
        while index >= 0:
            candidate = best[0][:index] + best[0][index + 1 :]
            found = self._broken(candidate, of=1)
            if found is not None:
                best = found
            index = min(index - 1, len(best[0]) - 1)
        return self._broken(best[0], of=LEAST_OF) or best

    def _broken(self, steps: tuple[Step, ...], *, of: int) -> Found | None:
        """The steps that were taken and, of so many cuts that break the promise, the one that loses least."""
        recorded = record(self._rig, steps)
        if isinstance(recorded, Finding):
            return None
        losses: list[Loss] = []
        with Cutter(self._rig, BOUNDS) as cutter:
            for loss in cutter.cut(recorded):
                if loss.finding.property_id == self._property_id:
                    losses.append(loss)
                if len(losses) >= of or cutter.counts.states > STATES_MAX:
                    break
            self.runs += cutter.counts.states
        if not losses:
            return None
        return recorded.steps, min(losses, key=lambda loss: (len(loss.lost), loss.cut.position))
