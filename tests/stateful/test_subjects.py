"""Subjects that lie, break or misbehave: each gets the verdict and the message that a user is promised."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from stateful import order
from stateful import subject as subjects
from stateful.subject import SubjectError, load_subject


@pytest.mark.parametrize(
    ("name", "choices", "property_id", "says"),
    [
        ("LosesSubmit", {}, "intent-kept", "the subject answered ok"),
        ("AppliesTwice", {}, "conforms", "calls expected 1, read 2"),
        ("AppliesTwice", {"idempotency": "client"}, "one-effect", "the subject answered"),
        ("Raises", {}, "answers", "it raised ValueError: no lease today"),
        ("RaisesWhenOpened", {}, "answers", "opening the subject on empty stores: it raised OSError: no disk today"),
        ("AnswersNone", {}, "answers", "it answered None to 'dispatch"),
        ("WrongToken", {}, "conforms", "the subject answered ok 2, the model ok 1"),
        ("RefusesRenewal", {}, "conforms", "the subject answered refused (not in the mood), the model ok"),
        ("MovesDeadline", {}, "conforms", "as does the model, but the rows differ: k1.intent"),
    ],
)
def test_a_lie_is_seen_through(hunt, name, choices, property_id, says):
    """A subject that lies or breaks is found, under the promise that it breaks, with what it said."""
    found = hunt(name, **choices).broken

    assert property_id in found
    assert True is (says in found[property_id].detail), found[property_id].detail


@pytest.mark.parametrize("name", ["Honest", "SwallowsCrash"])
def test_what_keeps_its_promises_survives(hunt, name):
    """The dispatcher survives, and so does one that swallows its own death and gains nothing by it."""
    assert {} == hunt(name).broken


def test_a_hang_is_a_finding(hunt, monkeypatch):
    """A subject that never answers is stopped, and its step is named."""
    monkeypatch.setattr(order, "watched", partial(order.watched, 0.1))

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

    assert True is (says in str(refused.value)), str(refused.value)


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

    assert True is (f"importing 'dies_at_import' failed: {says}" in str(refused.value)), str(refused.value)


def test_a_module_that_hangs_at_import_is_told(tmp_path, monkeypatch):
    """A module that never ends its import is given up."""
    (tmp_path / "hangs_at_import.py").write_text("while True: pass")
    monkeypatch.setattr(subjects, "IMPORT_SECONDS", 0.5)

    with pytest.raises(SubjectError) as refused:
        load_subject("hangs_at_import:X", folder=tmp_path)

    assert True is ("did not end within 0.5 s; move what it does at import" in str(refused.value))


@pytest.mark.parametrize("place", ["model.py", "impl/__init__.py", "stateful/anything.py"])
def test_a_clash_of_names_is_told(tmp_path, place):
    """A module with the name of one of our packages, beside the subject, is refused by name."""
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("")

    with pytest.raises(SubjectError) as refused:
        load_subject("mine:X", folder=tmp_path)

    assert True is ("has the name of a package of survives" in str(refused.value))


def test_a_swallowed_death_is_a_death(rig, steps):
    """What a subject says after its death is nothing: each step answers as the honest dispatcher's does."""
    labels = ("submit k1 p1!2", "submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 done!8")
    answers = [[t.outcome for t in rig(name).run(steps(*labels)).told] for name in ("Honest", "SwallowsCrash")]

    assert answers[0] == answers[1]
