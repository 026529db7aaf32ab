"""Subjects that lie, break or misbehave: each gets the verdict and the message that a user is promised."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from model.contracts import contracts_from
from model.words import Kind
from stateful import order
from stateful import subject as subjects
from stateful.shard import Shard
from stateful.spoken import placed
from stateful.story import tell
from stateful.subject import DEFAULT_SUBJECT, SubjectError, load_subject
from stateful.trace import Trace
from stateful.workers import run_shards
from tests.stateful import subjects as named


@pytest.mark.parametrize(
    ("name", "choices", "property_id", "says"),
    [
        ("LosesSubmit", {}, "intent-kept", "is not there"),
        ("AppliesTwice", {}, "conforms", "calls expected 1, read 2"),
        ("AppliesTwice", {"idempotency": "client"}, "one-effect", " has 2 effects"),
        ("Raises", {}, "answers", "it raised ValueError: no lease today"),
        ("RaisesWhenOpened", {}, "answers", "opening the subject on empty stores: it raised OSError: no disk today"),
        ("AnswersNone", {}, "answers", "it answered None to 'dispatch"),
        ("WrongToken", {}, "conforms", "the subject answered ok 2, the model ok 1"),
        ("RefusesRenewal", {}, "conforms", "the subject answered refused (not in the mood), the model ok"),
        ("MovesDeadline", {}, "conforms", "as does the model, but the rows differ: k"),
    ],
)
def test_a_lie_is_seen_through(hunt, name, choices, property_id, says):
    """A subject that lies or breaks is found, under the promise that it breaks, with what it said."""
    found = hunt(name, **choices).broken

    assert property_id in found
    assert says in found[property_id].detail, found[property_id].detail


DISPATCH = ("submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 done")
LIARS = [
    (
        "SendsNothing",
        (*DISPATCH, "acknowledge w1 k1"),
        "true-completion",
        "k1 is completed with receipt -1, and it has 0",
    ),
    ("SendsOnTheSide", DISPATCH, "effect-has-intent", "there are rows under keys that nobody used: k1-again"),
    ("AppliesTwice", DISPATCH, "conforms", "calls expected 1, read 2"),
    (
        "TakesAnythingForDone",
        (*DISPATCH[:3], "dispatch w1 k1 lost", "acknowledge w1 k1"),
        "true-completion",
        "k1 is completed with receipt -1, and it has 0",
    ),
    ("TakesAnythingForStored", ("submit k1 p1!6",), "effect-has-intent", "an effect under k1 that has no intent"),
    (
        "SendsAfterItsDeath",
        (*DISPATCH[:3], "dispatch w1 k1 done!6", "claim w2 k1", "advance k1 lease", "claim w2 k1"),
        "refusal-changes-nothing",
        "claim w2 k1: a refusal changed effects, fence, calls of k1",
    ),
    (
        "SendsAfterTheDeadline",
        (*DISPATCH[:3], "stall w1 k1", "advance k1 deadline", "wake w1 done"),
        "deadline-kept",
        "wake w1 done: ",
    ),
]


@pytest.mark.parametrize(("name", "labels", "property_id", "says"), LIARS, ids=[liar[0] for liar in LIARS])
def test_effects_are_counted_at_the_sink(rig, steps, name, labels, property_id, says):
    """A lie about effects is held against the sink and breaks a promise, which the honest dispatcher keeps."""
    finding = rig(name).run(steps(*labels)).finding

    assert (property_id, True) == (finding.property_id, says in finding.detail), finding
    assert rig("Honest").run(steps(*labels)).finding is None


@pytest.mark.parametrize("name", ["Honest", "SwallowsCrash"])
def test_what_keeps_its_promises_survives(hunt, name):
    """The dispatcher survives, and so does one that swallows its own death and gains nothing by it."""
    assert {} == hunt(name).broken


def test_a_hang_is_a_finding(hunt, monkeypatch):
    """A subject that never answers is stopped, and its step is named."""
    monkeypatch.setattr(order, "ORDER_SECONDS", 0.1)

    (broken,) = hunt("Hangs").broken.values()

    assert ("answers", "dispatch") == (broken.property_id, broken.steps[-1].action.verb)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("impl.sqlite", "is not of the form module:Class"),
        ("impl.sqlite:Missing", "has no 'Missing'; check the spelling"),
        ("tests.stateful.subjects:NoDispatcher", "it has no submit, claim, dispatch, acknowledge, close"),
        ("tests.stateful.subjects:ClaimsLeases", "declares 'leases' and has no renew, release"),
        ("tests.stateful.subjects:ClaimsMagic", "declares capabilities"),
        ("no.such.module:X", "run it from the folder that holds the module"),
    ],
)
def test_what_is_no_subject_is_refused(name, says):
    """What cannot be tested is refused before anything runs, with the reason and the remedy."""
    with pytest.raises(SubjectError) as refused:
        load_subject(name, folder=Path(__file__).parents[2], probe=False)

    assert says in str(refused.value), str(refused.value)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import os; os._exit(5)", "the process ended with status 5"),
        ("raise SystemExit('bye')", "bye"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_dies_at_import_is_told(tmp_path, code, says):
    """A module that ends its process while it is imported harms nobody, and the message says what happened."""
    (tmp_path / "dies_at_import.py").write_text(code)

    with pytest.raises(SubjectError) as refused:
        load_subject("dies_at_import:X", folder=tmp_path)

    assert f"importing 'dies_at_import' failed: {says}" in str(refused.value), str(refused.value)


def test_a_module_that_hangs_at_import_is_told(tmp_path, monkeypatch):
    """A module that never ends its import is given up."""
    (tmp_path / "hangs_at_import.py").write_text("while True: pass")
    monkeypatch.setattr(subjects, "IMPORT_SECONDS", 0.5)

    with pytest.raises(SubjectError) as refused:
        load_subject("hangs_at_import:X", folder=tmp_path)

    assert "did not end within 0.5 s; move what it does at import" in str(refused.value)


@pytest.mark.parametrize("place", ["model.py", "impl/__init__.py", "stateful/anything.py"])
def test_a_clash_of_names_is_told(tmp_path, place):
    """A module with the name of one of our packages, beside the subject, is refused by name."""
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("")

    with pytest.raises(SubjectError) as refused:
        load_subject("mine:X", folder=tmp_path)

    assert "has the name of a package of survives" in str(refused.value)


def test_a_swallowed_death_is_a_death(rig, steps):
    """What a subject says after its death is nothing: each step answers as the honest dispatcher's does."""
    labels = ("submit k1 p1!2", "submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 done!8")
    answers = [[t.outcome for t in rig(name).run(steps(*labels)).told] for name in ("Honest", "SwallowsCrash")]

    assert answers[0] == answers[1]


LEAD = ("submit k1 p1", "approve k1 p1", "claim w1 k1")


@pytest.mark.parametrize(
    ("verb", "label", "changes", "says"),
    [
        (
            "claim",
            "claim w1 k1",
            {"token": "abc"},
            "token='abc' to 'claim w1 k1', which is no token (a positive int)",
        ),
        ("claim", "claim w1 k1", {"token": -5}, "token=-5 to 'claim w1 k1', which is no token"),
        ("claim", "claim w1 k1", {"token": 0}, "token=0"),
        ("claim", "claim w1 k1", {"token": True}, "token=True"),
        ("claim", "claim w1 k1", {"token": 2**63}, "token=9223372036854775808"),
        ("claim", "claim w1 k1", {"kind": "ok"}, "which is no impl.Answer"),
        ("claim", "claim w1 k1", {"kind": Kind.KILLED}, "which is no answer of a living process"),
        ("submit", "submit k1 p1", {"reason": 7}, "reason=7 to 'submit k1 p1', which is no reason (a str)"),
        (
            "dispatch",
            "dispatch w1 k1 done",
            {"receipt": 5},
            "receipt=5 to 'dispatch w1 k1 done', which is no receipt",
        ),
        ("dispatch", "dispatch w1 k1 done", {"receipt": None}, "receipt=None"),
        ("reap", "reap_apply w1", {"count": None}, "count=None to 'reap_apply w1', which is no count"),
        ("reap", "reap_apply w1", {"count": -1}, "count=-1"),
        ("authorise", "stall w1 k1", {"token": "1"}, "request.token='1' to 'stall w1 k1', which is no token"),
        ("authorise", "stall w1 k1", {"key": 1}, "request.key=1"),
        ("authorise", "stall w1 k1", {"not_after_ms": "soon"}, "request.not_after_ms='soon'"),
        ("overdue", "reap_read w1", {"key": None}, "key=None to 'reap_read w1', which is no key (a str)"),
        ("overdue", "reap_read w1", {"token": 1.5}, "token=1.5"),
        ("overdue", "reap_read w1", {"expiry_ms": "now"}, "expiry_ms='now'"),
    ],
)
def test_an_answer_is_one_in_every_field(rig, steps, monkeypatch, verb, label, changes, says):
    """An answer of which a field is of the wrong kind is told, by the field and what it should be."""
    monkeypatch.setattr(named.AnswersAmiss, "amiss", (verb, changes))
    lead = () if label.startswith("claim") else LEAD[2:]
    reap = ("reap_read w1",) if verb == "reap" else ()
    ran = rig("AnswersAmiss").run(steps(*LEAD[:2], *lead, *reap, label))

    assert (("answers", label), True) == (
        (ran.finding.property_id, ran.steps[-1].label),
        says in ran.finding.detail,
    ), ran.finding


def test_an_answer_with_nothing_amiss_is_taken(rig, steps, monkeypatch):
    """The test above can pass: the dispatcher whose answers it changes is a good one."""
    monkeypatch.setattr(named.AnswersAmiss, "amiss", ("claim", {}))

    assert None is rig("AnswersAmiss").run(steps(*LEAD, "dispatch w1 k1 done")).finding


def test_what_a_subject_says_can_be_printed(rig, steps):
    """Whatever its message is made of comes out on one line, in characters that any terminal and file takes, cut."""
    name = "tests.stateful.subjects:Garbles"
    trace = Trace(name, contracts_from({}), steps("submit k1 p1", "claim w1 k1", "dispatch w1 k1 done"), "answers")
    played = rig(name)
    text = tell(played, trace).text()
    last = text.splitlines()[-1]

    assert "it raised ValueError: boom \\ud800 \\x1b[31m\\n\\rxxx" in last
    assert text == text.encode().decode()
    assert [True, True] == [line.isprintable() for line in text.splitlines() if "boom" in line]
    assert len(last) < 3_000


@pytest.mark.parametrize(
    "garbage",
    [
        "UPDATE intents SET state = char(27)",
        "UPDATE intents SET payload = char(27)",
        "UPDATE intents SET digest = char(27)",
        "UPDATE intents SET key = char(27)",
    ],
)
def test_what_a_subject_stores_can_be_printed(rig, steps, monkeypatch, garbage):
    """Rows that mean nothing are a finding, and what is told of them can be printed."""
    monkeypatch.setattr(named.GarblesItsRows, "garbage", garbage)
    ran = rig("GarblesItsRows").run(steps("submit k1 p1", "cancel k1"))
    monkeypatch.undo()

    assert [True, True] == [ran.finding is not None, ran.finding.detail.isprintable()]


@pytest.mark.parametrize("engine", ["walk", "machine", "kills"])
@pytest.mark.parametrize(
    ("name", "promises"),
    [
        ("tests.stateful.subjects:TakesItsFolderAway", {"answers", "intent-kept"}),
        ("tests.stateful.subjects:NegativeToken", {"answers"}),
        ("tests.stateful.subjects:GarblesItsRows", {"answers"}),
    ],
)
def test_no_engine_fails_by_what_a_subject_does(engine, name, promises):
    """What a subject does to its answers, its rows and its files is a finding of every engine, and fails no shard."""
    size = {"walk": 40, "machine": 20, "kills": 6}[engine]
    shard = Shard(engine, 0, 1, size, 0, name, "", contracts_from({}), Path(__file__).parents[2], stop_at_first=True)
    (tally,) = run_shards([shard], 1, time.monotonic() + 60, None, [])

    assert ("", True) == (tally.failed, bool(promises & set(tally.broken))), tally


def test_stray_rows_are_a_finding_of_the_kills_engine():
    """Rows under keys that nobody used, met while a process is frozen, are a finding and fail no shard."""
    shard = Shard("kills", 0, 1, 8, 0, DEFAULT_SUBJECT, "M040", contracts_from({}), Path(__file__).parents[2])
    (tally,) = run_shards([shard], 1, time.monotonic() + 60, None, [])

    assert ("", True) == (tally.failed, "effect-has-intent" in tally.broken)


def test_a_failure_says_where():
    """An exception that nobody expected is told with the line of ours or of the subject's that it went through."""
    try:
        json.loads("{")
    except ValueError as error:
        said = placed(error)

    assert said.startswith("JSONDecodeError: Expecting property name")
    assert f"({__file__}:" in said
