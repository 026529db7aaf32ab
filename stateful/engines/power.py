"""The power engine: an order is recorded, the power is cut at every point of it, and each crash state is recovered.

The standard order takes two keys from submission to checkpoint; generated ones are random. Nothing dies while an order
runs: what a death leaves is one of the crash states of a power cut, the one that lost nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing

from model.actions import ALPHABET, DEATHS, Step, Verb
from model.step import Model
from stateful.engines.walk import Chooser, verbs_of
from stateful.judge import Finding
from stateful.power.cutter import Cutter
from stateful.power.recorded import Recorded, record
from stateful.storage.crashes import Bounds
from stateful.storage.rig import RecordingRig
from stateful.verdict import Tally

NAME = "power"
STANDARD = tuple(
    label.format(w=f"w{n}", k=f"k{n}")
    for n in (1, 2)
    for label in (
        "submit {k} p1",
        "approve {k} p1",
        "claim {w} {k}",
        "dispatch {w} {k} done",
        "acknowledge {w} {k}",
        "checkpoint {w} {k}",
    )
)
"""From submission to checkpoint, for two keys."""
STEPS = 10
"""In a generated order."""
GENERATED = Bounds(exhaustive=6, samples=16, window=8, names=4, torn=4)
"""How much is enumerated of a generated order; of the standard one, what ``Bounds`` says."""
PATIENCE = 400
"""So many crash states more are looked at after the first that breaks something, to see what else does."""
_NEVER = frozenset({Verb.RESTART, Verb.JUMP_WALL}) | DEATHS


def run(rig: RecordingRig, seed: int, part: int, size: int, tally: Tally) -> None:
    """Cut the standard order (part 0 only), and ``size`` generated ones; what is found goes into ``tally``."""
    rng = random.Random(seed)  # noqa: S311 - a seed must give the same run
    if part == 0 and cut(rig, standard(rig), tally, Bounds(), seed):
        return
    for steps in generated(rig, rng, size):
        if cut(rig, steps, tally, GENERATED, seed):
            return


def standard(rig: RecordingRig) -> tuple[Step, ...]:
    """The standard order, as far as the subject has the parts for it."""
    by_label, have = rig.model.alphabet.by_label, rig.subject.capabilities
    actions = [by_label[label] for label in STANDARD]
    needs = {a: ALPHABET[a.verb].needs for a in actions}
    return tuple(Step(a) for a in actions if needs[a] is None or needs[a] in have)


def generated(rig: RecordingRig, rng: random.Random, size: int) -> Iterator[tuple[Step, ...]]:
    """Random orders without deaths, found on the model."""
    chooser = Chooser(rig.model, verbs_of(rig) - _NEVER, rng)
    for _ in range(size):
        chooser.reweigh()
        yield tuple(_order(rig.model, chooser))


def _order(model: Model, chooser: Chooser) -> Iterator[Step]:
    world = model.first()
    for _ in range(STEPS):
        action = chooser.choose(world).action
        yield Step(action)
        world, _ = model.step(world, action)


def cut(rig: RecordingRig, steps: tuple[Step, ...], tally: Tally, bounds: Bounds, seed: int) -> bool:
    """Cut one order at every point. True if the shard should stop."""
    recorded = record(rig, steps)
    if isinstance(recorded, Finding):
        return tally.take(rig, rig.ran(recorded))
    if recorded.strays:
        tally.unsupported = f"it writes files that cannot be recorded: {', '.join(recorded.strays)}"
        return True
    with Cutter(rig, bounds, seed=seed) as cutter:
        _cut(cutter, recorded, tally)
        counts = cutter.counts
    tally.count(len(recorded.told), 0)
    tally.cuts.update(
        orders=1,
        operations=counts.operations,
        states=counts.states,
        points=counts.points,
        passed=counts.passed,
        sampled=counts.sampled,
        second=counts.second,
        recoveries=counts.recoveries,
    )
    return tally.enough


def _cut(cutter: Cutter, recorded: Recorded, tally: Tally) -> None:
    first = 0
    with closing(cutter.cut(recorded)) as losses:
        for loss in losses:
            first = first or cutter.counts.states
            finding = loss.finding
            after = tally.orders + 1
            tally.found(finding.property_id, finding.detail, recorded.steps, after=after, cut=loss.cut)
            if cutter.counts.states - first > PATIENCE:
                return
