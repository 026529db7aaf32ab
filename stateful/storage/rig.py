"""A rig whose stores are recorded: ledger, sink and checkpoint in one log."""

from __future__ import annotations

from pathlib import Path

from model.contracts import Contracts, Limits
from stateful.bench import Bench
from stateful.clock import SharedTime
from stateful.medium import FolderMedium
from stateful.order import Rig
from stateful.storage.medium import RecordingMedium
from stateful.subject import Subject


class RecordingRig(Rig):
    """A rig on a ``RecordingMedium``. ``start`` an order, then ``recording.start_recording()``, then ``do`` its steps."""

    recording: RecordingMedium

    def __init__(
        self,
        subject: Subject,
        contracts: Contracts,
        limits: Limits | None = None,
        *,
        folder: Path | None = None,
        workers: int = 2,
        keys: int = 2,
    ) -> None:
        super().__init__(subject, contracts, limits, in_memory=False, folder=folder, workers=workers, keys=keys)

    def _new_medium(self, *, in_memory: bool, folder: Path | None) -> FolderMedium:
        self.recording = RecordingMedium(folder)
        return self.recording

    def _new_bench(self, time: SharedTime) -> Bench:
        return Bench(self.subject, self.model, self.medium, time=time, files=self.recording.files)
