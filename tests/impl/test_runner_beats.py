"""The runner's heartbeat: work that takes longer than a lease keeps it, and nothing goes on under one that is lost."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from contextlib import closing

import pytest

from impl.approvals import digest_of, signed
from impl.protocol import Decision, NoAnswerError, SinkAnswer, Site, Verdict
from impl.runner import Policy, PolicyError
from impl.sqlite import RealFiles, SqliteDispatcher
from model.contracts import AttemptTimeout, Contracts, Limits
from model.words import Kind, State
from stateful.attempts.given import Longest, LoopClock
from stateful.virtual import VirtualLoop

KEY, APPROVERS, LEASE_MS = "k1", {"alice": b"a" * 32}, 90
LONG = Policy(attempt_ms=300)


class Slow:
    """Acts after so many milliseconds, or goes on until it is interrupted, and then cleans up."""

    def __init__(self, ms=None, cleans_ms=0):
        self.ms, self.cleans_ms, self.sent, self.fence = ms, cleans_ms, 0, 0

    async def apply(self, request):
        self.sent += 1
        try:
            await asyncio.sleep(1_000 if self.ms is None else self.ms / 1000)
        except asyncio.CancelledError:
            await asyncio.sleep(self.cleans_ms / 1000)
            raise
        return SinkAnswer(Verdict.DONE, "r-1")

    async def lookup(self, key, payload, token):
        raise NoAnswerError("connection reset")


@pytest.fixture
def loop():
    return VirtualLoop()


@pytest.fixture
def opened(loop, tmp_path):
    """Open a dispatcher on one ledger, the first time with an approved intent."""
    made = []

    def opened(worker="w1", clock=None, **choices):
        site = Site(
            tmp_path,
            worker,
            Contracts(**choices),
            Limits(deadline_ms=10_000),
            clock or LoopClock(loop),
            RealFiles(),
            None,
            sqlite3.connect,
            APPROVERS,
            LEASE_MS,
            {},
        )
        one = SqliteDispatcher(site)
        if not made:
            one.submit(KEY, {"a": 1})
            one.decide(signed(Decision(KEY, digest_of({"a": 1}), "alice", "grant", 10_000, 1), APPROVERS["alice"]))
        made.append(one)
        return one

    yield opened
    for one in made:
        one.close()


def renewals(dispatcher, loop, answer=None):
    """When the ledger is asked to renew; ``answer`` stands for what it says, if it is given and comes to something."""
    seen, real = [], dispatcher.ledger.renew

    def renew(key, token):
        seen.append(loop.now_ms)
        said = answer(len(seen)) if answer else None
        return said or real(key, token)

    dispatcher.ledger.renew = renew
    return seen


@pytest.mark.parametrize(
    ("beat_ms", "expected"), [(None, [30, 60, 90, 120, 150, 180]), (80, [80, 160])], ids=["a third", "a setting"]
)
def test_a_lease_is_renewed_while_an_attempt_is_under_way(opened, loop, beat_ms, expected):
    """Every third of a lease, or as often as the policy says, and not once more after the end was recorded."""
    dispatcher = opened()
    seen = renewals(dispatcher, loop)
    policy = Policy(attempt_ms=300, beat_ms=beat_ms)
    ending = loop.run_until_complete(dispatcher.runner(Slow(200), policy, draws=Longest()).run(KEY))
    loop.run_until_complete(asyncio.sleep(1))

    assert (Kind.OK, expected) == (ending.kind, seen)


def test_nobody_else_is_granted_the_key_meanwhile(opened, loop):
    """At any millisecond of an attempt of three leases another worker is refused, and not a millisecond longer."""
    dispatcher, another = opened(), opened("w2")
    answers = []

    async def main():
        run = asyncio.ensure_future(dispatcher.runner(Slow(270), LONG, draws=Longest()).run(KEY))
        while not run.done():
            await asyncio.sleep(0.001)
            answers.append(another.claim(KEY).reason)

    loop.run_until_complete(main())

    assert (269, {"held by another"}) == (len(answers[:269]), set(answers[:269]))
    assert "already ended" == answers[-1]


def test_a_back_off_keeps_the_lease_too(opened, loop):
    """The wait of 200 ms between two attempts is longer than a lease; the token is the same after it."""

    class Busy(Slow):
        tokens = ()

        async def apply(self, request):
            self.tokens = (*self.tokens, request.token)
            return (
                SinkAnswer(Verdict.TRANSIENT, retry_after_ms=200)
                if self.tokens == (1,)
                else await super().apply(request)
            )

    dispatcher, sink = opened(), Busy(1)
    loop.run_until_complete(dispatcher.runner(sink, draws=Longest()).run(KEY))

    assert (1, 1) == sink.tokens


def test_an_interrupted_attempt_keeps_its_lease_until_it_has_cleaned_up(opened, loop):
    """Whoever stops a worker stops its heartbeat last: a clean-up of two leases keeps it, and then it is given back."""
    dispatcher, another = opened(), opened("w2")
    seen = renewals(dispatcher, loop)
    policy = Policy(attempt_ms=300, grace_ms=500)

    async def main():
        run = asyncio.ensure_future(dispatcher.runner(Slow(cleans_ms=200), policy, draws=Longest()).run(KEY))
        await asyncio.sleep(0.02)
        run.cancel()
        await asyncio.wait({run})

    loop.run_until_complete(main())
    loop.run_until_complete(asyncio.sleep(1))
    lease = another.ledger._execute("SELECT * FROM leases").fetchall()

    assert ([30, 60, 90, 120, 150, 180, 210], []) == (seen, lease)
    assert State.UNKNOWN is another.ledger.standing(KEY).state


def taken(loop, another):
    """Another worker is granted the key, as soon as its lease has run out."""

    def claim():
        request = another.ledger.claim(KEY)
        return request if hasattr(request, "kind") else another.ledger.take_over(KEY, request.token)

    return claim


def test_a_lost_lease_ends_the_attempt(opened, loop):
    """A machine that slept for longer than a lease lost it: what was sent is unknown, and is not sent again."""
    dispatcher, another, sink = opened(), opened("w2"), Slow()
    claim = taken(loop, another)

    async def main():
        run = asyncio.ensure_future(dispatcher.runner(sink, LONG, draws=Longest()).run(KEY))
        await asyncio.sleep(0.001)
        loop.stall(loop.now_us + LEASE_MS * 1000)
        assert Kind.OK is claim().kind
        return await run

    ending = loop.run_until_complete(main())

    assert (Kind.UNKNOWN, State.UNKNOWN, 1) == (ending.kind, ending.state, sink.sent)
    assert loop.now_ms < LONG.attempt_ms


def test_nothing_is_sent_under_a_lease_that_has_gone(opened, loop):
    """Between the permit and the send the machine slept; another has the key, and this worker sends nothing."""
    dispatcher, another, sink = opened(), opened("w2"), Slow(1)
    claim, real, granted = taken(loop, another), dispatcher.ledger.authorise, []

    def then_asleep(*arguments):
        permit = real(*arguments)
        loop.stall(loop.now_us + LEASE_MS * 1000)
        granted.append(claim().kind)
        return permit

    dispatcher.ledger.authorise = then_asleep
    ending = loop.run_until_complete(dispatcher.runner(sink, LONG, draws=Longest()).run(KEY))

    assert ([Kind.OK], 0, Kind.UNKNOWN) == (granted, sink.sent, ending.kind)


@pytest.mark.parametrize("calls", [1, 2])
def test_a_ledger_that_is_busy_is_asked_again_before_the_lease_runs_out(opened, loop, calls):
    """A renewal that finds the ledger locked takes nothing from the attempt."""
    from impl.sqlite.book import BUSY

    dispatcher, sink = opened(), Slow(110)
    seen = renewals(dispatcher, loop, lambda n: BUSY if n <= calls else None)
    ending = loop.run_until_complete(dispatcher.runner(sink, LONG, draws=Longest()).run(KEY))

    assert (Kind.OK, 1, [30, 40, 50][: calls + 1]) == (ending.kind, sink.sent, seen[: calls + 1])


def test_a_ledger_that_stays_busy_ends_the_attempt_with_its_lease(opened, loop):
    """Nobody knows any more who has the key: the attempt is interrupted when the lease has run out."""
    from impl.sqlite.book import BUSY

    dispatcher, sink = opened(), Slow(cleans_ms=0)
    renewals(dispatcher, loop, lambda _n: BUSY)
    ended_ms, real = [], dispatcher.ledger.acknowledge

    def acknowledge(*arguments):
        ended_ms.append(loop.now_ms)
        return real(*arguments)

    dispatcher.ledger.acknowledge = acknowledge
    loop.run_until_complete(dispatcher.runner(sink, LONG, draws=Longest()).run(KEY))

    assert LEASE_MS == ended_ms[0]


@pytest.mark.parametrize("beat_ms", [LEASE_MS, LEASE_MS + 1])
def test_a_beat_that_comes_too_late_is_refused(opened, beat_ms):
    """The message says what is wrong and what to do."""
    with pytest.raises(
        PolicyError, match=rf"beat_ms is {beat_ms} and a lease lasts 90 ms: each renewal would come too"
    ):
        opened().runner(Slow(), Policy(beat_ms=beat_ms), draws=Longest())


# -- a call that blocks ---------------------------------------------------------------------------------------


class Frozen:
    """A clock that stands still: what beats is told by the beats alone."""

    @staticmethod
    def now_ms():
        return 0

    wall_ms = now_ms


class WaitsForBeats:
    """A plain sink whose call blocks until there were three renewals."""

    def __init__(self):
        self.read_fd, self.write_fd = os.pipe()
        self.renewed = 0

    def beat(self, _n):
        self.renewed += 1
        if self.renewed == 3:
            os.write(self.write_fd, b"!")

    def apply(self, request):
        os.read(self.read_fd, 1)
        return SinkAnswer(Verdict.DONE, "r-1")

    def lookup(self, key, payload, token):
        return SinkAnswer(Verdict.ABSENT)


@pytest.mark.parametrize("isolation", [AttemptTimeout.THREAD, AttemptTimeout.PROCESS])
def test_a_call_that_blocks_elsewhere_keeps_nobody_from_beating(opened, isolation):
    """In a thread or a process of its own: its call ends only because the loop beats meanwhile."""
    dispatcher, sink = opened(clock=Frozen(), attempt_timeout=isolation), WaitsForBeats()
    renewals(dispatcher, VirtualLoop(), sink.beat)
    runner = dispatcher.runner(sink, Policy(attempt_ms=30_000, beat_ms=1), draws=Longest())
    with closing(asyncio.new_event_loop()) as real:
        ending = real.run_until_complete(runner.run(KEY))
    os.close(sink.read_fd), os.close(sink.write_fd)

    assert (Kind.OK, True) == (ending.kind, sink.renewed >= 3)
    assert isolation is AttemptTimeout.PROCESS or threading.active_count() >= 1


def test_a_cooperative_call_that_blocks_stops_the_beat_and_not_the_fence(opened, loop):
    """It does not do what its contract asks, and loses its lease; the sink still refuses what it sends too late."""
    dispatcher, another = opened(), opened("w2")
    claim, fence, effects, verdicts = taken(loop, another), [0], [], []

    class Blocks:
        async def apply(self, request):
            loop.stall(loop.now_us + LEASE_MS * 1000)  # nothing of this process runs meanwhile
            fence[0] = claim().token
            verdicts.append(Verdict.STALE if request.token < fence[0] else Verdict.DONE)
            effects.extend(["r-1"] * (verdicts[-1] is Verdict.DONE))
            return SinkAnswer(verdicts[-1])

        async def lookup(self, key, payload, token):
            return SinkAnswer(Verdict.ABSENT)

    ending = loop.run_until_complete(dispatcher.runner(Blocks(), LONG, draws=Longest()).run(KEY))

    assert (2, [Verdict.STALE], []) == (fence[0], verdicts, effects)
    assert (Kind.UNKNOWN, State.UNKNOWN) == (ending.kind, ending.state)
