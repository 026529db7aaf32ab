"""A point that an order led to, to which a rig is brought back as often as something is to fail there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from attrs import frozen

from model.actions import Step
from model.possible import Worlds
from model.words import Stores
from stateful.bench import Process
from stateful.failing.rig import FaultRig
from stateful.judge import Finding
from stateful.order import Ran, Told
from stateful.storage.log import Files


@frozen
class Head:
    """All that the bench keeps of a process between two steps."""

    name: str
    other_settings: bool
    wall_offset_ms: int
    kept: tuple[Any, ...]

    @classmethod
    def of(cls, process: Process) -> Self:
        """What a process has in its head now."""
        lists = (tuple(process.tokens), tuple(process.answers), tuple(process.receipts))
        kept = (*lists, process.permit, process.overdue)
        return cls(process.name, process.other_settings, process.clock.wall_offset_ms, kept)

    def put_back(self, process: Process) -> None:
        """Make it what the process has in its head again."""
        process.name, process.other_settings = self.name, self.other_settings
        process.clock.wall_offset_ms = self.wall_offset_ms
        tokens, answers, receipts, process.permit, process.overdue = self.kept
        process.tokens, process.answers, process.receipts = list(tokens), list(answers), list(receipts)


@frozen
class Standpoint:
    """Where an order led: files, time, every head, and what the judge knew. Nothing is open there."""

    files: Files
    now_ms: int
    heads: tuple[Head, ...]
    judged: tuple[Worlds, Stores, Finding | None]
    told: tuple[Told, ...]

    @classmethod
    def after(cls, rig: FaultRig, steps: Iterable[Step]) -> Self | Ran:
        """Run an order from empty stores. What came of it, if it broke a promise by itself."""

        def body() -> Finding | None:
            finding = rig.start()
            for step in steps:
                finding = finding or rig.do(step)
            return finding

        ran = rig.guarded(body)
        rig.bench.detach()
        rig.look_away()
        if ran.finding is not None:
            return ran
        judge = rig.judge
        judged = (judge.worlds, judge.stores, judge.divergence)
        heads = tuple(map(Head.of, rig.bench.processes))
        return cls(rig.medium.snapshot(), rig.bench.time.now_ms, heads, judged, tuple(rig.told))

    def back(self, rig: FaultRig, files: Files | None = None) -> None:
        """Bring a rig back here, or to other files than there were."""
        rig.look_away()
        rig.bench.detach()
        rig.medium.restore(dict(self.files if files is None else files))
        rig.bench.time.now_ms = self.now_ms
        rig.judge.worlds, rig.judge.stores, rig.judge.divergence = self.judged
        rig.told = list(self.told)
        for process, head in zip(rig.bench.processes, self.heads, strict=True):
            head.put_back(process)
        rig.bench.know_stores(rig.judge.stores)
