"""Traces of attempts: written, read, refused where they are wrong, and told like a story."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from model.attempts import EventKind, Said
from stateful.attempts.plan import Plan, Planned
from stateful.findings import told_again
from stateful.trace import SURVIVED, TraceError, read_trace
from stateful.trouble import ReplayError

TRACES = Path(__file__).parents[1] / "traces"
PATHS = [path for path in sorted(TRACES.glob("*.json")) if read_trace(path).attempts is not None]
STORY = """\
VIOLATED  After an acknowledged cancellation no effect starts, and clean-up has run; one that came late is not forgotten.
  impl.sqlite:SqliteDispatcher with mistake M308, contracts default; 1 step
    1     0 ms  w1 starts                        k1 pending -> dispatching; attempts 0 -> 1
    2     0 ms  send 1                     done  EFFECT 1 at 2 ms
    3     5 ms  CANCEL                           k1 dispatching -> completed
    4     5 ms  the run ends: interrupted
    5     6 ms  w2 starts
    6     6 ms  the run ends: replayed
  => whoever cancelled was told that there is no effect, and there is one"""


@pytest.fixture
def trace():
    """A cancellation is kept in memory alone, and the effect is there."""
    return read_trace(TRACES / "attempts-M308-cancel-honoured.json")


@pytest.fixture
def document(trace):
    """It as JSON."""
    return trace.to_json()


@pytest.fixture
def read(tmp_path):
    """A document, written and read again."""

    def go(document):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps(document))
        return read_trace(path)

    return go


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_a_trace_of_attempts_comes_back_from_its_file(path, tmp_path):
    """What is read is written as it was, byte by byte."""
    read_trace(path).write(tmp_path / "again.json")

    assert path.read_text() == (tmp_path / "again.json").read_text()


def test_a_plan_with_everything_comes_back(trace, tmp_path):
    """Each answer, each event, ties, and a second layer that retries."""
    kinds = (EventKind.CANCEL, EventKind.INTERRUPT, EventKind.KILL)
    events = (*(Planned(kind, n, n + 1) for n, kind in enumerate(kinds)), Planned(EventKind.STALL, 9, 2, 90))
    full = evolve(trace, attempts=Plan(5, tuple(Said), events, (0, 2, 1), 9))
    full.write(tmp_path / "full.json")

    assert full == read_trace(tmp_path / "full.json")


def test_only_attempts_need_the_newer_version(trace, document):
    """A trace of attempts is of version 4; the same without them is of version 1, and has no field for them."""
    plain = evolve(trace, attempts=None).to_json()

    assert (4, 1, {"attempts"}) == (document["version"], plain["version"], set(document) - set(plain))


def test_what_is_left_out_is_what_is_usual(document, read):
    """A budget is needed; answers, events, ties and other layers may be left out, and so may an event's turn."""
    few = document | {"attempts": {"max_attempts": 2, "events": [{"do": "kill", "at_ms": 3}]}}

    assert Plan(2, events=(Planned(EventKind.KILL, 3, 1),)) == read(few).attempts


EVENT = {"do": "cancel", "at_ms": 2, "turn": 1}
STALL = {"do": "stall", "at_ms": 20, "turn": 1, "until_ms": 10}


def event(**changes):
    """An event that is wrong in one way."""
    return {"events": [EVENT | changes]}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"answer": []},
            "\"attempts\" has no field 'answer'; its fields are max_attempts, answers, events, ties, again",
        ),
        ({"answers": ["maybe"]}, "a sink does not answer 'maybe'; it answers done, edge, silent, late, reset-before"),
        ({"answers": ["done", 500]}, "a sink does not answer 500; it answers done"),
        ({"answers": "done"}, "\"answers\" is 'done', not a list"),
        ({"answers": {}}, '"answers" is {}, not a list'),
        ({"answers": None}, '"answers" is None, not a list'),
        ({"answers": [["done"]]}, "a sink does not answer ['done']; it answers done"),
        ({"events": {}}, '"events" is {}, not a list'),
        ({"ties": 0}, '"ties" is 0, not a list'),
        ({"events": ["cancel"]}, '\'cancel\' is no event such as {"do": "cancel", "at_ms": 2, "turn": 1}'),
        (event(do="start"), "'do': 'start'"),
        (event(do="explode"), "is no event such as"),
        (event(do=["cancel"]), "is no event such as"),
        (event(until_ms=3), "a cancel takes no time, and has no until_ms; only a stall has"),
        (event(why=1), "an event has no field 'why'; its fields are do, at_ms, turn, until_ms"),
        (event(at_ms=-1), "at_ms is -1; it is a whole number from 0 to 1,000,000"),
        (event(at_ms=2.5), "at_ms is 2.5; it is a whole number"),
        (event(turn=-1), "turn is -1; it is a whole number from 0 to 1,000,000"),
        (event(turn=True), "turn is True; it is a whole number"),
        ({"events": [STALL]}, "a stall at 20 ms ends at 10 ms; time does not go back"),
        ({"events": [STALL | {"until_ms": 10**7}]}, "until_ms is 10000000; it is a whole number from 0 to 1,000,000"),
        ({"max_attempts": 0}, "max_attempts is 0; it is a whole number from 1 to 5"),
        ({"max_attempts": 6}, "max_attempts is 6; it is a whole number from 1 to 5"),
        ({"max_attempts": None}, "max_attempts is None; it is"),
        ({"ties": [-1]}, "a tie is -1; it is a whole number from 0 to 99"),
        ({"ties": ["first"]}, "a tie is 'first'; it is"),
        ({"again": 10}, "again is 10; it is a whole number from 0 to 9"),
    ],
    ids=lambda x: str(x)[:60],
)
def test_a_plan_that_is_wrong_is_told(document, read, changes, says):
    """The value, the reason and the remedy."""
    with pytest.raises(TraceError) as refused:
        read(document | {"attempts": document["attempts"] | changes})

    assert says in str(refused.value), str(refused.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"attempts": None}, '"attempts" is None, not an object with max_attempts, answers, events, ties, again'),
        ({"attempts": []}, '"attempts" is [], not an object'),
        ({"version": 3}, 'a trace of version 3 has no "attempts"; its version is 4'),
        (
            {"steps": [{"do": "submit", "key": "k1", "payload": "p1"}]},
            "a trace of attempts has neither steps, nor lanes",
        ),
        ({"lanes": {}, "schedule": []}, 'nor a cut, nor permits; take them out, or "attempts"'),
        ({"cut": {"answered": 0, "position": 0, "survived": []}}, "a trace of attempts has neither steps, nor"),
    ],
    ids=lambda x: str(x)[:60],
)
def test_what_does_not_go_with_attempts_is_told(document, read, changes, says):
    """One operation's attempts are all that such a trace has, in the version that knows them."""
    with pytest.raises(TraceError) as refused:
        read(document | changes)

    assert says in str(refused.value), str(refused.value)


def test_attempts_are_told_by_time(trace):
    """When what was sent, what came from outside, and what changed by it."""
    assert STORY == told_again(trace)[0].text()


@pytest.mark.parametrize(
    "plan",
    [
        Plan(1, (), (Planned(EventKind.CANCEL, 900, 1),)),
        Plan(1, (Said.DONE,) * 5, (Planned(EventKind.KILL, 0, 400), Planned(EventKind.STALL, 0, 1, 0))),
        Plan(3, (Said.TOO_MANY,), (Planned(EventKind.INTERRUPT, 9, 1),) * 3, (99, 99), 2),
        Plan(2, (Said.SILENT,), (Planned(EventKind.CANCEL, 30, 1), Planned(EventKind.CANCEL, 3, 1))),
    ],
    ids=str,
)
def test_a_plan_may_say_too_much(trace, plan):
    """What never comes is passed over, and of timers that are fewer the last is taken."""
    story = told_again(evolve(trace, attempts=plan, mistake="", expect=SURVIVED))[0]

    assert SURVIVED == story.verdict, story.text()


def test_a_subject_without_a_runner_cannot_be_told(trace):
    """There is nothing to play the trace on."""
    toy = evolve(trace, subject="examples.toy_dispatcher:ToyDispatcher", mistake="")
    with pytest.raises(ReplayError, match=r"attempts cannot be replayed on .*:ToyDispatcher: it has no `runner`"):
        told_again(toy)
