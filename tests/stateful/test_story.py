"""The story of a trace: one line a step, only what changed."""

# ruff: noqa: E501 - the lines are as long as a user sees them

from __future__ import annotations

from itertools import product

import pytest
from attrs import evolve

from model.contracts import Limits, contracts_from
from model.properties import PROPERTIES, Moment, breaks
from model.words import Effect, Intent, Kind, Lease, Outcome, Progress, Slot, State, Stores
from stateful.because import because
from stateful.findings import keep, told_again
from stateful.story import counted
from stateful.trace import SURVIVED, Trace, read_trace

LABELS = ("submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 silent", "advance k1 lease", "claim w2 k1")
VIOLATED = """\
VIOLATED  No effect is authorised without a valid approval, and one approval is spent on one operation.
  impl.sqlite:SqliteDispatcher, contracts approval=advisory; 3 steps
    1  submit k1 p1         ok    k1: intent pending for p1, deadline 600
    2  claim w1 k1          ok 1  k1: lease 1 of w1 until 100
    3  dispatch w1 k1 done  ok 1  k1: pending -> dispatching, attempt 1, EFFECT p1 at 0 under token 1, sink refuses tokens below 1
  => dispatch w1 k1 done: k1 was sent without an approval"""
SURVIVES = """\
SURVIVED  Every promise survived this order.
  impl.sqlite:SqliteDispatcher, contracts default; 6 steps
    1  submit k1 p1           ok                   k1: intent pending for p1, deadline 600
    2  approve k1 p1          ok                   k1: approval granted for p1 until 250
    3  claim w1 k1            ok 1                 k1: lease 1 of w1 until 100
    4  dispatch w1 k1 silent  unknown (no answer)  k1: pending -> dispatching, attempt 1, approval spent for p1 until 250, EFFECT p1 at 0 under token 1, sink refuses tokens below 1
    5  advance k1 lease       ok
    6  claim w2 k1            ok 2                 k1: dispatching -> unknown, in doubt, lease 2 of w2 until 200, sink refuses tokens below 2
   -- then everyone restarts and runs to rest --"""


@pytest.fixture
def trace(steps):
    def make(*labels, expect=SURVIVED, **choices):
        return Trace("impl.sqlite:SqliteDispatcher", contracts_from(choices), steps(*labels), expect)

    return make


def test_a_violation_is_told(trace):
    """The promise, the subject, the steps with answers and changes, and what was seen in the end."""
    story = told_again(trace("submit k1 p1", "claim w1 k1", "dispatch w1 k1 done", approval="advisory"))[0]

    assert VIOLATED == story.text()


def test_a_survival_is_told(trace):
    """Quiesce has a heading of its own, and its steps go on with the numbers."""
    text = told_again(trace(*LABELS))[0].text()

    assert SURVIVES.splitlines() == text.splitlines()[: len(SURVIVES.splitlines())]


def test_columns_line_up(trace):
    """Answers begin in one column, and so do changes."""
    lines = told_again(trace(*LABELS))[0].text().splitlines()
    columns = {line.index("k1:", 32) for line in lines if "k1:" in line[32:]}

    assert 1 == len(columns)


def test_a_trace_comes_back_from_its_file(trace, tmp_path):
    """What is written is what is read."""
    written = trace("submit k1 p1!2", "claim w1 k1", expect="one-effect", fencing="none", idempotency="client")
    written.write(tmp_path / "trace.json")

    assert written == read_trace(tmp_path / "trace.json")


def test_a_finding_is_kept(trace, tmp_path):
    """A finding's folder has the trace, the story and the stores, and the command that replays it."""
    found = trace("submit k1 p1", "claim w1 k1", "dispatch w1 k1 done", expect="valid-approval", approval="advisory")
    kept = keep(found, tmp_path)
    names = {str(p.relative_to(kept.folder)) for p in kept.folder.rglob("*") if p.is_file()}

    assert {"trace.json", "story.txt", "stores/ledger.sqlite3", "stores/sink/sink.sqlite3"} <= names
    assert (f"survives replay {kept.folder / 'trace.json'}", True) == (kept.replay, kept.story.as_expected)


def test_a_folder_that_cannot_be_written_loses_no_finding(trace, tmp_path):
    """Where the folder cannot be written the story comes back all the same, with the reason and the remedy."""
    (tmp_path / "file").write_text("")
    kept = keep(trace("submit k1 p1"), tmp_path / "file" / "below")

    assert (None, True, True) == (kept.folder, "--out" in kept.trouble, bool(kept.story.lines))


def test_words_for_numbers():
    """One of a thing is not many."""
    assert ["1 step", "2 steps", "1,000 steps"] == [counted(n, "step") for n in (1, 2, 1000)]


def test_a_death_is_told_with_its_place(trace):
    """A process that dies at a boundary is told with the call that it did not make, or that it had made all."""
    lines = told_again(trace("submit k1 p1!2", "submit k1 p1!99"))[0].text().splitlines()

    assert "submit k1 p1 killed at boundary 2 (before " in lines[2]
    assert " of ledger.sqlite3)" in lines[2]
    assert "submit k1 p1 killed at boundary 99 (right after it)" in lines[3]


def test_what_nobody_can_read_is_told_as_belief(trace):
    """Of a subject whose rows cannot be read the model speaks, and says so; what the sink holds was read."""
    toy = evolve(
        trace("submit k1 p1", "claim w1 k1", "dispatch w1 k1 done"), subject="examples.toy_dispatcher:ToyDispatcher"
    )
    lines = told_again(toy)[0].text().splitlines()

    assert lines[2].endswith("model: k1 intent pending for p1, deadline 600")
    assert lines[3].endswith("ok 1")
    assert lines[4].endswith("; k1: EFFECT p1 at 0 under token 1")
    assert "model: k1 pending -> dispatching" in lines[4]


SLOT = Slot(Intent("p1", State.PENDING, 600), effects=(Effect("p2", 1, 700),), token_high=3, calls=9)


@pytest.mark.parametrize("property_id", [p.id for p in PROPERTIES.values() if p.sort == "always"])
@pytest.mark.parametrize("verb", ["dispatch w1 k1 done", "claim w1 k1", "renew w1 k1", "submit k1 p2", "cancel k1"])
@pytest.mark.parametrize("kind", [Kind.OK, Kind.REPLAYED, Kind.REFUSED])
def test_every_broken_promise_has_words(steps, property_id, verb, kind):
    """Whatever breaks a promise, there are words for it, wherever the moment is one that breaks it."""
    lease, done = Lease("w1", 1, 900), evolve(SLOT.intent, state=State.COMPLETED, digest="p2")
    slots = [
        SLOT,
        Slot(),
        evolve(SLOT, lease=lease),
        evolve(SLOT, intent=done, progress=Progress(1, 7), token_high=0),
    ]
    for was, now in product(slots, slots):
        (step,) = steps(verb)
        moment = Moment(Stores(1, (was,)), Stores(1, (now,)), 650, step.action, Outcome(kind), 0, 1, Limits())
        if property_id not in {"conforms", "answers"} and breaks(moment, property_id):
            assert "k1" in because(property_id, moment)
