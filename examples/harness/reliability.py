"""The lesson: one booking, a crash in the worst place, and exactly one effect.

Run ``python -m examples.harness.reliability``. It prints one JSON document and exits with 0 if all is as expected,
else with 1. Each chapter has a folder of its own, its workers are fresh interpreters, and every effect is counted at
the sink, by plain SQL: whoever asks the dispatcher how often it booked will hear what it believes, not what is so.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from attrs import frozen

from impl.approvals import digest_of, signed
from impl.attempts import AttemptRunner
from impl.protocol import Decision, Json, Site
from impl.sqlite import RealFiles, SqliteDispatcher, SqliteSink
from model import Contracts, Kind, Limits

ROOT = Path(__file__).parents[2]
MODULE = "examples.harness.reliability"

BOOKING: dict[str, Json] = {"room": "Lakeview", "guest": "Ada", "night": "2031-05-17"}
KEY = "booking-17"
# Nobody is to book with this one: it stands for a client that makes up a new key for every try.
CHANGED_KEY = "booking-17-second-try"

APPROVER, APPROVER_KEY = "alice", b"a key for this lesson alone"
LIMITS = Limits()
APPROVED_UNTIL_MS = 500

# Time is a number that is handed in, so nothing here ever waits. The retry comes when the dead worker's lease has
# run out.
START_MS = 0
RETRY_MS = START_MS + LIMITS.lease_ms + 1

KILLED = -signal.SIGKILL
"""The exit code of a child that SIGKILL ended, as ``subprocess`` gives it."""

EXPECTED: dict[str, Any] = {
    "unapproved": {"answer": "refused", "actual_effects": 0},
    "crash_exit": KILLED,
    "crash": {"actual_effects": 1, "checkpoint": None},
    "restart": "replayed",
    "actual_effects": 1,
    "first_receipt": "r-1",
    "receipt": "r-1",
    "acknowledged": "ok",
    "checkpoint": {"token": 2, "receipt": "r-1"},
    "detected": False,
    "changed_key": {"actual_effects": 2, "detected": True, "keys": [KEY, CHANGED_KEY]},
    "cancellation": {
        "answer": "ok",
        "cleanup_ran": True,
        "attempts_cancelled": 1,
        "after_restart": {"cancel": "replayed", "claim": "refused", "dispatch": "refused"},
        "actual_effects": 0,
    },
}
"""What survives, in one look."""


# -- a worker: one dispatcher on one folder, at one instant -------------------------------------------------------


@frozen
class StoppedClock:
    """Logical time that stands still: a worker lives at one instant."""

    at_ms: int

    def now_ms(self) -> int:
        """Milliseconds on the clock that all workers share."""
        return self.at_ms

    def wall_ms(self) -> int:
        """Milliseconds on a wall clock that nobody has set wrong."""
        return self.at_ms


def sink_path(folder: Path) -> Path:
    """Where the sink keeps its effects: apart from the dispatcher, as another company's service would."""
    return folder / "sink" / "sink.db"


@contextmanager
def dispatcher_at(folder: Path, now_ms: int) -> Iterator[SqliteDispatcher]:
    """A dispatcher under the default contracts, which are those that survive."""
    clock, contracts = StoppedClock(now_ms), Contracts()
    home = folder / "dispatcher"
    home.mkdir(parents=True, exist_ok=True)
    with closing(SqliteSink(sink_path(folder), sqlite3.connect, clock, contracts)) as sink:
        site = Site(
            folder=home,
            worker=f"worker-{os.getpid()}",
            contracts=contracts,
            limits=LIMITS,
            clock=clock,
            files=RealFiles(),
            sink=sink,
            connect=sqlite3.connect,
            approver_keys={APPROVER: APPROVER_KEY},
            lease_ms=LIMITS.lease_ms,
            live_settings={},
        )
        with closing(SqliteDispatcher(site)) as dispatcher:
            yield dispatcher


def approve(dispatcher: SqliteDispatcher, key: str) -> None:
    """The approver signs for this key and this very payload; anything else would open nothing."""
    grant = Decision(
        key=key,
        digest=digest_of(BOOKING),
        approver=APPROVER,
        verdict="grant",
        expiry_ms=APPROVED_UNTIL_MS,
        revision=dispatcher.policy_revision(),
    )
    answer = dispatcher.decide(signed(grant, APPROVER_KEY))
    assert answer.kind is Kind.OK, answer


# -- what a worker's interpreter may be told to do ----------------------------------------------------------------


def book_without_approval(dispatcher: SqliteDispatcher, key: str) -> dict[str, Json]:
    """Submit and try to book, though nobody has approved."""
    dispatcher.submit(key, BOOKING)
    token = dispatcher.claim(key).token
    return {"answer": str(dispatcher.dispatch(key, token).kind)}


def book_and_die(dispatcher: SqliteDispatcher, key: str) -> dict[str, Json]:
    """Book, and die in the worst place: the sink has committed, and nothing of ours says so."""
    dispatcher.submit(key, BOOKING)
    approve(dispatcher, key)
    token = dispatcher.claim(key).token
    answer = dispatcher.dispatch(key, token)
    assert answer.kind is Kind.OK, answer
    # SIGKILL runs no ``finally``, flushes nothing and closes nothing: no worker can prepare for it.
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process goes on")


def retry(dispatcher: SqliteDispatcher, key: str) -> dict[str, Json]:
    """Do the same operation again under the same key. It knows nothing of the first try, and need not."""
    dispatcher.submit(key, BOOKING)
    token = dispatcher.claim(key).token
    answer = dispatcher.dispatch(key, token)
    acknowledged = dispatcher.acknowledge(key, token, answer)
    # Only now: a checkpoint that runs ahead of its effect would promise a room that nobody has booked.
    dispatcher.checkpoint(key, token, answer.receipt)
    return {"restart": str(answer.kind), "receipt": answer.receipt, "acknowledged": str(acknowledged.kind)}


def book(dispatcher: SqliteDispatcher, key: str) -> dict[str, Json]:
    """Book under whatever key one is given, from submit to checkpoint, with nothing going wrong."""
    dispatcher.submit(key, BOOKING)
    approve(dispatcher, key)
    return retry(dispatcher, key)


def try_after_cancellation(dispatcher: SqliteDispatcher, key: str) -> dict[str, Json]:
    """Try everything that could still start the effect; the first owner's token was 1."""
    return {
        "cancel": str(dispatcher.cancel(key).kind),
        "claim": str(dispatcher.claim(key).kind),
        "dispatch": str(dispatcher.dispatch(key, 1).kind),
    }


ROLES: dict[str, Callable[[SqliteDispatcher, str], dict[str, Json]]] = {
    role.__name__: role for role in (book_without_approval, book_and_die, retry, book, try_after_cancellation)
}


def in_fresh_interpreter(role: str, folder: Path, now_ms: int, key: str) -> tuple[int, dict[str, Any]]:
    """Play a role in a new Python that shares nothing with this one but files. Its exit code, and what it said."""
    command = [sys.executable, "-m", MODULE, role, str(folder), str(now_ms), key]
    child = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False, timeout=120)  # noqa: S603  # ourselves
    return child.returncode, json.loads(child.stdout) if child.stdout else {}


# -- the independent check ----------------------------------------------------------------------------------------


def effects_of(folder: Path) -> list[tuple[str, str, str]]:
    """What really happened: the key, payload and receipt of each effect, read from the sink's own rows."""
    with closing(sqlite3.connect(sink_path(folder))) as connection:
        return connection.execute("SELECT key, payload, receipt FROM effects ORDER BY id").fetchall()


def booked_twice(effects: list[tuple[str, str, str]]) -> bool:
    """Whether two effects are the same booking, under whatever keys: no guest wants the same night twice."""
    contents = [json.dumps(json.loads(payload), sort_keys=True) for _key, payload, _receipt in effects]
    return len(set(contents)) < len(contents)


def checkpoint_of(folder: Path, key: str) -> Json:
    """The key's entry in the checkpoint file, or None where there is none."""
    path = folder / "dispatcher" / "checkpoint" / "checkpoint.json"
    entry: Json = json.loads(path.read_bytes())["keys"].get(key) if path.exists() else None
    return entry


# -- the chapters -------------------------------------------------------------------------------------------------


def an_unapproved_booking(folder: Path) -> dict[str, Any]:
    """Nobody has approved, so nothing happens."""
    _exit, said = in_fresh_interpreter("book_without_approval", folder, START_MS, KEY)
    return {"unapproved": {**said, "actual_effects": len(effects_of(folder))}}


def a_crash_and_a_retry(folder: Path) -> dict[str, Any]:
    """A worker dies between effect and checkpoint; another does the same again; the sink knows the key."""
    crash_exit, _nothing = in_fresh_interpreter("book_and_die", folder, START_MS, KEY)
    (_key, _payload, first_receipt), *more = effects_of(folder)
    crash = {"actual_effects": 1 + len(more), "checkpoint": checkpoint_of(folder, KEY)}

    _exit, said = in_fresh_interpreter("retry", folder, RETRY_MS, KEY)
    effects = effects_of(folder)
    return {
        "crash_exit": crash_exit,
        "crash": crash,
        **said,
        "actual_effects": len(effects),
        "first_receipt": first_receipt,
        "checkpoint": checkpoint_of(folder, KEY),
        "detected": booked_twice(effects),
    }


def a_retry_under_another_key(folder: Path) -> dict[str, Any]:
    """The negative test: with a new key for the same wish no sink can know, and the check must see it."""
    in_fresh_interpreter("book", folder, START_MS, KEY)
    in_fresh_interpreter("book", folder, START_MS, CHANGED_KEY)
    effects = effects_of(folder)
    found = {"actual_effects": len(effects), "detected": booked_twice(effects), "keys": [key for key, *_ in effects]}
    return {"changed_key": found}


def a_cancellation(folder: Path) -> dict[str, Any]:
    """A client changes its mind while an attempt is under way: it cleans up, and nothing starts ever after."""
    with dispatcher_at(folder, START_MS) as dispatcher:
        dispatcher.submit(KEY, BOOKING)
        approve(dispatcher, KEY)
        found = asyncio.run(cancel_while_waiting(dispatcher, rooms_on_hold=set()))
    _exit, said = in_fresh_interpreter("try_after_cancellation", folder, RETRY_MS, KEY)
    return {"cancellation": {**found, "after_restart": said, "actual_effects": len(effects_of(folder))}}


async def cancel_while_waiting(dispatcher: SqliteDispatcher, rooms_on_hold: set[str]) -> dict[str, Any]:
    """Start an attempt, let it get as far as its first wait, cancel for good, and interrupt it."""
    runner, waiting = AttemptRunner(), asyncio.Event()
    call = partial(book_when_the_guest_confirms, dispatcher, rooms_on_hold, waiting)
    attempt = asyncio.create_task(runner.run(call, timeout_ms=3_600_000))
    await waiting.wait()
    held = "Lakeview" in rooms_on_hold
    # First what a restart will read, then the interruption: the other way round a crash would lose the cancellation.
    answer = dispatcher.cancel(KEY)
    attempt.cancel()
    await asyncio.gather(attempt, return_exceptions=True)
    return {
        "answer": str(answer.kind),
        "cleanup_ran": held and not rooms_on_hold,
        "attempts_cancelled": runner.cancelled,
    }


async def book_when_the_guest_confirms(
    dispatcher: SqliteDispatcher, rooms_on_hold: set[str], waiting: asyncio.Event
) -> None:
    """Put the room on hold, wait for a guest who never confirms, and book; give the hold back in any case."""
    token = dispatcher.claim(KEY).token
    rooms_on_hold.add("Lakeview")
    try:
        waiting.set()
        await asyncio.Event().wait()
        dispatcher.dispatch(KEY, token)
    finally:
        rooms_on_hold.remove("Lakeview")


CHAPTERS = (an_unapproved_booking, a_crash_and_a_retry, a_retry_under_another_key, a_cancellation)


def lesson() -> dict[str, Any]:
    """All chapters, each in a folder of its own under a temporary one that is removed whatever happens."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="survives-lesson-") as folder:
        for chapter in CHAPTERS:
            found |= chapter(Path(folder) / chapter.__name__)
    return found


def main(arguments: list[str]) -> int:
    """The lesson without arguments; with them a worker: role, folder, now_ms, key."""
    if arguments:
        role, folder, now_ms, key = arguments
        with dispatcher_at(Path(folder), int(now_ms)) as dispatcher:
            print(json.dumps(ROLES[role](dispatcher, key)))
        return 0
    found = lesson()
    print(json.dumps(found, indent=2))
    return 0 if found == EXPECTED else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
