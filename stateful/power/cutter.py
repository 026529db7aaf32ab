"""The cutter: every crash state of a recorded order, held against what was acknowledged, and recovered from.

After a power cut nobody lives. What was answered before must be there, and of the operation that was under way any
prefix of its stages: the same worlds that a death leaves. The dispatcher then restarts on what is left and runs to
rest; while it does, the power may fail a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Self

from attrs import define, evolve, field, frozen

from model.actions import Action, Step, Verb
from model.possible import Worlds, after_crash
from model.properties import ACK_DURABLE, ANSWERS, Moment, breaks
from model.step import dead
from model.words import Kind, Outcome, Stores, World
from stateful.because import because
from stateful.judge import Finding, difference, same_effects
from stateful.oracle import DamagedError, StrayError
from stateful.order import ORDER_SECONDS, Hang, Told, watched
from stateful.power.aftermath import Aftermath
from stateful.power.cut import Cut, answered_by, cut_of, left_by, lost_by
from stateful.power.recorded import Known, Recorded, go_on
from stateful.quiesce import quiesce
from stateful.storage.crashes import Bounds, Crashes, CrashState
from stateful.storage.log import Files, Mark
from stateful.storage.rig import RecordingRig

NAMED = ("intent-kept", "true-completion", "one-effect", "right-payload", "unknown-kept", "first-receipt")
"""Promises that tell more than that something was lost, where a cut breaks them."""
SECOND = Bounds(exhaustive=4, samples=6, window=6, names=3, torn=2)
"""How much of a recovery's own crash states is enumerated."""
BLIND_MAX = 400
"""So many recoveries an order, where each has to be tried because what is stored cannot be read."""
AGAIN_EVERY = 8
"""One recovery in so many is cut a second time."""


@frozen
class Loss:
    """A crash state that breaks a promise."""

    finding: Finding
    cut: Cut
    lost: tuple[str, ...]
    """What was pending and did not survive, in words."""
    at: str


@frozen
class Done:
    """What became of one cut."""

    finding: Finding | None
    mark: int
    """How many steps had been answered."""
    read: Stores | None
    """What was stored then; None where that cannot be read."""
    lost: tuple[str, ...]
    after: str
    """The last storage operation before it; empty where that was an answer."""
    told: tuple[Told, ...]
    """The recovery."""
    seen: tuple[Stores, ...]
    """What was stored after each step of it."""


@define
class Counts:
    """What was enumerated, over all orders."""

    orders: int = 0
    operations: int = 0
    states: int = 0
    points: int = 0
    passed: int = 0
    """Points that were not cut, as what is stored is too large to cut all."""
    sampled: int = 0
    second: int = 0
    """Crash states of recoveries."""
    recoveries: int = 0
    families: Counter[str] = field(factory=Counter)


class Cutter:
    """Cuts recorded orders of one rig. Close it, or use it as a context manager."""

    def __init__(self, rig: RecordingRig, bounds: Bounds | None = None, *, seed: int = 0, lies: bool = False) -> None:
        self.rig = rig
        self.counts = Counts()
        self._bounds = bounds or Bounds()
        self._seed = seed
        self._lies = lies
        self._aftermath = Aftermath(rig.model, ledger=rig.subject.has_ledger)
        self._read: Stores | None = None
        self._recovered: dict[object, Finding | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what was put on disk."""
        self._aftermath.close()

    def cut(self, recorded: Recorded) -> Generator[Loss]:
        """The crash states of an order that break a promise, each as it is found."""
        self.counts.orders += 1
        self.counts.operations += len(recorded.log)
        crashes = Crashes(recorded.log, self._bounds, seed=self._seed, ignore_syncs=self._lies)
        try:
            for state in crashes:
                self.counts.states += 1
                finding = self.judged(recorded, state.files, _mark(state), second=True)
                if finding is not None:
                    yield Loss(finding, cut_of(state), tuple(state.lost(recorded.log)), state.last)
        finally:
            self.counts.points += crashes.counts.points
            self.counts.passed += crashes.counts.passed
            self.counts.sampled += crashes.counts.sampled
            self.counts.families.update(crashes.counts.families)

    def at(self, recorded: Recorded, cut: Cut) -> Done:
        """One cut of an order, told in full; where it does not fit what was recorded, the nearest one that does."""
        cut = cut.fitting(recorded.log)
        files = left_by(recorded.log, cut)
        mark = answered_by(recorded.log, cut.position)
        seen: list[Stores] = []
        self.rig.told = []
        before, self.rig.on_step = self.rig.on_step, lambda: seen.append(self.rig.judge.stores)
        try:
            finding = self.judged(recorded, files, mark, second=False)
        finally:
            self.rig.on_step = before
        told = tuple(self.rig.told)
        lost = tuple(lost_by(recorded.log, cut))
        last = recorded.log.operations[cut.position - 1] if cut.position else Mark(0)
        after = "" if isinstance(last, Mark) else recorded.log.tell(cut.position - 1)
        return Done(finding, mark, self._read, lost, after, told, tuple(seen))

    def judged(self, recorded: Recorded, files: Files, mark: int, *, second: bool) -> Finding | None:
        """What a crash state breaks, now or when the dispatcher recovers in it."""
        known, action = recorded.known[mark], recorded.under_way(mark)
        try:
            self._read = None
            read = self._read = self._aftermath.read(files)
        except (DamagedError, StrayError) as error:
            return Finding(ACK_DURABLE.id, f"{_during(action)}: {error}")
        allowed = self._allowed(known, action, read)
        if not allowed:
            return self._lost(known, action, read)
        state = (read, allowed, known.now_ms, self._own(files))
        if state not in self._recovered and self._may_recover():
            self.counts.recoveries += 1
            self._recovered[state] = self._recover(files, allowed, known, read, second=second)
        return self._recovered.get(state)

    def _own(self, files: Files) -> object:
        """What a subject has stored where nobody but itself can read it: equal rows do not mean equal stores then."""
        if self.rig.subject.has_ledger:
            return None
        return tuple(sorted((path, hash(data)) for path, data in files.items() if not path.startswith("sink/")))

    def _may_recover(self) -> bool:
        return self.rig.subject.has_ledger or len(self._recovered) < BLIND_MAX * max(1, self.counts.orders)

    def _allowed(self, known: Known, action: Action | None, read: Stores) -> Worlds:
        worlds = dict.fromkeys(_all_dead(world) for world in known.worlds)
        if action is not None and action.verb is not Verb.ADVANCE:
            taken = [w for w in known.worlds if self.rig.model.is_enabled(action, w)]
            worlds |= dict.fromkeys(_all_dead(w) for w in after_crash(self.rig.model, taken, action))
        if self.rig.subject.has_ledger:
            return tuple(w for w in worlds if w.stores == read)
        return tuple(w for w in worlds if same_effects(w.stores, read, range(self.rig.model.keys)))

    def _lost(self, known: Known, action: Action | None, read: Stores) -> Finding | None:
        """What was acknowledged and is gone, or is there and was never done."""
        if not self.rig.subject.has_ledger:
            return None
        step = action or self.rig.model.alphabet.by_label["advance tick"]
        limits = self.rig.model.limits
        moment = Moment(known.stores, read, known.now_ms, step, Outcome(Kind.KILLED), step.key, 0, limits)
        for property_id in NAMED:
            if breaks(moment, property_id):
                why = because(property_id, moment) or difference(known.stores, read)
                return Finding(property_id, f"{_during(action)}: {why}")
        return Finding(ACK_DURABLE.id, f"{_during(action)}: {difference(known.stores, read)}")

    # -- recovery ---------------------------------------------------------------------------------------------

    def _recover(self, files: Files, worlds: Worlds, known: Known, read: Stores, *, second: bool) -> Finding | None:
        """Restart the dispatcher on a crash state, run it to rest, and cut the power once more meanwhile."""
        rig = self.rig
        rig.bench.end()
        rig.look_away()
        rig.medium.restore(dict(files))
        rig.bench.time.now_ms = known.now_ms
        rig.bench.processes = [rig.bench.new_process(w.name) for w in worlds[0].workers]
        rig.bench.processes.append(rig.bench.new_process("client"))
        rig.judge.worlds, rig.judge.stores, rig.judge.divergence = worlds, read, None
        rig.told = []
        rig.bench.know_stores(read)
        try:
            with watched():
                rig.look()
                recovery = go_on(rig, (Step(rig.model.alphabet.by_label[label]) for label in quiesce(rig.judge)))
        except DamagedError as error:
            return Finding(ACK_DURABLE.id, f"when it recovered: {error}")
        except Hang:
            return Finding(ANSWERS.id, f"when it recovered: {rig.current.label}: no answer within {ORDER_SECONDS} s")
        if isinstance(recovery, Finding):
            return evolve(recovery, detail=f"when it recovered: {recovery.detail}")
        finding = rig.judge.at_rest() or rig.judge.divergence
        if finding is not None:
            return evolve(finding, detail=f"when it recovered: {finding.detail}")
        if second and self.counts.recoveries % AGAIN_EVERY == 1:
            return self._cut_again(recovery)
        return None

    def _cut_again(self, recovery: Recorded) -> Finding | None:
        for state in Crashes(recovery.log, SECOND, seed=self._seed, ignore_syncs=self._lies):
            self.counts.second += 1
            finding = self.judged(recovery, state.files, _mark(state), second=False)
            if finding is not None:
                return evolve(finding, detail=f"when the power failed again: {finding.detail}")
        return None


def _mark(state: CrashState) -> int:
    return state.mark if isinstance(state.mark, int) else 0


def _all_dead(world: World) -> World:
    for index, worker in enumerate(world.workers):
        if worker.alive:
            world = dead(world, index)
    return world


def _during(action: Action | None) -> str:
    return f"power cut during {action.label}" if action is not None else "power cut after the last step"
