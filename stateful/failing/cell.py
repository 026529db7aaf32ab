"""The real half of a storage fault's cell in the survival matrix: some operations, failed at each of their calls."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

from model.actions import Step
from model.contracts import Contracts
from model.step import Model
from stateful.engines import faults
from stateful.engines.catalogue import Target
from stateful.engines.power import STANDARD
from stateful.failing.kinds import KINDS
from stateful.failing.rig import FaultRig
from stateful.failing.sweeper import Sweeper
from stateful.storage.abi import UnsupportedStorageError
from stateful.subject import Subject
from stateful.verdict import Tally

ORDERS = (STANDARD[:6], (*STANDARD[:3], "dispatch w1 k1 silent", "reconcile w1 k1"))
"""Each operation of these is failed after those before it: from submission to checkpoint, and a lost answer."""


@frozen
class Swept:
    """What came of the faults: how many calls failed, and a detail for each property that one of them broke."""

    calls: int = 0
    broke: dict[str, str] = field(factory=dict)
    unsupported: str = ""
    """Why nothing was failed, if it was not."""


def sweep(subject: Subject, contracts: Contracts, *, targets_max: int = 0) -> Swept:
    """Fail the operations of ``ORDERS``, or the first ``targets_max`` of them, at each call of each kind."""
    tally = Tally(faults.NAME)
    try:
        with FaultRig(subject, contracts) as rig:
            sweeper = Sweeper(rig, tally)
            try:
                chosen = list(targets(rig.model))
                for target in chosen[: targets_max or len(chosen)]:
                    sweeper.sweep(target, KINDS)
            finally:
                sweeper.close()
    except UnsupportedStorageError as error:
        return Swept(unsupported=str(error))
    return Swept(sum(tally.boundaries.values()), {id_: one.detail for id_, one in tally.broken.items()})


def targets(model: Model) -> Iterator[Target]:
    """Each operation of the orders once, with the steps that lead up to it."""
    seen: set[tuple[Step, ...]] = set()
    for labels in ORDERS:
        world = model.first()
        steps = tuple(Step(model.alphabet.by_label[label]) for label in labels)
        for number, step in enumerate(steps, start=1):
            world, outcome = model.step(world, step.action)
            if steps[:number] not in seen:
                seen.add(steps[:number])
                yield Target(steps[: number - 1], step.action, outcome.kind)
