"""Traces replayed in a process of their own, and a finding's folder: the trace, the story, the stores as it left them.

The process that tells the user is never the one that runs the subject: a subject may end its process, hang it, or
flood its output.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import multiprocess
from attrs import evolve, frozen

from model.actions import Alphabet, Verb
from model.contracts import Limits
from model.properties import ANSWERS
from stateful import medium
from stateful.judge import Finding
from stateful.medium import fast_folder
from stateful.order import ORDER_SECONDS, Rig
from stateful.schedules.lanes import UnsupportedByEngine
from stateful.shard import recorded, silenced
from stateful.spoken import placed
from stateful.story import Line, Story, tell
from stateful.subject import Subject, load_subject
from stateful.trace import SURVIVED, Trace
from stateful.trouble import NoRoomError, ReplayError
from stateful.workers import STOPS, start, terminating

SECONDS_MAX = 3 * ORDER_SECONDS
"""A replay that takes longer does not even hear the alarm that ends a hanging order."""


@frozen
class Replayed:
    """The stories of a trace that was replayed, one each time, and the stores as the last one left them."""

    stories: tuple[Story, ...]
    stores: dict[str, bytes]


@frozen
class Kept:
    """A finding that was told and, where that was possible, kept in a folder; ``trouble`` says why it was not."""

    story: Story
    folder: Path | None
    trouble: str = ""

    @property
    def is_doubtful(self) -> bool:
        """Whether it did not happen again, and no real death speaks for it."""
        return self.story.doubtful

    @property
    def replay(self) -> str:
        """The command that replays it."""
        return f"survives replay {self.folder / 'trace.json'}" if self.folder else "survives replay FILE"


def told_again(trace: Trace) -> tuple[Story, dict[str, bytes]]:
    """Replay a trace on real files in this process: its story, and the stores as it left them."""
    return _told(trace, None)


def _told(trace: Trace, record: Path | None) -> tuple[Story, dict[str, bytes]]:
    if trace.scheduled is not None:
        from stateful.schedules import guard

        guard.install()  # before the subject binds what is guarded
    subject = load_subject(trace.subject, trace.mistake, probe=False)
    if trace.attempts is not None:
        from stateful.attempts.telling import tell_attempts

        try:
            return tell_attempts(subject, trace, trace.attempts), {}
        except UnsupportedByEngine as error:
            why = f"attempts cannot be replayed on {trace.subject}: {error}"
            raise ReplayError(f"{why}; replay them on another with --subject") from error
    with _rig(subject, trace) as rig:
        rig.recorder = record
        try:
            return tell(rig, trace), rig.medium.snapshot()
        except UnsupportedByEngine as error:
            raise ReplayError(f"lanes cannot be replayed on this subject: {error}") from error


def _rig(subject: Subject, trace: Trace) -> Rig:
    limits = Limits(permits=trace.permits) if trace.permits is not None else None
    if trace.cut is not None or any(step.action.verb is Verb.POWER_CUT for step in trace.steps):
        from stateful.storage.rig import RecordingRig

        return RecordingRig(subject, trace.contracts, limits, workers=trace.workers, keys=trace.keys)
    if trace.scheduled is None:
        return Rig(subject, trace.contracts, limits, in_memory=False, workers=trace.workers, keys=trace.keys)
    from stateful.schedules.rig import ScheduledRig

    return ScheduledRig(subject, trace.contracts, limits, workers=trace.workers, keys=trace.keys)


def replayed(trace: Trace, times: int = 1) -> Replayed:
    """Replay a trace on real files in a process of its own. A subject that ends it is a finding like any other."""
    scratch = fast_folder("survives-replay-")
    stories: list[Story] = []
    stores: dict[str, bytes] = {}
    try:
        with terminating():
            while len(stories) < times:
                for story, stores in _elsewhere(trace, times - len(stories), scratch):  # noqa: B007 - the last counts
                    stories.append(story)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Replayed(tuple(stories), stores)


def _elsewhere(trace: Trace, times: int, scratch: Path) -> Iterator[tuple[Story, dict[str, bytes]]]:
    """Stories and stores from one fresh process, as many as it lives to tell."""
    context = multiprocess.get_context("spawn")
    record = scratch / "record"
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(trace, times, scratch, record, theirs), daemon=True)
    start(process)
    theirs.close()
    try:
        for _ in range(times):
            if not ours.poll(SECONDS_MAX):
                yield _cut_off(trace, record, None), {}
                return
            try:
                said = ours.recv()
                if isinstance(said, str):
                    raise ReplayError(said)
                yield said
            except EOFError:
                process.join()
                yield _cut_off(trace, record, process.exitcode), {}
                return
    finally:
        process.kill()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # with what it left behind
        process.join()
        ours.close()


def _serve(trace: Trace, times: int, scratch: Path, record: Path, connection: Any) -> None:
    """In a process of its own: replay and send ``(story, stores)`` each time."""
    from stateful.children import die_with_parent

    os.setpgid(0, 0)  # so that a subject which signals its group reaches nobody else
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides when to stop
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    silenced()
    medium.scratch = scratch
    try:
        for _ in range(times):
            told = _told(trace, record)
            why = medium.no_room(scratch) if told[0].verdict == ANSWERS.id else ""
            connection.send(why or told)
    except ReplayError as error:
        connection.send(str(error))
    except Exception as error:  # noqa: BLE001 - told to whoever started it
        connection.send(medium.no_room(scratch) or placed(error))
    connection.close()
    os._exit(0)  # a thread that the subject has left running keeps nobody waiting


def _cut_off(trace: Trace, record: Path, status: int | None) -> Story:
    """What is known of a replay whose process ended, or (None) had to be ended: its steps, and in which it was."""
    steps = recorded(record, Alphabet(trace.workers, trace.keys))
    lines = tuple(Line(number, step.label, "", (), at_rest=False) for number, step in enumerate(steps, start=1))
    if status is None:
        why = f"no answer within {SECONDS_MAX} s"
    else:
        why = f"the process ended by signal {-status}" if status < 0 else f"the process ended with status {status}"
    where = steps[-1].label if steps else "opening the subject"
    if trace.attempts is not None:
        where = "while its runner was at work"
    return Story(trace, lines, Finding(ANSWERS.id, f"{where}: {why}"))


def keep(trace: Trace, out: Path, seen: str = "", *, by_death: bool = False, by_fault: bool = False) -> Kept:
    """Replay a trace, and write trace, story and stores into a folder of its own below ``out``.

    A folder that cannot be written loses no finding: the story comes back all the same, with the trouble. Nor does one
    that does not happen again: ``seen`` is what was seen, ``by_death`` whether a process really died for it, ``by_fault``
    whether storage failed, which no order says.
    """
    name = hashlib.sha256(json.dumps(trace.to_json(), sort_keys=True).encode()).hexdigest()[:8]
    folder = out / f"{trace.expect}-{name}"
    try:
        done = replayed(trace)
    except (ReplayError, NoRoomError) as error:
        story = Story(trace, (), Finding(trace.expect, seen))
        return Kept(story, None, f"the order could not be replayed: {error}. The trace itself follows.")
    story = done.stories[0]
    if story.finding is None and trace.expect != SURVIVED:
        story = evolve(
            story, seen=seen or "nothing is known of what was seen", doubtful=not by_death and not by_fault
        )
        story = evolve(story, when="storage failed") if by_fault else story
    try:
        folder.mkdir(parents=True, exist_ok=True)
        trace.write(folder / "trace.json")
        (folder / "story.txt").write_text(story.text() + "\n", "utf-8")
        for relative, data in done.stores.items():
            target = folder / "stores" / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    except OSError as error:
        reason = f"the finding cannot be kept in {folder}: {error.strerror or error}"
        return Kept(story, None, f"{reason}; choose another folder with --out. The trace itself follows.")
    return Kept(story, folder)
