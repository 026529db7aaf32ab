"""Wrong use and bad input: status 2 and one message with the value, the reason and the remedy; never a traceback."""

from __future__ import annotations

import json

import pytest

GOOD = {
    "format": "survives-trace",
    "version": 1,
    "subject": "impl.sqlite:SqliteDispatcher",
    "contracts": {},
    "steps": [{"do": "submit", "key": "k1", "payload": "p1"}],
    "expect": "survived",
}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check", "--contracts", "idem=none"], "contract 'idem' does not exist; the contracts are attempt_timeout"),
        (["check", "--contracts", "fencing=some"], "contract fencing has no choice 'some'; it is one of"),
        (["check", "--contracts", "fencing"], "'fencing' is not of the form NAME=CHOICE"),
        (["check", "--mistake", "M999"], "mistake 'M999' is not among the"),
        (["check", "--mistake", "M002", "examples.toy_dispatcher:ToyDispatcher"], "drop one of them"),
        (["check", "nowhere"], "is not of the form module:Class"),
        (["check", "no.where:X"], "importing 'no.where' failed"),
        (["check", "impl.sqlite:Nothing"], "has no 'Nothing'; check the spelling"),
        (["check", "json:JSONDecoder"], "is not a dispatcher: it has no submit"),
        (["check", "--seconds", "0"], "0 is not in the range"),
        (["check", "--workers", "0"], "0 is not in the range"),
        (["check", "--seed", "-1"], "-1 is not in the range"),
        (["replay", "missing.json"], "'missing.json' does not exist"),
        (["list", "wishes"], "'wishes' is not one of"),
        (["mistakes", "M999"], "seeded; did you mean M0"),
        (["mistakes", "M999"], "? `survives list mistakes` shows them"),
        (["check", "--contracts", "approval=caller,approval=advisory"], "contract 'approval' is named twice"),
        (
            ["check", "--contracts", "fencing=none", "--contracts", "fencing=none"],
            "contract 'fencing' is named twice",
        ),
        (
            ["check", "--out", "/proc/nowhere"],
            "--out '/proc/nowhere' cannot be written: No such file or directory; choose",
        ),
        (["fly"], "No such command 'fly'"),
    ],
)
def test_wrong_use_is_told(survives, arguments, says):
    """Wrong use ends with status 2 and says what is right."""
    said = survives(*arguments)

    assert (2, "", True) == (said.status, said.out, says in " ".join(said.err.split())), said.err


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": "other"}, 'its "format" is not'),
        ({"version": 99}, "version 99 is of the future; this survives reads versions 1 to 6: update survives"),
        ({"version": "1"}, "version '1' is not a trace version"),
        ({"steps": None}, '"steps" is missing or no list'),
        ({"steps": [["kill"]]}, 'step 1 is ["kill"], not an object such as'),
        ({"steps": [{"do": "explode"}]}, "step 1: there is no action 'explode'; the actions are submit"),
        ({"steps": [{"do": ["kill"]}]}, "step 1: there is no action ['kill']"),
        ({"steps": [{"do": "kill", "worker": "w9"}]}, "step 1: there is no 'kill w9'; one of kill w1, kill w2"),
        ({"steps": [{"do": "kill", "worker": "w1", "why": 1}]}, "step 1: kill takes no 'why'"),
        ({"steps": [{"do": "kill", "worker": "w1", "kill_at": 2}]}, "touches no store"),
        ({"steps": [*GOOD["steps"], {"do": "kill", "worker": "w1", "kill_at": -1}]}, "step 2: kill_at is -1"),
        ({"steps": [{"do": "kill", "worker": "w1", "kill_at": True}]}, "step 1: kill_at is True"),
        (
            {"steps": [GOOD["steps"][0] | {"kill_at": 10_001}]},
            "kill_at is 10001; it is a boundary's number, from 1 to 10",
        ),
        ({"contract": {}}, "there is no field 'contract'; did you mean 'contracts'?"),
        ({"zzz": 1}, "there is no field 'zzz'; the fields are format, version"),
        ({"expect": "luck"}, "\"expect\" is 'luck'; it is 'survived' or one of one-effect"),
        ({"expect": None}, '"expect" is None'),
        ({"expect": []}, '"expect" is []'),
        ({"contracts": {"fencing": "some"}}, "contract fencing has no choice 'some'"),
        ({"contracts": {"idem": "none"}}, "contract 'idem' does not exist"),
        ({"contracts": []}, '"contracts" is [], not an object of choices'),
        ({"workers": "2"}, "\"workers\" is '2'; it is a number from 1 to 9"),
        ({"keys": 10}, '"keys" is 10; it is a number from 1 to 9'),
        ({"subject": 3}, '"subject" is 3, not a string'),
        ({"subject": ""}, "is not of the form module:Class"),
        ({"mistake": None}, '"mistake" is None, not a string'),
        ({"mistake": "M999"}, "mistake 'M999' is not among the"),
    ],
)
def test_a_trace_that_is_wrong_is_told(survives, tmp_path, changes, says):
    """A trace with a wrong field ends with status 2, and the field and what is right are named."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(GOOD | changes))
    said = survives("replay", path)

    assert (2, "", True) == (said.status, said.out, says in said.err), said.err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (json.dumps(GOOD)[:60].encode(), "is torn or no JSON"),
        (b"", "is torn or no JSON"),
        (b"[]", "this is no trace"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"version": ' + b"1" * 5_000 + b"}", "is no trace: Exceeds the limit"),
        (b'{"format": "survives-trace", "version": 1, "version": 1}', "'version' is there twice in one object"),
        (b'{"steps": [{"do": "kill", "do": "kill"}]}', "'do' is there twice in one object"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_a_torn_trace_is_told(survives, tmp_path, content, says):
    """A file that is torn, empty or no text ends with status 2 and its name."""
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    said = survives("replay", path)

    assert (2, True, True) == (said.status, says in said.err, str(path) in said.err), said.err


@pytest.mark.parametrize("mark", ["utf-8", "utf-8-sig"])
def test_a_good_trace_is_replayed(survives, tmp_path, mark):
    """The checks above can pass: the trace that they change is a good one."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(GOOD), mark)
    said = survives("replay", path, "--json")

    assert (0, "survived", 1) == (said.status, said.json["verdict"], said.json["as_expected"])


def test_a_trace_of_a_greater_subject_runs_on_a_small_one(survives, tmp_path):
    """A trace replayed on a subject with fewer parts leaves out what it has no part for."""
    path = tmp_path / "trace.json"
    steps = [
        *GOOD["steps"],
        {"do": "approve", "key": "k1", "payload": "p1"},
        {"do": "claim", "worker": "w1", "key": "k1"},
    ]
    path.write_text(json.dumps(GOOD | {"steps": [*steps, {"do": "stall", "worker": "w1", "key": "k1"}]}))
    said = survives("replay", path, "--subject", "examples.toy_dispatcher:ToyDispatcher", "--json")

    assert ["submit k1 p1", "claim w1 k1"] == [s["step"] for s in said.json["steps"]][:2]
    assert 0 == said.status


@pytest.mark.parametrize("place", ["model.py", "impl/__init__.py"])
def test_a_clash_of_names_is_told(started, tmp_path, place):
    """A module with one of our names beside the user's subject is told by its path, before anything is imported."""
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("raise SystemExit('imported')")
    (tmp_path / "mine.py").write_text("class D: pass")
    process = started("from stateful.cli import main; main()", "check", "mine:D")
    out, err = process.communicate(timeout=60)

    assert (2, "") == (process.returncode, out)
    assert "survives: " in err
    assert "has the name of a package of survives" in err
