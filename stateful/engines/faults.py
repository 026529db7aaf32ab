"""The faults engine: every storage call, lock and file operation of every operation fails once, and from then on.

Orders lead up to an operation, as for kills. Then the n-th call of a kind fails, n = 1, 2, 3 ... until the operation has
no such call left: what can fail is found by counting. Whatever fails, the operation must answer, a refusal must have
changed nothing, and whoever asks again, crashes, or goes on to rest must find all promises kept. Once for each store
the engine also damages what was there before: see ``stateful.failing.damage``.
"""

from __future__ import annotations

import itertools

from stateful.engines.catalogue import Target, targets
from stateful.engines.walk import verbs_of
from stateful.failing import damage
from stateful.failing.kinds import KINDS, Kind
from stateful.failing.rig import FaultRig
from stateful.failing.sweeper import Sweeper
from stateful.verdict import Tally

NAME = "faults"
NO_LEDGER = "its rows cannot be read, so that nobody can say what a fault has left of them"


def catalogue(rig: FaultRig, seed: int) -> list[Target]:
    """The operations to fail on a rig, in a fixed order."""
    return targets(rig.model, verbs_of(rig), seed)


def run(rig: FaultRig, seed: int, part: int, parts: int, tally: Tally, kinds: tuple[Kind, ...] = KINDS) -> None:
    """Sweep one of ``parts`` equal parts of the catalogue of ``seed``, the first with what is done once for each store.

    What is found goes into ``tally``.
    """
    if not rig.subject.has_ledger:
        tally.unsupported = NO_LEDGER
        return
    if part == 0:
        damage.run(rig, tally)
        if tally.enough:
            return
    sweeper = Sweeper(rig, tally)
    try:
        for target in itertools.islice(catalogue(rig, seed), part, None, parts):
            sweeper.sweep(target, kinds)
            if tally.enough:
                return
    finally:
        sweeper.close()
