"""A ledger that another process keeps locked delays a runner, and takes nothing from it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from impl.approvals import digest_of, signed
from impl.protocol import Decision, SinkAnswer, Site, Verdict
from impl.sqlite import RealFiles, SqliteDispatcher
from model.contracts import Contracts, Limits
from model.words import Kind, State
from stateful.attempts.given import Longest, LoopClock
from stateful.virtual import VirtualLoop

KEY, APPROVERS = "k1", {"alice": b"a" * 32}


class Obliging:
    """A sink that turns the first request away, and serves the second."""

    def __init__(self) -> None:
        self.sent = 0

    async def apply(self, request):
        self.sent += 1
        return SinkAnswer(Verdict.TRANSIENT) if self.sent == 1 else SinkAnswer(Verdict.DONE, "r-1")

    async def lookup(self, key, payload, token):
        return SinkAnswer(Verdict.ABSENT)


@pytest.fixture
def loop():
    return VirtualLoop()


@pytest.fixture
def dispatcher(loop, tmp_path):
    site = Site(
        tmp_path, "w1", Contracts(), Limits(), LoopClock(loop), RealFiles(), None, sqlite3.connect, APPROVERS, 100, {}
    )
    with closing(SqliteDispatcher(site)) as made:
        made.submit(KEY, {"a": 1})
        made.decide(signed(Decision(KEY, digest_of({"a": 1}), "alice", "grant", 10_000, 1), APPROVERS["alice"]))
        yield made


OPERATIONS = ("claim", "authorise", "acknowledge", "standing", "renew", "release")


@pytest.mark.parametrize("after", OPERATIONS)
@pytest.mark.parametrize("call", [1, 2])
def test_a_lock_that_is_taken_after_any_operation_only_delays(loop, dispatcher, tmp_path, after, call) -> None:
    """Whichever transaction another process comes between, the run ends with the effect, recorded, and the lease back."""
    sink, asked = Obliging(), []
    real = getattr(dispatcher.ledger, after)

    with closing(sqlite3.connect(tmp_path / "ledger.sqlite3", isolation_level=None)) as other:

        def then_locked(*arguments):
            answer = real(*arguments)
            asked.append(after)
            if len(asked) == call:
                other.execute("BEGIN IMMEDIATE")
                loop.call_later(0.02, other.execute, "ROLLBACK")
            return answer

        setattr(dispatcher.ledger, after, then_locked)
        ending = loop.run_until_complete(dispatcher.runner(sink, draws=Longest()).run(KEY))
        loop.run_until_complete(asyncio.sleep(1))

    assert (Kind.OK, "r-1", 2) == (ending.kind, ending.receipt, sink.sent)
    assert (State.COMPLETED, 2) == (dispatcher.ledger.standing(KEY).state, dispatcher.ledger.standing(KEY).attempts)


def test_a_lock_that_is_never_given_back_ends_the_run_in_doubt(loop, dispatcher, tmp_path) -> None:
    """What was sent and cannot be recorded is unknown; the run ends all the same, and raises nothing."""
    sink = Obliging()
    sink.sent = 1
    real = dispatcher.ledger.authorise

    with closing(sqlite3.connect(tmp_path / "ledger.sqlite3", isolation_level=None)) as other:

        def then_locked(*arguments):
            answer = real(*arguments)
            other.execute("BEGIN IMMEDIATE")
            return answer

        dispatcher.ledger.authorise = then_locked
        ending = loop.run_until_complete(dispatcher.runner(sink, draws=Longest()).run(KEY))

    assert (Kind.UNKNOWN, 1) == (ending.kind, ending.sent)


def test_a_client_that_is_cancelled_while_the_ledger_is_busy_waits_no_longer(loop, dispatcher, tmp_path) -> None:
    """Nothing was sent, so nothing must be recorded: a cancellation that is itself cancelled ends at once."""
    runner = dispatcher.runner(Obliging(), draws=Longest())

    async def cancelled_while_it_asks():
        asking = asyncio.ensure_future(runner.cancel(KEY))
        await asyncio.sleep(0)
        asking.cancel()
        before = loop.time()
        with pytest.raises(asyncio.CancelledError):
            await asking
        return loop.time() - before

    with closing(sqlite3.connect(tmp_path / "ledger.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waited_s = loop.run_until_complete(cancelled_while_it_asks())

    assert 0 == waited_s
    assert State.PENDING is dispatcher.ledger.standing(KEY).state


def test_a_payload_that_does_not_come_back_the_same_is_refused(dispatcher) -> None:
    """What is sent is read from the ledger's text: a float that comes back as too large an integer cannot be sent."""
    answer = dispatcher.submit("k2", {"x": 1e20})

    assert (Kind.REFUSED, True) == (answer.kind, "payload is not canonical JSON" in answer.reason)
