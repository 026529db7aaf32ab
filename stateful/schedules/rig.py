"""A rig for lanes: its connections, its files and its clock belong to a scheduler."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from impl.protocol import Files
from model.contracts import Contracts, Limits
from stateful.bench import Bench
from stateful.boundaries import Gate
from stateful.clock import SharedTime
from stateful.medium import FolderMedium
from stateful.order import Rig
from stateful.schedules import guard
from stateful.schedules.lanes import Scheduler, UnsupportedByEngine
from stateful.schedules.medium import ScheduledFiles, ScheduledMedium, ScheduledTime
from stateful.subject import Subject


class ScheduledRig(Rig):
    """A rig whose connections, files and clock belong to a scheduler."""

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
        self.scheduler = Scheduler()
        guard.watch(self.scheduler)
        super().__init__(subject, contracts, limits, in_memory=False, folder=folder, workers=workers, keys=keys)

    def _new_medium(self, *, in_memory: bool, folder: Path | None) -> FolderMedium:
        return ScheduledMedium(self.scheduler, folder)

    def _new_bench(self, time: SharedTime) -> Bench:
        self.time = ScheduledTime(self.scheduler)

        def gated(files: Files, gate: Gate) -> Files:
            return ScheduledFiles(files, gate)

        make = self.subject.as_new_process  # lanes run side by side: what one keeps in memory another must not see
        return Bench(self.subject, self.model, self.medium, time=self.time, gated_files=gated, new_class=make)

    def close(self) -> None:
        """End every lane, close every process and connection and remove the stores."""
        with suppress(UnsupportedByEngine):  # it has been said
            self.scheduler.clear()
        super().close()
