"""A rig whose stores are recorded: ledger, sink and checkpoint in one log."""

from __future__ import annotations

from pathlib import Path

from model.contracts import Contracts, Limits
from stateful.bench import Bench
from stateful.clock import SharedTime
from stateful.judge import Finding
from stateful.medium import FolderMedium
from stateful.order import Rig
from stateful.storage.medium import RecordingMedium
from stateful.storage.ways import Way
from stateful.subject import Subject


class RecordingRig(Rig):
    """A rig on a ``RecordingMedium``. ``start`` an order, then ``recording.start_recording()``, then ``do`` its steps.

    ``way`` forces one way into SQLite.
    """

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
        way: Way | None = None,
    ) -> None:
        self._way = way
        super().__init__(subject, contracts, limits, in_memory=False, folder=folder, workers=workers, keys=keys)

    def start(self) -> Finding | None:
        """Begin a new order on empty stores, and record it."""
        self.bench.end()
        self.look_away()  # whoever has a database open while it is replaced has its old shared memory
        finding = super().start()
        if finding is None:
            self.recording.start_recording()
        return finding

    def _new_medium(self, *, in_memory: bool, folder: Path | None) -> FolderMedium:
        self.recording = RecordingMedium(folder, way=self._way)
        return self.recording

    def _new_bench(self, time: SharedTime) -> Bench:
        return Bench(self.subject, self.model, self.medium, time=time, files=self.recording.files)
