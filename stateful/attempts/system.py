"""One operation of a subject on a virtual clock: submitted and approved, its ledger in memory, its sink scripted."""

from __future__ import annotations

from typing import Any, Self

from attrs import evolve

from impl.approvals import digest_of, signed
from impl.protocol import Decision, Site
from model.attempts import Setup
from model.contracts import Contracts, Limits
from model.words import State
from stateful.attempts.asked import Asked, asked_by
from stateful.attempts.course import KEY, Course
from stateful.attempts.given import LoopClock, MemoryFiles
from stateful.attempts.plan import Plan
from stateful.attempts.ran import Ran
from stateful.bench import APPROVER_KEYS, PAYLOADS
from stateful.boundaries import Gate
from stateful.medium import MemoryMedium
from stateful.oracle import LEDGER_FILE
from stateful.schedules.lanes import UnsupportedByEngine
from stateful.subject import Subject
from stateful.virtual import VirtualLoop

FOREVER_MS = 1_000_000


class AttemptSystem:
    """Runs one subject's runner against scripted sinks. Close it, or use it as a context manager.

    Raises UnsupportedByEngine for a subject that has no runner.
    """

    def __init__(self, subject: Subject, contracts: Contracts, setup: Setup | None = None) -> None:
        if not callable(getattr(subject.make, "runner", None)):
            raise UnsupportedByEngine("it has no `runner`: nothing of it attempts, waits or is interrupted")
        self.subject = subject
        self.contracts = subject.relaxed(contracts)
        self.loop = VirtualLoop()  # type: ignore[abstract]  # it has what a coroutine without sockets asks for
        self.medium = MemoryMedium()
        self._ledger = self.medium.folder / LEDGER_FILE
        self.setup = evolve(setup or Setup(), contracts=self.contracts)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what was made."""
        self.medium.close()

    # -- preparing --------------------------------------------------------------------------------------------

    def site(self, sink: Any, files: MemoryFiles, max_attempts: int, worker: str) -> Site:
        """All that a worker may touch; a runner's sink is handed to its runner."""
        setup = self.setup
        limits = Limits(lease_ms=setup.lease_ms, deadline_ms=setup.deadline_ms, max_attempts=max_attempts)
        return Site(
            folder=self.medium.folder,
            worker=worker,
            contracts=self.contracts,
            limits=limits,
            clock=LoopClock(self.loop),
            files=files,
            sink=sink,
            connect=lambda path: self.medium.connect(Gate(), path),
            approver_keys=APPROVER_KEYS,
            lease_ms=limits.lease_ms,
            live_settings={},
        )

    def _prepare(self) -> None:
        """Submit and approve, once; every run begins there."""
        site = self.site(None, MemoryFiles(), self.setup.max_attempts, "client")
        client = self.subject.make(site)
        payload = PAYLOADS["p1"]
        client.submit(KEY, payload)
        grant = Decision(KEY, digest_of(payload), "alice", "grant", FOREVER_MS, client.policy_revision())
        client.decide(signed(grant, APPROVER_KEYS["alice"]))
        client.close()
        self.medium.keep_template()
        self._view = self.medium.look(self._ledger)

    # -- running ----------------------------------------------------------------------------------------------

    def run(self, max_attempts: int, asked: Asked, *, again: int = 0, keep_story: bool = False) -> Ran:
        """Run the operation, once more wherever that was ended from outside, and ``again`` so often after that."""
        return Course(self, max_attempts, asked, again, keep_story=keep_story).run()

    def replay(self, plan: Plan, *, keep_story: bool = False) -> Ran:
        """Run what a plan says."""
        return self.run(plan.max_attempts, asked_by(plan), again=plan.again, keep_story=keep_story)

    def standing(self) -> tuple[State, int]:
        """Where the intent stands, and how many attempts were counted, by rows."""
        state, attempts = self._view.rows("SELECT state, attempts FROM intents").fetchone()
        return State(state), attempts
