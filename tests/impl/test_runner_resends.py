"""A runner that must not send twice: what nobody answered stays open until the sink is asked."""

from __future__ import annotations

import sqlite3

import pytest

from impl.approvals import digest_of, signed
from impl.protocol import Decision, NoAnswerError, SinkAnswer, Site, Verdict
from impl.sqlite import RealFiles, SqliteDispatcher
from model.contracts import Contracts, Fencing, Limits
from model.words import Kind
from stateful.attempts.given import Longest, LoopClock
from stateful.virtual import VirtualLoop

ROOM = {"book": "room"}
KEYS = {"alice": b"a" * 32}


class SilentSink:
    """Acts on whatever it is sent, answers nothing, and says about a key what a test wants."""

    def __init__(self):
        self.effects = []
        self.found = None

    async def apply(self, request):
        self.effects.append(request.key)
        raise NoAnswerError("connection reset")

    async def lookup(self, key, payload, token):
        if self.found is None:
            raise NoAnswerError("connection reset")
        return self.found


@pytest.fixture
def loop():
    return VirtualLoop()


@pytest.fixture
def build(tmp_path, loop):
    """Build a dispatcher with one approved intent, and the sink that its runner sends to."""
    opened = []

    def built(**choices):
        sink, contracts = SilentSink(), Contracts(**choices)
        clock = LoopClock(loop)
        site = Site(tmp_path, "w1", contracts, Limits(), clock, RealFiles(), sink, sqlite3.connect, KEYS, 100, {})
        dispatcher = SqliteDispatcher(site)
        opened.append(dispatcher)
        dispatcher.submit("k1", ROOM)
        grant = Decision("k1", digest_of(ROOM), "alice", "grant", 250, 1)
        dispatcher.decide(signed(grant, KEYS["alice"]))
        return dispatcher.runner(sink, draws=Longest()), sink

    yield built
    for one in opened:
        one.close()


@pytest.mark.parametrize("fencing", [Fencing.SINK_AND_LEDGER, Fencing.CLAIM_ONLY])
def test_what_must_not_be_repeated_is_sent_once(build, loop, fencing):
    """Without resends a send that nobody answered is the only one, in this run and in the next."""
    runner, sink = build(fencing=fencing)
    kinds = [loop.run_until_complete(runner.run("k1", resends=False)).kind for _ in range(2)]
    assert [Kind.UNKNOWN] * 2 == kinds
    assert ["k1"] == sink.effects


def test_what_may_be_repeated_is_sent_again(build, loop):
    """With resends, the default, it is sent as often as the ledger allows."""
    runner, sink = build()
    assert Kind.UNKNOWN is loop.run_until_complete(runner.run("k1")).kind
    assert ["k1"] * 3 == sink.effects


def test_what_the_sink_does_not_know_is_sent_again(build, loop):
    """Once the sink has said that there is no effect, the matter is settled, and another run sends."""
    runner, sink = build()
    loop.run_until_complete(runner.run("k1", resends=False))
    sink.found = SinkAnswer(Verdict.ABSENT)
    loop.run_until_complete(runner.run("k1", resends=False))
    assert ["k1"] * 2 == sink.effects
