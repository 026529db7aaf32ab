"""The lesson: one booking, a crash in the worst place, and exactly one effect.

Run ``python -m examples.harness.reliability``. It prints one JSON document and exits with 0 if all is as expected,
else with 1. Each chapter has a folder of its own, whoever dies or comes after is a fresh interpreter, and every effect
is counted at the sink, by plain SQL: whoever asks the dispatcher how often it booked will hear what it believes, not
what is so. Timeouts and waits are those of a virtual clock, so nothing here waits.
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
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import field, frozen

from examples.harness.worker import APPROVER, APPROVER_KEY, LIMITS, POLICY, Wire, Worker, sink_path, worker_at
from impl.approvals import digest_of, signed
from impl.protocol import Decision, Json, Request, SinkAnswer
from impl.runner import Standing
from impl.sqlite import SqliteDispatcher
from model import Kind

ROOT = Path(__file__).parents[2]
MODULE = "examples.harness.reliability"

BOOKING: dict[str, Json] = {"room": "Lakeview", "guest": "Ada", "night": "2031-05-17"}
KEY = "booking-17"
# Nobody is to book with this one: it stands for a client that makes up a new key for every try.
CHANGED_KEY = "booking-17-second-try"

APPROVED_UNTIL_MS = 500

# The retry comes when the dead worker's lease has run out.
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
    "checkpoint": {"token": 2, "receipt": "r-1"},
    "detected": False,
    "changed_key": {"actual_effects": 2, "detected": True, "keys": [KEY, CHANGED_KEY]},
    "timeout": {
        "after_50_ms": "unknown",
        "keys_sent": [KEY, KEY],
        "answer": "replayed",
        "receipt": "r-1",
        "actual_effects": 1,
    },
    "cancellation": {
        "answer": "cancelled",
        "cleanup_ran": True,
        "attempts_cancelled": 1,
        "after_restart": {"cancel": "replayed", "run": "cancelled", "claim": "refused", "dispatch": "refused"},
        "actual_effects": 0,
    },
}
"""What survives, in one look."""


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


class DeadlyWire(Wire):
    """The worst place: the sink has committed, and its client dies before it hears of it."""

    async def apply(self, request: Request) -> SinkAnswer:
        """Book and die. SIGKILL runs no ``finally``, flushes nothing and closes nothing: nobody can prepare for it."""
        await super().apply(request)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a killed process goes on")


def book_without_approval(worker: Worker, key: str) -> dict[str, Json]:
    """Submit and try to book, though nobody has approved."""
    worker.dispatcher.submit(key, BOOKING)
    return {"answer": str(worker.run(key).kind)}


def book_and_die(worker: Worker, key: str) -> dict[str, Json]:
    """Book, and die when the sink has committed and nothing of ours says so."""
    worker.dispatcher.submit(key, BOOKING)
    approve(worker.dispatcher, key)
    worker.run(key, DeadlyWire(worker.sink))
    raise AssertionError("a killed process goes on")


def retry(worker: Worker, key: str) -> dict[str, Json]:
    """Do the same operation again under the same key. It knows nothing of the first try, and need not."""
    worker.dispatcher.submit(key, BOOKING)
    ending = worker.run(key)
    return {"restart": str(ending.kind), "receipt": ending.receipt}


def book(worker: Worker, key: str) -> dict[str, Json]:
    """Book under whatever key one is given, with nothing going wrong."""
    worker.dispatcher.submit(key, BOOKING)
    approve(worker.dispatcher, key)
    return {"answer": str(worker.run(key).kind)}


def try_after_cancellation(worker: Worker, key: str) -> dict[str, Json]:
    """Try everything that could still start the effect; the first owner's token was 1."""
    return {
        "cancel": str(worker.dispatcher.cancel(key).kind),
        "run": str(worker.run(key).state),
        "claim": str(worker.dispatcher.claim(key).kind),
        "dispatch": str(worker.dispatcher.dispatch(key, 1).kind),
    }


ROLES: dict[str, Callable[[Worker, str], dict[str, Json]]] = {
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


@frozen
class MuteWire(Wire):
    """The first answer never comes, though the sink has acted; all that was sent is kept."""

    sent: list[str] = field(factory=list)

    async def apply(self, request: Request) -> SinkAnswer:
        """Act, and answer from the second time on."""
        self.sent.append(request.key)
        answer = await super().apply(request)
        if len(self.sent) == 1:
            await asyncio.Event().wait()
        return answer


def a_timeout_after_the_send(folder: Path) -> dict[str, Any]:
    """An attempt takes too long. That is no failure: it may have booked, and so it is repeated under the same key."""
    with worker_at(folder, START_MS) as worker:
        worker.dispatcher.submit(KEY, BOOKING)
        approve(worker.dispatcher, KEY)
        found = worker.loop.run_until_complete(watch_a_timeout(worker, MuteWire(worker.sink)))
    return {"timeout": {**found, "actual_effects": len(effects_of(folder))}}


async def watch_a_timeout(worker: Worker, wire: MuteWire) -> dict[str, Any]:
    """Run the operation, and look into the ledger while the runner waits before its second attempt."""
    run = asyncio.ensure_future(worker.runner(wire).run(KEY))
    await asyncio.sleep((POLICY.attempt_ms + POLICY.backoff_ms / 2) / 1000)
    standing = worker.dispatcher.ledger.standing(KEY)
    assert isinstance(standing, Standing), standing
    ending = await run
    return {
        "after_50_ms": str(standing.state),
        "keys_sent": wire.sent,
        "answer": str(ending.kind),
        "receipt": ending.receipt,
    }


@frozen
class GuestsWire(Wire):
    """A booking that waits for its guest to confirm, with the room on hold meanwhile. This guest never does."""

    rooms_on_hold: set[str] = field(factory=set)
    waiting: asyncio.Event = field(factory=asyncio.Event)

    async def apply(self, request: Request) -> SinkAnswer:
        """Put the room on hold, wait, and book; give the hold back in any case."""
        self.rooms_on_hold.add("Lakeview")
        try:
            self.waiting.set()
            await asyncio.Event().wait()
            return await super().apply(request)
        finally:
            self.rooms_on_hold.remove("Lakeview")


def a_cancellation(folder: Path) -> dict[str, Any]:
    """A client changes its mind while an attempt is under way: it cleans up, and nothing starts ever after."""
    with worker_at(folder, START_MS) as worker:
        worker.dispatcher.submit(KEY, BOOKING)
        approve(worker.dispatcher, KEY)
        found = worker.loop.run_until_complete(cancel_while_waiting(worker, GuestsWire(worker.sink)))
    _exit, said = in_fresh_interpreter("try_after_cancellation", folder, RETRY_MS, KEY)
    return {"cancellation": {**found, "after_restart": said, "actual_effects": len(effects_of(folder))}}


async def cancel_while_waiting(worker: Worker, wire: GuestsWire) -> dict[str, Any]:
    """Start an attempt, let it get as far as its wait, and cancel for good.

    The runner first stores what a restart will read, and then interrupts: the other way round a crash would lose the
    cancellation. And then it asks the sink, for the attempt might have booked already.
    """
    runner = worker.runner(wire)
    run = asyncio.ensure_future(runner.run(KEY))
    await wire.waiting.wait()
    held = "Lakeview" in wire.rooms_on_hold
    await runner.cancel(KEY)
    ending = await run
    return {
        "answer": str(ending.state),
        "cleanup_ran": held and not wire.rooms_on_hold,
        "attempts_cancelled": runner.attempts.cancelled,
    }


CHAPTERS = (
    an_unapproved_booking,
    a_crash_and_a_retry,
    a_retry_under_another_key,
    a_timeout_after_the_send,
    a_cancellation,
)


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
        with worker_at(Path(folder), int(now_ms)) as worker:
            print(json.dumps(ROLES[role](worker, key)))
        return 0
    found = lesson()
    print(json.dumps(found, indent=2))
    return 0 if found == EXPECTED else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
