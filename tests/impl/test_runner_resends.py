"""A runner that must not send twice: what nobody answered stays open until the sink is asked."""

from __future__ import annotations

import sqlite3

import pytest

from impl.approvals import digest_of, signed
from impl.attempts import AttemptRunner
from impl.protocol import Decision, NoAnswerError, SinkAnswer, Site, Verdict
from impl.sqlite import RealFiles, SqliteDispatcher
from model.contracts import Contracts, Fencing, Limits
from model.words import Kind, State
from stateful.attempts.given import Longest, LoopClock
from stateful.virtual import VirtualLoop

ROOM = {"book": "room"}
KEYS = {"alice": b"a" * 32}


class SilentSink:
    """Acts on whatever it is sent, answers nothing, or what a test wants, and says about a key what a test wants."""

    def __init__(self):
        self.effects = []
        self.found = self.answer = None

    async def apply(self, request):
        self.effects.append(request.key)
        if self.answer is not None:
            return self.answer
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


def test_an_answer_that_is_none_of_the_sinks_is_told(build, loop):
    """What a sink answers in words of its own is unknown, says of which type it was, and is not sent again."""
    runner, sink = build()
    sink.answer = "booked"
    ending = loop.run_until_complete(runner.run("k1"))
    assert (Kind.UNKNOWN, "a malformed answer of type str") == (ending.kind, ending.reason)
    assert ["k1"] == sink.effects


def test_a_run_that_learns_of_the_effect_ends_completed(build, loop):
    """The ending has the receipt, and the state that the ledger holds."""
    runner, sink = build()
    sink.answer = SinkAnswer(Verdict.DONE, "r-1")
    ending = loop.run_until_complete(runner.run("k1"))
    assert (Kind.OK, State.COMPLETED, "r-1", 1) == (ending.kind, ending.state, ending.receipt, ending.sent)


def test_an_ending_says_where_the_intent_stands_and_why(build, loop):
    """A refusal of the sink's fails the intent; whoever runs it again sends nothing, and reads the state all the same."""
    runner, sink = build()
    sink.answer = SinkAnswer(Verdict.PERMANENT)
    first, second = (loop.run_until_complete(runner.run("k1")) for _ in range(2))
    assert (Kind.ERROR, State.FAILED, "permanent", 1) == (first.kind, first.state, first.reason, first.sent)
    assert (Kind.ERROR, State.FAILED, "already ended", 0) == (second.kind, second.state, second.reason, second.sent)


def test_a_completed_intent_is_replayed_with_its_receipt(build, loop):
    """Whoever runs it again learns of the first effect, and sends nothing."""
    runner, sink = build()
    sink.answer = SinkAnswer(Verdict.DONE, "r-1")
    loop.run_until_complete(runner.run("k1"))
    again = loop.run_until_complete(runner.run("k1"))
    assert (Kind.REPLAYED, State.COMPLETED, "r-1", 0) == (again.kind, again.state, again.receipt, again.sent)


def test_what_nobody_has_submitted_is_refused(build, loop):
    """An unknown key has an ending too, with the reason of the ledger and no state."""
    runner, _sink = build()
    ending = loop.run_until_complete(runner.run("k2"))
    assert (Kind.REFUSED, None, "no such intent", 0) == (ending.kind, ending.state, ending.reason, ending.sent)


def test_attempts_are_made_by_whom_the_caller_brings(build, loop):
    """A dispatcher's runner sends through the attempt runner that it was given."""
    first, sink = build()
    sink.answer = SinkAnswer(Verdict.DONE, "r-1")
    attempts = AttemptRunner()
    loop.run_until_complete(first.dispatcher.runner(sink, draws=Longest(), attempts=attempts).run("k1"))
    assert 1 == attempts.started
