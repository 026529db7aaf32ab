"""Fails one operation at each of its calls, and sees what came of it, at once, after a crash, and in the end."""

from __future__ import annotations

from model.actions import Step, Verb
from model.possible import Worlds
from model.properties import ACK_DURABLE, ANSWERS
from model.words import Kind as Answered
from model.words import Outcome, Stores
from stateful.bench import Process, SubjectFailedError
from stateful.engines.catalogue import Target
from stateful.failing.judging import Faulted, head_of
from stateful.failing.kinds import Armed, Kind
from stateful.failing.rig import FaultRig
from stateful.failing.standpoint import Standpoint
from stateful.judge import Finding, told
from stateful.oracle import DamagedError, StrayError
from stateful.order import Ran, Told, unreadable
from stateful.power.aftermath import Aftermath
from stateful.storage.disk import Disk
from stateful.storage.log import Files, Log
from stateful.verdict import Tally

CALLS_MAX = 200
"""An operation with more calls of a kind than this is cut, and the verdict says so."""
ACKNOWLEDGED = frozenset({Answered.OK, Answered.REPLAYED})
_LEFT_BEHIND = ("-journal", "-wal")
"""What a crash may leave beside a database, and what whoever comes next does not take as it stands."""


class Sweeper:
    """Sweeps targets on one rig. Close it, or use it as a context manager."""

    def __init__(self, rig: FaultRig, tally: Tally) -> None:
        self._rig = rig
        self._tally = tally
        self._aftermath = Aftermath(rig.model, ledger=True)
        self._after_crash: dict[tuple[tuple[str, bytes], ...], Stores] = {}
        self._rested: dict[tuple[Worlds, Stores, object], tuple[tuple[Told, ...], Finding | None]] = {}

    def close(self) -> None:
        """Remove what was left of crashes."""
        self._aftermath.close()

    def sweep(self, target: Target, kinds: tuple[Kind, ...]) -> None:
        """Fail the target at each call of each kind."""
        here = Standpoint.after(self._rig, target.prefix)
        if isinstance(here, Ran):
            self._tally.take(self._rig, here)
            return
        if not self._rig.model.is_enabled(target.action, self._rig.judge.world):
            return
        self._here = here
        self._rested.clear()
        self._after_crash.clear()
        for kind in kinds:
            for at in range(1, CALLS_MAX + 1):
                ran = self._at(target, kind, at)
                if ran is None:
                    break
                if ran.told:
                    self._tally.take(self._rig, ran)
                    if self._tally.enough:
                        return
            else:
                self._tally.left_over.append(f"{target.name}: more than {CALLS_MAX} calls to fail ({kind.name})")

    # -- one call after the other -----------------------------------------------------------------------------

    def _at(self, target: Target, kind: Kind, at: int) -> Ran | None:
        """What came of the n-th call's failure: nothing told if it did no harm, None if there was no such call."""
        rig = self._rig
        self._here.back(rig)
        fault = kind.armed(rig, at)
        before = len(rig.told)
        met: list[bool] = []

        def body() -> Finding | None:
            finding = self._failed(target, kind, at, fault)
            met.append(fault.was_met)
            return finding

        ran = rig.guarded(body)
        if met == [False]:
            return None
        if met and not fault.failed and ran.finding is None:
            return Ran((), None)
        self._tally.boundaries[f"{target.name}: {kind.name}"] += fault.failed
        answered = rig.told[before].outcome.kind if len(rig.told) > before else Answered.UNKNOWN
        self._tally.faults[f"{kind.name} | {fault.store} | {answered}"] += 1
        self._tally.faults[f"{kind.name} | {fault.store} | calls"] += fault.failed
        return Ran(ran.told, ran.finding, len(self._here.told) + 1)

    def _failed(self, target: Target, kind: Kind, at: int, fault: Armed) -> Finding | None:
        rig, action = self._rig, target.action
        process = rig.bench.processes[action.worker]
        if action.verb is Verb.RESTART:
            process.gate = fault.gate
        else:
            rig.bench.attach(process, fault.gate)
            self._checkpoint_each_commit(process)
        rig.look()
        log = rig.recording.start_recording() if kind.then_cut else None
        try:
            outcome, trouble, files = self._act(process, target, fault)
        finally:
            fault.end()
        if not fault.failed:
            return None
        rig.told.append(Told(Step(action), outcome))
        where = f"call {at} failing ({kind.name}{f' of {fault.store}' if fault.store else ''})"
        if trouble is not None:
            return Finding(trouble.property_id, f"{trouble.detail}; {where}")
        finding = self._judged_now(process, target, outcome, files, where) or self._is_kept(log, where)
        finding = finding or self._again(Step(action), where) or self._is_kept(log, where)
        rig.recording.stop_recording()
        return finding or self._to_rest()

    def _checkpoint_each_commit(self, process: Process) -> None:
        """So that each commit meets the calls that write a log back into its database, which otherwise come seldom."""
        for connection in process.connections:
            connection.execute("PRAGMA wal_autocheckpoint = 1")

    def _act(self, process: Process, target: Target, fault: Armed) -> tuple[Outcome, Finding | None, Files]:
        """Do the operation while the fault waits for it: its outcome, what broke, and the files as it left them."""
        rig, action = self._rig, target.action
        oracle = rig.look()
        outcome, trouble = Outcome(Answered.UNKNOWN), None
        fault.begin()
        try:
            outcome = rig.bench.perform(process, action, oracle.receipts)
        except SubjectFailedError as error:
            trouble = Finding(ANSWERS.id, f"{action.label}: {error}")
        except DamagedError as error:
            trouble = unreadable(Step(action), error)
        files = rig.medium.snapshot() if fault.failed else {}
        return outcome, trouble, files

    # -- what came of it --------------------------------------------------------------------------------------

    def _judged_now(
        self, process: Process, target: Target, outcome: Outcome, files: Files, where: str
    ) -> Finding | None:
        """Hold the answer against what is stored: for those who go on, and for those who come after a crash."""
        rig, action = self._rig, target.action
        world = rig.judge.world
        oracle = rig.look()
        try:
            read = oracle.read()
            head = (
                head_of(process, world.workers[action.worker], oracle.receipts)
                if action.worker >= 0 and action.verb is not Verb.RESTART
                else None
            )
            crashed = self._read_after_crash(files, read)
        except (StrayError, DamagedError) as error:
            broken = unreadable(Step(action), error)
            return Finding(broken.property_id, f"{broken.detail}; {where}")
        faulted = Faulted(rig.model, world, action, outcome, head, rig.subject.capabilities)
        finding = faulted.finding(read, where)
        if finding is None and crashed != read:
            finding = faulted.finding(crashed, f"{where} and a crash right after it")
        rig.judge.worlds = faulted.agreeing(read) or rig.judge.worlds
        rig.judge.stores = read
        return finding

    def _read_after_crash(self, files: Files, read: Stores) -> Stores:
        """What whoever opens the stores after a crash reads: what only a running process knows is gone."""
        if not any(path.endswith(_LEFT_BEHIND) for path in files):
            return read
        state = tuple(files.items())
        known = self._after_crash.get(state)
        if known is None:
            known = self._after_crash[state] = self._aftermath.read(files)
        return known

    def _again(self, step: Step, where: str) -> Finding | None:
        """Whoever was told of trouble asks once more, of the same process: it must not be the worse for it."""
        rig = self._rig
        if not rig.can(step):
            return None
        finding = rig.do(step) or rig.judge.divergence
        return finding and Finding(finding.property_id, f"{finding.detail}; asked again after {where}")

    def _is_kept(self, log: Log | None, where: str) -> Finding | None:
        """What was acknowledged must be durable, whatever failed before: only what was synced survives a power cut."""
        rig, last = self._rig, self._rig.told[-1]
        if log is None or last.outcome.kind not in ACKNOWLEDGED or not rig.model.contracts.durability.keeps:
            return None
        label = f"{last.step.label}, after {where}, answered {told(last.outcome)}"
        try:
            stores = self._aftermath.read(Disk.after(log).files(()))
        except (StrayError, DamagedError) as error:
            return Finding(ACK_DURABLE.id, f"{label}, and after a power cut the stores cannot be read: {error}")
        if stores == rig.judge.stores:
            return None
        return Finding(ACK_DURABLE.id, f"{label}, and a power cut undoes it")

    def _to_rest(self) -> Finding | None:
        """Nothing fails any more. Equal worlds come to rest alike, so that it is done once for each."""
        rig = self._rig
        open_ones = tuple(c.in_transaction for p in rig.bench.processes for c in p.connections)
        state = (rig.judge.worlds, rig.judge.stores, (open_ones, rig.judge.divergence))
        if state not in self._rested:
            before = len(rig.told)
            finding = rig.finish()
            self._rested[state] = (tuple(rig.told[before:]), finding)
            del rig.told[before:]
        more, finding = self._rested[state]
        rig.told += more
        return finding
