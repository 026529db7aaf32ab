"""The kills engine: real processes that die by SIGKILL, or freeze by SIGSTOP, at every boundary of every operation.

An order leads up to an operation. The operation then runs in a forked child that dies at boundary n = 1, 2, 3 ...
until a run has none left. After each death an oracle reads the stores, the judge narrows the possible worlds, and a
fresh process recovers and runs to rest. For a worker's operations the child also freezes at each boundary, another
process takes the lease over and finishes, and the first is woken.

This must run in a single-threaded process: it forks.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from attrs import evolve

from model.actions import Action, Step, Verb
from model.properties import ANSWERS, Moment, broken
from model.words import IN_FLIGHT, Kind, Outcome, Reply, State
from stateful.because import because
from stateful.bench import SubjectFailedError
from stateful.boundaries import Gate
from stateful.children import Child, KillingGate, StoppingGate
from stateful.engines.catalogue import Target, targets
from stateful.engines.walk import verbs_of
from stateful.fresh import job_for, run_fresh
from stateful.judge import Finding
from stateful.oracle import DamagedError, Oracle, StrayError
from stateful.order import Ran, Rig, Told, unreadable
from stateful.verdict import Tally

T = TypeVar("T")
NAME = "kills"
BOUNDARIES_MAX = 200
"""An operation with more boundaries than this is cut, and the verdict says so."""
SAMPLED, SAMPLE_EVERY = f"{Verb.DISPATCH} {Reply.DONE} -> {Kind.OK}", 4
"""What is killed in fresh interpreters too: a send, at every fourth boundary."""
FROZEN = frozenset({Verb.DISPATCH, Verb.WAKE, Verb.ACKNOWLEDGE, Verb.CHECKPOINT, Verb.RENEW, Verb.RECONCILE})
"""Operations that a stalled owner may be in the middle of when its lease is taken over."""


class Sweeper:
    """Sweeps targets on one rig, whose stores must be files and whose time must be shared across processes."""

    def __init__(self, rig: Rig, tally: Tally) -> None:
        self._rig = rig
        self._tally = tally
        self._recovered: dict[object, Ran] = {}

    def sweep(self, target: Target) -> None:
        """Kill the target at every boundary, and freeze it at every boundary if a worker acts."""
        if not self._lead_up(target):
            return
        self._each_boundary(target, KillingGate, self._killed)
        if target.action.verb in FROZEN and target.kind in {Kind.OK, Kind.REPLAYED} and self._rig.model.workers > 1:
            self._each_boundary(target, StoppingGate, self._frozen)

    def sample(self, target: Target, every: int) -> None:
        """Kill the target at every n-th boundary in a fresh interpreter, and recover in another."""
        if not self._rig.subject.has_ledger or not self._lead_up(target):
            return
        for boundary in range(1, BOUNDARIES_MAX, every):
            self._back()
            status, _ = run_fresh(job_for(self._rig, target.action, boundary))
            if status == 0:
                return
            step = Step(target.action, boundary)
            told = (*self._told, Told(step, Outcome(Kind.KILLED)))
            finding: Finding | None = Finding(ANSWERS.id, f"{step.label}: a fresh interpreter ended with {status}")
            more: list[Told] = []
            if status == -signal.SIGKILL:
                self._tally.boundaries[f"{target.name}: killed in a fresh interpreter"] += 1
                finding = self._observe(step)
            if finding is None:
                sent = run_fresh(job_for(self._rig, target.action, 0))[1]
                finding, more = sent or (Finding(ANSWERS.id, "recovery did not end"), [])
            self._tally.take(self._rig, Ran((*told, *more), finding, len(told)))

    # -- leading up -------------------------------------------------------------------------------------------

    def _lead_up(self, target: Target) -> bool:
        """Run the order before the operation in this process, and remember where it led."""
        rig = self._rig

        def body() -> Finding | None:
            finding = rig.start()
            for step in target.prefix:
                finding = finding or rig.do(step)
            return finding

        ran = rig.guarded(body)
        rig.bench.detach()
        rig.look_away()
        self._recovered.clear()
        if ran.finding is not None:
            self._tally.take(rig, ran)
            return False
        rig.bench.know_stores(rig.judge.stores)
        self._files = rig.medium.snapshot()
        self._judged = (rig.judge.worlds, rig.judge.stores, rig.judge.divergence)
        self._told = tuple(rig.told)
        self._now_ms = rig.bench.time.now_ms
        return rig.model.is_enabled(target.action, rig.judge.world)

    def _back(self) -> None:
        rig = self._rig
        rig.medium.restore(self._files)
        rig.bench.time.now_ms = self._now_ms
        rig.judge.worlds, rig.judge.stores, rig.judge.divergence = self._judged
        rig.told = list(self._told)

    # -- one boundary after the other -------------------------------------------------------------------------

    def _each_boundary(
        self, target: Target, gate: type[Gate], judged: Callable[[Target, int, Child], Ran | None]
    ) -> None:
        for boundary in range(1, BOUNDARIES_MAX + 1):
            self._back()
            with Child(partial(self._act, target.action, gate(), boundary)) as child:
                ran = judged(target, boundary, child)
            if ran is None:
                return
            how = "frozen" if gate is StoppingGate else "killed"
            self._tally.boundaries[f"{target.name}: {how}"] += 1
            self._tally.take(self._rig, ran)
            if ran.finding is not None and ran.finding.property_id == ANSWERS.id:
                return
        self._tally.left_over.append(f"{target.name}: more than {BOUNDARIES_MAX} boundaries")

    def _act(self, action: Action, gate: Gate, die_at: int) -> tuple[Outcome, str]:
        """In a child: do the operation behind an armed gate; the last boundary lies after it."""
        bench = self._rig.bench
        process = bench.processes[action.worker]
        try:
            if not self._rig.subject.has_ledger:
                self._from_scratch()
                process = bench.processes[action.worker]
                process.gate = gate
                for connection in process.connections:
                    connection.gate = gate
            elif action.verb is not Verb.RESTART:
                bench.attach(process, gate)
            else:
                process.gate = gate
            gate.arm(die_at)
            outcome = bench.perform(process, action, self._receipts)
            gate.reach("", "end")
        except SubjectFailedError as error:
            return Outcome(Kind.UNKNOWN), str(error)
        except DamagedError as error:
            return Outcome(Kind.UNKNOWN), f"the stores can no longer be read: {error}"
        return outcome, ""

    def _from_scratch(self) -> None:
        """A subject that keeps things in its head gets there by its own steps."""
        rig = self._rig
        rig.start()
        for told in self._told:
            rig.do(told.step)

    def _receipts(self, key: int) -> list[str]:
        return self._looking(lambda oracle: oracle.receipts(key))

    def _looking(self, look: Callable[[Oracle], T]) -> T:
        oracle = Oracle(self._rig.medium, self._rig.model, ledger=self._rig.subject.has_ledger)
        try:
            return look(oracle)
        finally:
            oracle.close()

    def _read(self) -> Any:
        return self._looking(Oracle.read)

    def _stores(self) -> Any:
        """What is stored now; for a subject whose rows cannot be read, the model's word for them."""
        read, judge = self._read(), self._rig.judge
        return read if self._rig.subject.has_ledger else judge.merged(judge.stores, read)

    # -- killed -----------------------------------------------------------------------------------------------

    def _killed(self, target: Target, boundary: int, child: Child) -> Ran | None:
        """What a death at one boundary led to; None if the operation ended before it got there."""
        ended = child.wait()
        step = Step(target.action, boundary)
        told = (*self._told, Told(step, Outcome(Kind.KILLED)))
        if ended.signal != signal.SIGKILL:
            return self._ended(ended, told, step)
        finding = self._observe(step)
        if finding is not None:
            return Ran(told, finding, len(told))
        return self._recover(target.action, told)

    def _observe(self, step: Step) -> Finding | None:
        judge, outcome = self._rig.judge, Outcome(Kind.KILLED)
        try:
            read = self._read()
        except (StrayError, DamagedError) as error:
            return unreadable(step, error)
        if self._rig.subject.has_ledger:
            return judge.observe(step, outcome, read)
        return judge.observe_sink(step, outcome, read)

    def _ended(self, ended: Any, told: tuple[Told, ...], step: Step) -> Ran | None:
        if ended.signal == signal.SIGALRM:
            return Ran(told, Finding(ANSWERS.id, f"{step.action.label}: no answer in time"), len(told))
        if ended.sent is None:
            return Ran(told, Finding(ANSWERS.id, f"{step.action.label}: it ended its process"), len(told))
        if ended.sent[1]:
            return Ran(told, Finding(ANSWERS.id, f"{step.action.label}: {ended.sent[1]}"), len(told))
        return None

    def _recover(self, action: Action, told: tuple[Told, ...]) -> Ran:
        """A fresh process recovers and runs to rest. Equal stores recover equally, so that it is done once for each."""
        rig = self._rig
        state = (tuple(rig.medium.snapshot().items()), rig.judge.worlds)
        known = self._recovered.get(state)
        if known is None:
            with Child(lambda: self._run_to_rest(action)) as child:
                ended = child.wait()
            finding, more = ended.sent or (Finding(ANSWERS.id, "recovery did not end"), [])
            known = self._recovered[state] = Ran(tuple(more), finding)
        return Ran((*told, *known.told), known.finding, len(told))

    def _run_to_rest(self, action: Action) -> tuple[Finding | None, list[Told]]:
        rig = self._rig
        rig.told = []
        rig.bench.end_process(rig.bench.processes[action.worker])
        try:
            rig.look()
        except DamagedError as error:
            return unreadable(Step(action), error), []
        return rig.finish(), rig.told

    # -- frozen -----------------------------------------------------------------------------------------------

    def _frozen(self, target: Target, boundary: int, child: Child) -> Ran | None:
        """What a takeover during a freeze led to; None if the operation ended before it froze."""
        action = target.action
        if not child.stopped():
            return None
        try:
            return self._taken_over(target, boundary, child)
        except (StrayError, DamagedError) as error:
            step = Step(action, boundary)
            told = (*self._told, Told(step, Outcome(Kind.KILLED)))
            return Ran(told, unreadable(step, error), len(told))

    def _taken_over(self, target: Target, boundary: int, child: Child) -> Ran:
        rig, action = self._rig, target.action
        world = rig.judge.world
        key = world.workers[action.worker].stalled if action.verb is Verb.WAKE else action.key
        token = world.workers[action.worker].tokens[key]
        at_freeze = rig.judge.stores = self._stores()
        rig.judge.worlds = (evolve(world, stores=rig.judge.stores),)
        other = 1 - action.worker if action.worker < 2 else 0
        with Child(lambda: self._take_over(other, key)) as successor:
            finding, told, now_ms = successor.wait().sent or (Finding(ANSWERS.id, "the takeover did not end"), [], 0)
        before = self._stores()
        child.go_on()
        ended = child.wait()
        steps = (*self._told, *_as_stall(rig, action, key, told))
        if finding is None and ended.sent is None:
            finding = Finding(ANSWERS.id, f"{action.label}: it did not go on after it was woken")
        if finding is None and ended.sent[1]:
            finding = Finding(ANSWERS.id, f"{action.label}: {ended.sent[1]}")
        if finding is None:
            outcome: Outcome = ended.sent[0]
            after = self._stores()
            if before.slots[key].token_high == at_freeze.slots[key].token_high:
                now_ms = self._now_ms  # it froze with the lock in hand: nobody took over, and it ran at its own time
            elif action.verb is Verb.DISPATCH and at_freeze != world.stores:
                action = rig.model.alphabet.by_label[f"wake w{action.worker + 1} {action.choice}"]
            moment = Moment(before, after, now_ms, action, outcome, key, token, rig.model.limits)
            # What was written before the freeze was written in time; only what came after the takeover is in question.
            prop = broken(moment, rig.subject.capabilities) if after != before else None
            if prop is not None:
                detail = f"{action.label}, frozen at boundary {boundary} during a takeover, answered {outcome.kind}"
                detail += f": {why}" if (why := because(prop.id, moment)) else ""
                finding = Finding(prop.id, detail)
        return Ran(steps, finding, len(steps))

    def _take_over(self, other: int, key: int) -> tuple[Finding | None, list[Told], int]:
        """In a child: another worker waits until the lease has run out, takes the key over and finishes it."""
        rig, name = self._rig, f"w{other + 1} k{key + 1}"
        rig.told = []
        try:
            rig.look()
        except DamagedError as error:
            step = Step(rig.model.alphabet.by_label[f"claim {name}"])
            return unreadable(step, error), [], rig.bench.time.now_ms

        def state() -> State | None:
            intent = rig.judge.world.stores.slots[key].intent
            return intent.state if intent else None

        labels = [f"restart w{other + 1} same-name", f"wake w{other + 1} done", f"advance k{key + 1} lease"]
        labels += [f"claim {name}", f"reconcile {name}", f"dispatch {name} done", f"acknowledge {name}"]
        for label in labels:
            step = Step(rig.model.alphabet.by_label[label])
            if not rig.can(step) or (step.action.verb is Verb.RECONCILE and state() not in IN_FLIGHT):
                continue
            finding = rig.do(step)
            if finding is not None:
                return finding, rig.told, rig.bench.time.now_ms
        return None, rig.told, rig.bench.time.now_ms


def _as_stall(rig: Rig, action: Action, key: int, took_over: list[Told]) -> tuple[Told, ...]:
    """The nearest failure order of the alphabet to a freeze inside an operation: it starts before the takeover."""
    by_label, worker = rig.model.alphabet.by_label, f"w{action.worker + 1}"
    unknown = Outcome(Kind.UNKNOWN)
    if action.verb is Verb.DISPATCH:
        first = (Told(Step(by_label[f"stall {worker} k{key + 1}"]), unknown),)
        return (*first, *took_over, Told(Step(by_label[f"wake {worker} done"]), unknown))
    return (*took_over, Told(Step(action), unknown))


def catalogue(rig: Rig, seed: int) -> list[Target]:
    """What there is to sweep on a rig, in a fixed order."""
    return targets(rig.model, verbs_of(rig), seed)


def run(rig: Rig, seed: int, part: int, parts: int, tally: Tally) -> None:
    """Sweep one of ``parts`` equal parts of the catalogue of ``seed``; what is found goes into ``tally``."""
    sweeper = Sweeper(rig, tally)
    for target in itertools.islice(catalogue(rig, seed), part, None, parts):
        sweeper.sweep(target)
        if target.name == SAMPLED:
            sweeper.sample(target, SAMPLE_EVERY)
        if tally.enough:
            return
