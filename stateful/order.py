"""The rig: one subject, its stores, its oracle and its judge, wired up to run failure orders."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from attrs import field, frozen

from model.actions import ALPHABET, Action, Step, Verb, instant
from model.contracts import Contracts, Limits
from model.properties import ANSWERS, CONFORMS
from model.step import Model
from model.words import Kind, Outcome, Stores
from stateful.bench import Bench, SubjectFailedError
from stateful.clock import SharedTime, SharedTimeAcrossProcesses
from stateful.judge import Finding, Judge
from stateful.medium import FolderMedium, MemoryMedium
from stateful.oracle import DamagedError, Oracle, StrayError
from stateful.quiesce import quiesce
from stateful.subject import Subject

ORDER_SECONDS = 10
"""An order that takes longer than this hangs: a usual one takes milliseconds."""
REMOTE_ORDER_SECONDS = 180
"""The same where each process is one that has to be started: a usual one takes a second."""


READ_ONLY = "readonly database"


class Hang(BaseException):
    """The subject did not answer in time."""


def unreadable(step: Step, error: StrayError | DamagedError) -> Finding:
    """What stores that an oracle cannot make sense of mean."""
    if isinstance(error, StrayError):
        return Finding("effect-has-intent", f"{step.label}: {error}")
    return Finding(ANSWERS.id, f"{step.label}: the stores can no longer be read: {error}")


@frozen
class Told:
    """One executed step: what was done and what it answered."""

    step: Step
    outcome: Outcome
    place: str = field(default="", eq=False)
    """Where its process died, if that is known."""


@frozen
class Ran:
    """What became of one order: the steps that were executed (quiesce included), and the finding, if any."""

    told: tuple[Told, ...]
    finding: Finding | None
    own: int = 0
    """How many of the steps came before quiesce."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The executed steps."""
        return tuple(t.step for t in self.told)


class Rig:
    """Runs orders on one subject, one after the other.

    ``steps_done`` and ``orders_done`` count the work. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        subject: Subject,
        contracts: Contracts,
        limits: Limits | None = None,
        *,
        in_memory: bool = True,
        across_processes: bool = False,
        folder: Path | None = None,
        workers: int = 2,
        keys: int = 2,
    ) -> None:
        self.subject = subject
        self.model = Model(subject.relaxed(contracts), subject.limited(limits), workers, keys)
        self.medium = self._new_medium(in_memory=in_memory, folder=folder)
        self.bench = self._new_bench(SharedTimeAcrossProcesses() if across_processes else SharedTime())
        self.judge = Judge(self.model, subject.capabilities)
        self.oracle: Oracle | None = None
        self.told: list[Told] = []
        self.current = Step(self.model.alphabet.by_label["advance tick"])
        self.on_step: Callable[[], None] | None = None
        self.recorder: Path | None = None
        self._own = 0
        self._patience = REMOTE_ORDER_SECONDS if subject.is_remote else ORDER_SECONDS
        self.steps_done = 0
        self.orders_done = 0

    def _new_medium(self, *, in_memory: bool, folder: Path | None) -> FolderMedium:
        return MemoryMedium() if in_memory else FolderMedium(folder)

    def _new_bench(self, time: SharedTime) -> Bench:
        return Bench(self.subject, self.model, self.medium, time=time)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every process and connection and remove the stores."""
        try:
            self.look_away()
            self.bench.end()
        finally:
            self.medium.close()

    def look(self) -> Oracle:
        """An oracle on the stores as they are."""
        if self.oracle is None:
            self.oracle = Oracle(self.medium, self.model, ledger=self.subject.has_ledger)
        return self.oracle

    def look_away(self) -> None:
        """Close the oracle: nothing may be open when stores are put back or a process forks."""
        if self.oracle is not None:
            self.oracle.close()
            self.oracle = None

    def start(self) -> Finding | None:
        """Begin a new order on empty stores. A finding only if the subject cannot even be opened."""
        if self.recorder is not None:
            self.recorder.write_text("", "utf-8")
        self.told = []
        self._own = 1_000_000
        self.judge.reset()
        self.orders_done += 1
        try:
            self.bench.reset()
        except SubjectFailedError as error:
            return Finding(ANSWERS.id, f"opening the subject on empty stores: {error}")
        if self.oracle is not None and self.oracle.generation != self.medium.generation:
            self.look_away()
        try:
            self.look().reset()
        except DamagedError as error:
            return Finding(ANSWERS.id, f"opening the subject on empty stores: {error}")
        return None

    def can(self, step: Step) -> bool:
        """Whether the step makes sense now, and for this subject: a trace may come from one that has more parts."""
        return self.has_part_for(step.action) and self.model.is_enabled(step.action, self.judge.world)

    def has_part_for(self, action: Action) -> bool:
        """Whether the subject has what the action needs."""
        needs = ALPHABET[action.verb].needs
        return needs is None or needs in self.subject.capabilities

    def do(self, step: Step) -> Finding | None:
        """Do one step and judge it."""
        if self.recorder is not None:
            with self.recorder.open("a", encoding="utf-8") as out:
                out.write(f"{step.action.label}\t{step.kill_at}\n")
        finding = self._do(step)
        if self.on_step is not None:
            self.on_step()
        return finding

    def _do(self, step: Step) -> Finding | None:
        oracle = self.oracle
        assert oracle is not None
        judge, action = self.judge, step.action
        at_ms = self.bench.time.now_ms
        if action.verb is Verb.ADVANCE:
            due = at_ms + 1 if action.choice == "tick" else instant(judge.stores.slots[action.key], action.choice)
            at_ms = at_ms if due is None else max(at_ms, due)
        self.bench.know_stores(judge.stores)
        if action.verb is Verb.POWER_CUT:
            self.look_away()
        self.steps_done += 1
        self.current = step
        try:
            outcome = self.bench.do(step, at_ms, oracle.receipts)
        except SubjectFailedError as error:
            self.told.append(Told(step, Outcome(Kind.UNKNOWN, str(error))))
            return Finding(ANSWERS.id, f"{step.label}: {error}")
        except DamagedError as error:
            self.told.append(Told(step, Outcome(Kind.UNKNOWN)))
            return unreadable(step, error)
        self.told.append(Told(step, outcome, self.bench.place if step.kill_at else ""))
        try:
            read = self._read()
        except (StrayError, DamagedError) as error:
            return unreadable(step, error)
        if self.subject.has_ledger:
            return judge.observe(step, outcome, read)
        return judge.observe_sink(step, outcome, read)

    def _read(self) -> Stores:
        """What is stored. A journal that a death has left is rolled back first, as by any reader that may write."""
        try:
            return self.look().read()
        except DamagedError as error:
            if READ_ONLY not in str(error):
                raise
            self.look_away()
            self.medium.roll_back()
            return self.look().read()

    def finish(self) -> Finding | None:
        """Quiesce, and judge what is left; a difference from the model that broke no named promise comes last."""
        self._own = len(self.told)
        by_label = self.model.alphabet.by_label
        for label in quiesce(self.judge):
            step = Step(by_label[label])
            if not self.can(step):
                continue
            finding = self.do(step)
            if finding is not None:
                return finding
        return self.judge.at_rest() or self.judge.divergence

    def run(self, steps: Iterable[Step], *, until: str = "") -> Ran:
        """Run one order: each step that makes sense when its turn comes, then quiesce.

        With ``until``, a run that is to show the property ``conforms`` stops at the first difference.
        """
        return self.guarded(lambda: self._run(steps, until))

    def guarded(self, body: Callable[[], Finding | None]) -> Ran:
        """Run a body that starts an order and does steps; a hang ends it with a finding."""
        try:
            with watched(self._patience):
                finding = body()
        except Hang:
            self.told.append(Told(self.current, Outcome(Kind.UNKNOWN, "no answer")))
            finding = Finding(ANSWERS.id, f"{self.current.label}: no answer within {self._patience} s")
        return self.ran(finding)

    def ran(self, finding: Finding | None) -> Ran:
        """What became of the order that is under way."""
        return Ran(tuple(self.told), finding, min(self._own, len(self.told)))

    def _run(self, steps: Iterable[Step], until: str) -> Finding | None:
        finding = self.start()
        if finding is not None:
            return finding
        for step in steps:
            if not self.can(step):
                continue
            finding = self.do(step)
            if finding is None and until == CONFORMS.id:
                finding = self.judge.divergence
            if finding is not None:
                return finding
        return self.finish()


@contextmanager
def watched(seconds: float = ORDER_SECONDS) -> Iterator[None]:
    """Raise Hang in the main thread if the body takes longer, and again after as long: a subject may swallow it."""

    def ring(signum: int, frame: Any) -> None:
        raise Hang

    try:
        before = signal.signal(signal.SIGALRM, ring)
    except ValueError:  # not the main thread: no alarm can be had
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
