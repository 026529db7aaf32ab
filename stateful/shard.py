"""Shards: the pieces of a campaign, each with a seed of its own, each the same wherever and beside whatever it runs."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from model.actions import Alphabet, Step
from model.contracts import Contracts, Limits
from model.properties import ANSWERS
from stateful import medium
from stateful.order import Rig
from stateful.reduce import Reducer
from stateful.spoken import placed
from stateful.storage.abi import UnsupportedStorageError
from stateful.subject import Subject, load_subject
from stateful.trouble import NoRoomError
from stateful.verdict import Broken, Tally

ENGINES = ("machine", "walk", "kills", "interleavings", "power", "faults", "attempts")
HANG_RUNS_MAX = 3
"""A subject that hangs costs seconds a run: its order is hardly reduced."""
PROGRESS_SECONDS = 0.25


@frozen
class NamedProgram:
    """A standard program, and how far its schedules are searched: see ``stateful.schedules.search.Bounds``."""

    name: str
    workers: int = 2
    keys: int = 1
    kills: int = 1
    preemptions: int | None = None
    schedules: int | None = None


@frozen
class NamedScripts:
    """What an operation's sink may answer: every script of so many attempts, of one first answer, with so many events."""

    attempts: int
    events: int = 1
    first: str = ""
    random: int = 0
    """So many random runs instead, and the events of each at most."""
    kinds: tuple[str, ...] = ()
    """Only these events; all where none is named. ``timeout`` is a stall until the attempt's time is up."""


@frozen
class Shard:
    """One piece of a campaign. ``size`` is the number of orders, for kills the number of parts that share a catalogue.

    ``folder`` is where the subject's module is looked for, ``scratch`` where temporary folders go, ``record`` a file
    that gets each step before it is done, so that a subject which ends this process can be found out.
    """

    engine: str
    index: int
    seed: int
    size: int
    part: int
    subject: str
    mistake: str
    contracts: Contracts
    folder: Path
    scratch: Path | None = field(default=None, eq=False)
    record: Path | None = field(default=None, eq=False)
    stop_at_first: bool = False
    program: NamedProgram | None = None
    """The one program that an engine which schedules is to run, instead of its part."""
    scripts: NamedScripts | None = None
    """What an engine on a virtual clock is to run, instead of its part."""
    permits: int | None = None
    """How many keys may be in hand at once; None for no limit, or for that of the subject's mistake."""

    @property
    def name(self) -> str:
        """``walk[3]``, or ``walk[3] with permits=1``."""
        limit = f" with permits={self.permits}" if self.permits is not None else ""
        return f"{self.engine}[{self.index}]{limit}"


def shard_seed(seed: int, engine: str, wave: int) -> int:
    """A seed that no other shard of the campaign has, and that depends on nothing else."""
    return random.Random(f"{seed}/{engine}/{wave}").getrandbits(32)  # noqa: S311 - the same everywhere


def run_shard(shard: Shard, report: Callable[[Tally], None] | None = None) -> Tally:
    """Run one shard in this process: its engine, then the reduction of what it found.

    Kills need a single-threaded process that has loaded little; see ``stateful.workers`` for one.
    """
    medium.scratch = shard.scratch
    try:
        return _run(shard, report)
    except Exception as error:
        why = medium.no_room(shard.scratch) if shard.scratch else ""
        if why:
            raise NoRoomError(why) from error
        raise


def _run(shard: Shard, report: Callable[[Tally], None] | None) -> Tally:
    tally = Tally(shard.engine, shard.index, stop_at_first=shard.stop_at_first)
    if shard.engine == "interleavings":
        from stateful.schedules import guard

        guard.install()  # before the subject binds what is guarded
    subject = load_subject(shard.subject, shard.mistake, folder=shard.folder, probe=False)
    if shard.engine == "attempts":
        return _run_attempts(shard, subject, tally, report)
    try:
        rig_of_shard = _rig(shard, subject)
    except UnsupportedStorageError as error:
        tally.unsupported = str(error)
        return tally
    with rig_of_shard as rig:
        tally.sqlite_note = rig.medium.sqlite_note
        rig.recorder = shard.record
        if report is not None:
            tally.on_order = _paced(report)
        started = time.monotonic()
        try:
            _run_engine(shard, rig, tally)
        except UnsupportedStorageError as error:
            tally.unsupported = str(error)
        tally.seconds = time.monotonic() - started
        tally.on_order = None
        tally.witnesses = rig.judge.witnesses
        why = medium.no_room(shard.scratch) if ANSWERS.id in tally.broken and shard.scratch else ""
        if why:  # nobody can answer there, and that is no fault of the subject's
            del tally.broken[ANSWERS.id]
            tally.failed = why
            return tally
        started = time.monotonic()
        for property_id, broken in list(tally.broken.items()):
            tally.broken[property_id] = evolve(reduced(rig, broken), permits=rig.model.limits.permits)
        tally.reducing_seconds = time.monotonic() - started
    return tally


def _run_attempts(shard: Shard, subject: Subject, tally: Tally, report: Callable[[Tally], None] | None) -> Tally:
    from stateful.engines import attempts
    from stateful.schedules.lanes import UnsupportedByEngine

    if report is not None:
        tally.on_order = _paced(report)
    started = time.monotonic()
    try:
        attempts.run(subject, shard, tally)
    except UnsupportedByEngine as error:
        tally.unsupported = str(error)
    tally.seconds = time.monotonic() - started
    tally.on_order = None
    return tally


def _rig(shard: Shard, subject: Subject) -> Rig:
    limits = Limits(permits=shard.permits) if shard.permits is not None else None
    if shard.engine == "interleavings":
        from stateful.schedules.rig import ScheduledRig

        size = shard.program or NamedProgram("", keys=2)
        return ScheduledRig(subject, shard.contracts, limits, workers=size.workers, keys=size.keys)
    if shard.engine == "faults":
        from stateful.failing.rig import FaultRig

        return FaultRig(subject, shard.contracts, limits)
    if shard.engine in {"power", "machine"}:
        from stateful.storage.rig import RecordingRig

        try:
            return RecordingRig(subject, shard.contracts, limits)
        except UnsupportedStorageError:
            if shard.engine == "power":
                raise
    forks = shard.engine == "kills"
    in_memory = shard.engine == "walk" and not subject.is_remote
    return Rig(subject, shard.contracts, limits, in_memory=in_memory, across_processes=forks)


def _run_engine(shard: Shard, rig: Rig, tally: Tally) -> None:
    if shard.engine == "machine":
        from stateful.engines import machine

        machine.run(rig, shard.seed, shard.size, tally)
    elif shard.engine == "walk":
        from stateful.engines import walk

        walk.walk(rig, shard.seed, shard.size, tally, steered=walk.STEERED if shard.index % 2 else 0)
    elif shard.engine == "interleavings":
        from stateful.engines import interleavings
        from stateful.schedules.rig import ScheduledRig
        from stateful.schedules.search import Bounds

        assert isinstance(rig, ScheduledRig)
        if shard.program is not None:
            one = shard.program
            bounds = Bounds(preemptions=one.preemptions, schedules=one.schedules)
            interleavings.run_one(rig, one.name, one.keys, bounds, one.kills, tally)
        else:
            interleavings.run(rig, shard.seed, shard.part, shard.size, tally)
    elif shard.engine == "power":
        from stateful.engines import power
        from stateful.storage.rig import RecordingRig

        assert isinstance(rig, RecordingRig)
        power.run(rig, shard.seed, shard.part, shard.size, tally)
    elif shard.engine == "faults":
        from stateful.engines import faults
        from stateful.failing.rig import FaultRig

        assert isinstance(rig, FaultRig)
        faults.run(rig, shard.seed, shard.part, shard.size, tally)
    else:
        from stateful.engines import kills

        gc.collect()
        gc.freeze()  # a fork copies the pages that the collector writes to
        kills.run(rig, shard.seed, shard.part, shard.size, tally)
        gc.unfreeze()


def reduced(rig: Rig, broken: Broken) -> Broken:
    """A broken promise with its order made one-minimal."""
    if broken.cut is not None:
        from stateful.power.reduce import reduced_cut

        return reduced_cut(rig, broken)
    hangs = broken.property_id == ANSWERS.id and "no answer" in broken.detail
    if broken.scheduled is not None:
        from stateful.schedules.reduce import reduced_program

        return broken if hangs else reduced_program(rig, broken)
    done = Reducer(rig, broken.property_id, HANG_RUNS_MAX).reduce(broken.steps) if hangs else None
    done = done or Reducer(rig, broken.property_id, leaps=not rig.subject.is_remote).reduce(broken.steps)
    if not done.minimal and done.steps == broken.steps:
        return evolve(broken, minimal=False, runs=done.runs)
    return evolve(broken, steps=done.steps, detail=done.detail, minimal=done.minimal, runs=done.runs)


def _paced(report: Callable[[Tally], None]) -> Callable[[Tally], None]:
    """Report at most a few times a second, and at once when something new was found."""
    last = [0.0, 0.0]

    def on_order(tally: Tally) -> None:
        now = time.monotonic()
        if now - last[0] >= PROGRESS_SECONDS or len(tally.broken) > last[1]:
            last[:] = [now, len(tally.broken)]
            report(tally)

    return on_order


def serve(shard: Shard, connection: Any) -> None:
    """In a worker process: run one shard and send ``("progress", tally)`` now and then, and ``("done", tally)``."""
    from stateful.children import die_with_parent

    os.setpgid(0, 0)  # so that this process and what it forks can be ended together
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the campaign decides when to stop
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    silenced()
    try:
        tally = run_shard(shard, lambda t: connection.send(("progress", evolve(t, on_order=None))))
        connection.send(("done", tally))
    except NoRoomError as error:
        connection.send(("failed", str(error)))
    except Exception as error:  # noqa: BLE001 - told to the campaign, which tells the user
        connection.send(("failed", placed(error)))
    connection.close()
    if shard.engine == "attempts":
        os._exit(0)  # a thread that a runner has left running keeps nobody waiting


def silenced() -> None:
    """Throw away what this process prints, by whatever way: a subject may flood."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - until the process ends


def recorded(record: Path, alphabet: Alphabet) -> tuple[Step, ...]:
    """The steps that a recorder has written down, the last one under way when its process ended."""
    if not record.exists():
        return ()
    steps = []
    for line in record.read_text("utf-8").splitlines():
        label, _, kill_at = line.partition("\t")
        steps.append(Step(alphabet.by_label[label], int(kill_at)))
    return tuple(steps)
