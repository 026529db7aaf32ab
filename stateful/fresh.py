"""A fresh interpreter that does one piece of a sweep: die in an operation, or recover after somebody did.

A forked child shares its parent's imports, its hash seed and its open files; a fresh interpreter shares nothing but
the stores. The kills engine sends a sample of its deaths here. The job comes pickled on standard input, the result
goes pickled to standard output.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from attrs import frozen

from model.actions import Action, Step
from model.contracts import Contracts, Limits
from model.possible import Worlds
from model.words import Stores
from stateful.boundaries import Gate
from stateful.judge import Finding
from stateful.oracle import DamagedError
from stateful.order import Rig, Told, unreadable
from stateful.subject import load_subject

SECONDS_MAX = 30


@frozen
class Head:
    """What a process has in its head, without its connections."""

    name: str
    tokens: list[int]
    answers: list[Any]
    receipts: list[str]
    other_settings: bool
    permit: Any
    overdue: Any


@frozen
class Job:
    """Where the stores lie, what everybody knows, and what to do: die in ``action`` at ``die_at``, or (0) recover."""

    subject: str
    mistake: str
    contracts: Contracts
    permits: int | None
    folder: Path
    now_ms: int
    heads: tuple[Head, ...]
    worlds: Worlds
    stores: Stores
    action: Action
    die_at: int


def job_for(rig: Rig, action: Action, die_at: int) -> Job:
    """The job that goes on where ``rig`` stands."""
    heads = tuple(
        Head(p.name, p.tokens, p.answers, p.receipts, p.other_settings, p.permit, p.overdue)
        for p in rig.bench.processes
    )
    return Job(
        subject=rig.subject.name,
        mistake=rig.subject.mistake,
        contracts=rig.model.contracts,
        permits=rig.model.limits.permits,
        folder=rig.medium.folder,
        now_ms=rig.bench.time.now_ms,
        heads=heads,
        worlds=rig.judge.worlds,
        stores=rig.judge.stores,
        action=action,
        die_at=die_at,
    )


def run_fresh(job: Job) -> tuple[int, Any]:
    """Do a job in a fresh interpreter: its exit status (-9: killed), and what it sent, if anything."""
    command = [sys.executable, "-P", "-m", "stateful.fresh"]
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            command, input=pickle.dumps(job), capture_output=True, timeout=SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, None
    return done.returncode, pickle.loads(done.stdout) if done.stdout else None  # noqa: S301 - our own child wrote it


def _rig(job: Job) -> Rig:
    subject = load_subject(job.subject, job.mistake, probe=False)
    rig = Rig(subject, job.contracts, Limits(permits=job.permits), in_memory=False, folder=job.folder)
    rig.bench.time.now_ms = job.now_ms
    rig.bench.processes = [rig.bench.new_process(head.name) for head in job.heads]
    for process, head in zip(rig.bench.processes, job.heads, strict=True):
        process.tokens, process.answers, process.receipts = head.tokens, head.answers, head.receipts
        process.other_settings, process.permit, process.overdue = head.other_settings, head.permit, head.overdue
    rig.judge.worlds, rig.judge.stores = job.worlds, job.stores
    rig.bench.know_stores(job.stores)
    return rig


def die_in(job: Job, gate: Gate) -> None:
    """Do the job's operation behind an armed gate; the last boundary lies after it."""
    rig = _rig(job)
    process = rig.bench.processes[job.action.worker]
    rig.bench.attach(process, gate)
    gate.arm(job.die_at)
    rig.bench.perform(process, job.action, lambda key: [])
    gate.reach("", "end")


def recover(job: Job) -> tuple[Finding | None, list[Told]]:
    """Recover after a death in the job's operation, and run to rest."""
    rig = _rig(job)
    rig.bench.end_process(rig.bench.processes[job.action.worker])
    try:
        rig.look()
    except DamagedError as error:
        return unreadable(Step(job.action), error), []
    return rig.finish(), rig.told


def main() -> None:
    """Do the job on standard input."""
    from stateful.children import KillingGate

    out = sys.stdout.buffer
    sys.stdout = sys.stderr  # a subject may print
    job: Job = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own parent wrote it
    if job.die_at:
        die_in(job, KillingGate())
    else:
        out.write(pickle.dumps(recover(job)))


if __name__ == "__main__":
    main()
