"""An order run with its storage recorded, and what was known after each of its steps."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from model.actions import Action, Step
from model.possible import Worlds
from model.words import Stores
from stateful.judge import Finding
from stateful.order import Told
from stateful.storage.abi import UnsupportedStorageError
from stateful.storage.log import Log
from stateful.storage.rig import RecordingRig

BYTES_MAX = 512 << 20
"""How much may be stored when an order begins: each crash state is made of all of it."""


@frozen
class Known:
    """What was known when so many steps had been answered: all of it must be found after a power cut."""

    worlds: Worlds
    stores: Stores
    now_ms: int


@frozen
class Recorded:
    """An order: its log, in which mark n says that n steps were answered, and what was known at each mark."""

    log: Log = field(repr=False)
    steps: tuple[Step, ...]
    told: tuple[Told, ...]
    known: tuple[Known, ...] = field(repr=False)
    strays: tuple[str, ...] = ()
    """Files that the subject wrote by ways that are not recorded."""

    def under_way(self, mark: int) -> Action | None:
        """What was being done when the power was cut after mark n; None if everything was over."""
        return self.steps[mark].action if mark < len(self.steps) else None


def record(rig: RecordingRig, steps: Iterable[Step]) -> Recorded | Finding:
    """Run an order from empty stores, recorded; a finding if a promise breaks without any power cut.

    Raises UnsupportedStorageError where more is stored than can be cut.
    """
    finding = rig.start()
    if finding is not None:
        return finding
    return go_on(rig, steps)


def go_on(rig: RecordingRig, steps: Iterable[Step]) -> Recorded | Finding:
    """Run steps on a rig as it is, recorded. Raises UnsupportedStorageError where more is stored than can be cut."""
    before = len(rig.told)
    log = rig.recording.start_recording()
    size = sum(map(len, log.base.values()))
    if size > BYTES_MAX:
        raise UnsupportedStorageError(
            f"the dispatcher's files hold {size >> 20:,} MiB when an order begins: crash states of more than "
            f"{BYTES_MAX >> 20:,} MiB are not made; let it begin with less"
        )
    known, taken = [_known(rig)], []
    log.mark(0)
    try:
        for step in steps:
            if not rig.can(step):
                continue
            taken.append(step)
            finding = rig.do(step)
            if finding is not None:
                return finding
            log.mark(len(taken))
            known.append(_known(rig))
    finally:
        rig.recording.stop_recording()
    strays = tuple(rig.recording.strays(log))
    return Recorded(log, tuple(taken), tuple(rig.told[before:]), tuple(known), strays)


def _known(rig: RecordingRig) -> Known:
    return Known(rig.judge.worlds, rig.judge.stores, rig.bench.time.now_ms)
