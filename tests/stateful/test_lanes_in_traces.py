"""Traces with lanes: written, read, refused where they are wrong, played on any subject, told with a column a worker."""

# ruff: noqa: E501 - the lines are as long as a user sees them

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from model.actions import Alphabet
from stateful.findings import told_again
from stateful.schedules.program import BUSY, KILL, RUN, TIME, Turn
from stateful.trace import SURVIVED, TraceError, read_trace

TRACES = Path(__file__).parents[1] / "traces"
RACE = """\
VIOLATED  No effect is authorised without a valid approval, and one approval is spent on one operation.
  impl.sqlite:SqliteDispatcher with mistake M204, contracts default; 11 steps
    1  submit k1 p1   ok    k1: intent pending for p1, deadline 600
    2  approve k1 p1  ok    k1: approval granted for p1 until 250
    3  claim w1 k1    ok 1  k1: lease 1 of w1 until 100
   -- then side by side --
       w1                                                       w2
    4  dispatch w1 k1 done: BEGIN IMMEDIATE of ledger
    5  dispatch w1 k1 done: SELECT ... FROM intents of ledger
    6  dispatch w1 k1 done: COMMIT of ledger
    7                                                           revoke k1 -> ok  k1: approval revoked for p1 until 250
    8  dispatch w1 k1 done: BEGIN IMMEDIATE of ledger
    9  dispatch w1 k1 done: UPDATE intents SET ... of ledger
   10  dispatch w1 k1 done: UPDATE approvals SET ... of ledger
   11  dispatch w1 k1 done: COMMIT of ledger                                     k1: pending -> dispatching, attempt 1, approval spent for p1 until 250
  => dispatch w1 k1 done: k1 was sent under an approval that is revoked"""
DEATH = """\
SURVIVED  Every promise survived this order.
  impl.sqlite:SqliteDispatcher, contracts default; 8 steps
    1  submit k1 p1          ok    k1: intent pending for p1, deadline 600
    2  approve k1 p1         ok    k1: approval granted for p1 until 250
    3  claim w1 k1           ok 1  k1: lease 1 of w1 until 100
   -- then side by side --
       w1                                                                  w2
    4  dispatch w1 k1 done: BEGIN IMMEDIATE of ledger
    5  dispatch w1 k1 done: read of the clock
    6  time: advance k1 lease
    7  dispatch w1 k1 done: DIES before SELECT ... FROM intents of ledger
    8                                                                      revoke k1 -> ok  k1: approval revoked for p1 until 250
   -- then everyone restarts and runs to rest --
    9  restart w1 same-name  ok"""


@pytest.fixture
def race():
    """A trace with lanes: an approval is taken back between the check and the act."""
    return read_trace(TRACES / "race-M204-valid-approval.json")


@pytest.fixture
def document(race):
    """It as JSON."""
    return race.to_json()


@pytest.fixture
def read(tmp_path):
    """A document, written and read again."""

    def go(document):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps(document))
        return read_trace(path)

    return go


@pytest.mark.parametrize("path", sorted(TRACES.glob("race-*.json")), ids=lambda p: p.stem)
def test_a_trace_with_lanes_comes_back_from_its_file(path, tmp_path):
    """What is read is written as it was, byte by byte."""
    read_trace(path).write(tmp_path / "again.json")

    assert path.read_text() == (tmp_path / "again.json").read_text()


def test_only_lanes_need_the_newer_version(race, document):
    """A trace with lanes is of version 2; the same without them is of version 1, and has no field for them."""
    plain = evolve(race, scheduled=None).to_json()

    assert (2, 1) == (document["version"], plain["version"])
    assert {"lanes", "schedule"} == set(document) - set(plain)


def test_a_newer_trace_may_have_no_lanes(race, document, read):
    """Version 2 without lanes is a plain order."""
    plain = {name: value for name, value in document.items() if name not in {"lanes", "schedule"}}

    assert evolve(race, scheduled=None) == read(plain)


REVOKE = {"do": "revoke", "key": "k1"}
PLACE = {"call": 1, "boundary": 1, "before": ""}


def run_until(**changes):
    """A turn of w1 up to a place."""
    return {"schedule": [{"do": "run", "lane": "w1", "until": PLACE | changes}]}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lanes": {"w9": []}}, '"lanes" is {"w9": []}; it is an object with a list of calls for w1, w2'),
        ({"lanes": []}, '"lanes" is []; it is an object'),
        ({"lanes": None}, '"lanes" is null; it is an object'),
        ({"lanes": {"w1": REVOKE}}, 'lane w1 is {"do": "revoke", "key": "k1"}, not a list of calls'),
        (
            {"lanes": {"w2": [{"do": "claim", "worker": "w1", "key": "k1"}]}},
            "lane w2, call 1: 'claim w1 k1' is another worker's; lane w2 is w2's process",
        ),
        (
            {"lanes": {"w2": [REVOKE | {"kill_at": 3}]}},
            "lane w2, call 1: a call in a lane has no kill_at; let the schedule kill the lane",
        ),
        (
            {"lanes": {"w2": [REVOKE, {"do": "stall", "worker": "w2", "key": "k1"}]}},
            "lane w2, call 2: stall is no call that a lane makes; it makes acknowledge, approve",
        ),
        ({"lanes": {"w1": [{"do": "explode"}]}}, "there is no action 'explode'; the actions are submit"),
        ({"lanes": {"w1": [{"do": "revoke", "key": "k7"}]}}, "there is no 'revoke k7'; one of revoke k1"),
        ({"lanes": {"w1": ["revoke"]}}, 'is "revoke", not an object such as'),
        ({"lanes": {"w1": [REVOKE | {"why": 1}]}}, "revoke takes no 'why'"),
        ({"schedule": None}, '"schedule" is missing or no list; a trace with "lanes" has one'),
        ({"schedule": ["w1"]}, 'turn 1 of the schedule is "w1"; its do is one of run, kill, busy, advance'),
        (
            {"schedule": [{"do": "run", "lane": "w1", "until": "end"}, {"do": "sleep", "lane": "w1"}]},
            'turn 2 of the schedule is {"do": "sleep", "lane": "w1"}; its do is one of run, kill, busy, advance',
        ),
        ({"schedule": [{"do": ["run"], "lane": "w1"}]}, "its do is one of run, kill, busy, advance"),
        (
            {"schedule": [{"do": "kill", "lane": "w3"}]},
            'turn 1 of the schedule: there is no lane "w3"; one of w1, w2',
        ),
        ({"schedule": [{"do": "kill"}]}, "turn 1 of the schedule: there is no lane null; one of w1, w2"),
        (
            {"schedule": [{"do": "kill", "lane": "w1", "until": "end"}]},
            "turn 1 of the schedule: kill takes no 'until'",
        ),
        (
            {"schedule": [{"do": "run", "lane": "w1"}]},
            'until is null; it is "end", or a call and a boundary, numbers from 1 to 10,000',
        ),
        (run_until(call=0), 'until is {"call": 0, "boundary": 1, "before": ""}; it is "end", or'),
        (run_until(boundary=-1), 'until is {"call": 1, "boundary": -1, "before": ""}; it is'),
        (run_until(boundary=True), 'until is {"call": 1, "boundary": true, "before": ""}; it is'),
        (run_until(call=10_001), 'until is {"call": 10001, "boundary": 1, "before": ""}; it is'),
        (run_until(before=3), 'until is {"call": 1, "boundary": 1, "before": 3}; it is'),
        (run_until(after="x"), "; it is"),
        (
            {"schedule": [{"do": "advance", "key": "k1", "to": "christmas"}]},
            "there is no 'advance k1 christmas'; one of advance tick, advance k1 lease-1",
        ),
        ({"schedule": [{"do": "advance"}]}, "there is no 'advance'; one of advance tick"),
        ({"version": 1}, 'a trace of version 1 has no "lanes" and no "schedule"; its version is 2'),
    ],
    ids=lambda x: str(x)[:60],
)
def test_lanes_that_are_wrong_are_told(document, read, changes, says):
    """A trace with wrong lanes or a wrong schedule is refused with the value, the reason and the remedy."""
    with pytest.raises(TraceError) as refused:
        read(document | changes)

    assert says in str(refused.value), str(refused.value)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"lanes": {"w1": [{"do": "explode"}]}}, "lane w1, call 1"),
        ({"lanes": {"w2": [REVOKE, {"do": "revoke", "key": "k7"}]}}, "lane w2, call 2"),
        ({"schedule": [{"do": "advance"}]}, "turn 1 of the schedule"),
    ],
)
def test_a_wrong_action_is_told_with_its_place(document, read, changes, where):
    """What is no action is told where it stands: in which lane, or in the schedule."""
    with pytest.raises(TraceError) as refused:
        read(document | changes)

    assert where in str(refused.value), str(refused.value)


def test_a_schedule_without_lanes_is_told(document, read):
    """A schedule is one of lanes."""
    del document["lanes"]
    with pytest.raises(TraceError) as refused:
        read(document)

    assert '"lanes" is null' in str(refused.value)


@pytest.mark.parametrize(
    "subject",
    ["examples.toy_dispatcher:ToyDispatcher", "tests.stateful.subjects:Honest", "tests.stateful.subjects:Awaits"],
)
@pytest.mark.parametrize("path", sorted(TRACES.glob("race-*.json")), ids=lambda p: p.stem)
def test_a_schedule_plays_on_another_subject(path, subject):
    """A schedule means the same, or nearly, where a subject has fewer boundaries, more, or fewer parts."""
    story = told_again(evolve(read_trace(path), subject=subject, mistake=""))[0]

    assert SURVIVED == story.verdict, story.text()
    assert any(line.in_lanes for line in story.lines)


def test_lanes_are_told_side_by_side(race):
    """A column a worker: an interrupted call statement by statement, one that nobody interrupted in one line."""
    assert RACE == told_again(race)[0].text()


def test_a_death_and_a_move_of_time_are_told(race):
    """The place of a death stands in its worker's column; what time did stands in the first."""
    moved = Turn(TIME, move=Alphabet(2, 2).by_label["advance k1 lease"])
    turns = (Turn(RUN, 0, 1, 3), moved, Turn(KILL, 0), Turn(RUN, 1))
    calm = evolve(race, mistake="", expect=SURVIVED, scheduled=evolve(race.scheduled, turns=turns))

    assert DEATH.splitlines() == told_again(calm)[0].text().splitlines()[: len(DEATH.splitlines())]


def test_a_schedule_may_say_too_much_or_too_little(race):
    """Turns that cannot be taken any more are passed over, and what no turn has brought to its end runs on."""
    moved = Turn(TIME, move=Alphabet(2, 2).by_label["advance k2 lease"])
    turns = (Turn(RUN, 0), Turn(RUN, 0, 3, 1), Turn(KILL, 0), moved, Turn(BUSY, 1))
    calm = evolve(race, mistake="", expect=SURVIVED, scheduled=evolve(race.scheduled, turns=turns))
    told = [line.label for line in told_again(calm)[0].lines if line.in_lanes]

    assert ["dispatch w1 k1 done -> ok 1", "revoke k1 -> ok"] == told
