"""Traces of foreign systems: written, read, refused where they are damaged, and replayed, also on another adapter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from model.claims import Ability
from stateful.commands.foreign import replay_foreign
from stateful.foreign import catalogue
from stateful.foreign.adapter import Hello
from stateful.foreign.catalogue import START, Recipe
from stateful.foreign.examine import Examination, Examined, Row, Violation
from stateful.foreign.keeping import keep
from stateful.foreign.order import At, Do, Order, Spot, Step, Then
from stateful.foreign.trace import ForeignTrace, ForeignTraceError, is_foreign, read_foreign

KILLED = Step(Do.START, 1, 1, "p1", at=At.EXIT, then=Then.KILL)
GOOD = ForeignTrace(("quick.py",), "quick", "1", "at-most-once", Order("killed after the send", (KILLED,)))
SPOTS = tuple(Spot(n, f"SELECT {n}", 1) for n in (1, 2))
ALL_ABLE = Hello("all", "1", "call", frozenset(Ability), ())
EVERY_ORDER = catalogue.orders(ALL_ABLE, Recipe((START, catalogue.GRANT), (SPOTS, SPOTS), (3, 3)))


@pytest.mark.parametrize("order", [GOOD.order, *EVERY_ORDER], ids=lambda order: order.name)
def test_a_trace_is_read_as_it_was_written(tmp_path, order):
    """Each order of the catalogue comes back from its file, step by step."""
    trace = ForeignTrace(("-x", "a b", "é"), 'a "system"', "1.0", "in-doubt", Order(order.name, order.steps), "holds")
    trace.write(tmp_path / "trace.json")

    assert is_foreign(tmp_path / "trace.json")
    assert trace == read_foreign(tmp_path / "trace.json")


def stepped(**changes):
    """A trace's document whose one step has these changes."""
    step = {**KILLED.to_json(), **changes}
    return {"steps": [{name: value for name, value in step.items() if value is not ...}]}


DAMAGES = [
    ({"wishes": 1}, "there is no field 'wishes'; the fields are format, version, adapter"),
    ({"adapter": "quick.py"}, "\"adapter\" is 'quick.py'; it is a list of words, a file or a command"),
    ({"adapter": []}, '"adapter" is []; it is a list of words'),
    ({"adapter": [""]}, "\"adapter\" is ['']; it is a list of words"),
    ({"adapter": [1]}, '"adapter" is [1]; it is a list of words'),
    ({"system": 1}, '"system" is 1; it is a text'),
    ({"name": None}, '"name" is None; it is a text'),
    ({"steps": None}, '"steps" is missing, empty or no list; the file is torn'),
    ({"steps": []}, '"steps" is missing, empty or no list; the file is torn'),
    ({"claim": "luck"}, "\"claim\" is 'luck'; it is one of at-most-once,"),
    ({"claim": []}, '"claim" is []; it is one of at-most-once,'),
    ({"expect": "luck"}, "\"expect\" is 'luck'; it is one of violated, holds"),
    ({"expect": []}, '"expect" is []; it is one of violated, holds'),
    ({"steps": ["kill"]}, 'step 1 is "kill", not an object such as {"do": "kill", "worker": 1}'),
    (stepped(why=1), "step 1 has no field 'why'; the fields are do, worker,"),
    (stepped(do="explode"), "step 1: 'explode' is not a valid Do; what can be done is start, go-on,"),
    (stepped(do=...), "step 1: 'None' is not a valid Do; what can be done is start,"),
    (stepped(at="nowhere"), "step 1: 'nowhere' is not a valid At;"),
    (stepped(then=["kill"]), "step 1: ['kill'] is not a valid Then;"),
    (stepped(worker=0), "step 1: worker is 0; it is a number from 1 to 9"),
    (stepped(worker=True), "step 1: worker is True; it is a number from 1 to 9"),
    (stepped(key="k1"), "step 1: key is 'k1'; it is a number from 0 to 9"),
    (stepped(effect=10), "step 1: effect is 10; it is a number from 1 to 9"),
    (stepped(key=...), "step 1: start names no key; give one, a number from 1 to 9"),
    (stepped(payload=...), "step 1: payload is ''; it is p1 or p2"),
    (stepped(payload=["p1"]), "step 1: payload is ['p1']; it is p1 or p2"),
    (stepped(choice="grant"), "step 1: start with choice 'grant'; it is left out"),
    (stepped(do="decide", choice="maybe"), "step 1: decide with choice 'maybe'; it is grant or deny"),
    (stepped(do="advance", choice=[]), "step 1: advance with choice []; it is lease or expiry"),
    (stepped(at=...), 'step 1: "at" says where and "then" says what; give both or neither'),
    (stepped(do="kill"), "step 1: kill is never stopped at effect-exit; leave out at and then"),
    (
        stepped(at="file-operation", then="hold"),
        "step 1: at file-operation a process can only be killed, and not hold",
    ),
    (stepped(spot=3), 'step 1: spot is 3; it is an object of "number", "sql" and "nth"'),
    (stepped(spot={"line": 1}), "step 1: spot is {'line': 1}; it is an object of"),
    (stepped(spot={"sql": 1}), 'step 1: spot is {\'sql\': 1}; "number" and "nth" are numbers'),
    (stepped(spot={"number": -1}), "step 1: spot is {'number': -1}; \"number\" and"),
    (stepped(spot={"nth": True}), "step 1: spot is {'nth': True}; \"number\" and"),
]


@pytest.mark.parametrize(("changes", "says"), DAMAGES)
def test_a_damaged_trace_is_refused(tmp_path, changes, says):
    """A trace with a wrong field is refused with the file, the value, the reason and the remedy."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(GOOD.to_json() | changes))
    with pytest.raises(ForeignTraceError) as refused:
        read_foreign(path)

    assert (True, f"trace {path}: ") == (says in str(refused.value), str(refused.value)[: len(f"trace {path}: ")])


@pytest.fixture
def kept(quick, tmp_path):
    """The trace of a system that sends again."""
    path = tmp_path / "trace.json"
    evolve(GOOD, adapter=quick("sends again", "at-most-once").command).write(path)
    return path


def test_what_an_examination_keeps_is_violated_again(quick, scratch, tmp_path, only, capsys):
    """What an examination kept is violated each time that it is replayed, and told step by step."""
    only("killed after the send")
    adapter = quick("sends again", "at-most-once")
    found = Examination(adapter, scratch, workers=1, sweep=False).run()
    path = Path(keep(found, adapter.command, tmp_path / "kept")["at-most-once"])
    status = replay_foreign(path, "", 3, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    story = path.with_name("story.txt").read_text().splitlines()

    assert 1 == status
    assert ("tiny, at-most-once: k1 was sent 2 times: by w1, by w9", lines[1:-1]) == (lines[0], story[1:-1])
    assert "  1  w1: start k1 p1, killed after the send: killed" == lines[1]
    assert "  expected violated, and it came out as violated 3 times of 3" == lines[-1]


@pytest.mark.parametrize(
    ("way", "claims", "status", "came"),
    [
        ("honest", "at-most-once", 0, "it held"),
        ("marks before", "at-most-once", 0, "it held"),
        ("sends again", "at-most-once", 1, "k1 was sent 2 times: by w1, by w9"),
    ],
)
def test_a_trace_is_replayed_on_another_adapter(kept, quick, capsys, way, claims, status, came):
    """The same order on another system tells what that one makes of it."""
    other = " ".join(f"'{word}'" for word in quick(way, claims).command)
    found = replay_foreign(kept, f"-- {other}", 1, as_json=True)
    said = json.loads(capsys.readouterr().out)

    assert (status, came if status else "", status) == (found, said["detail"], said["violated"])
    assert {"violated": 1, "times": 1, "detail": 1, "trace": 1, "steps": 1}.keys() == said.keys()


def test_what_was_not_at_stake_is_no_survival(kept, tiny, capsys):
    """A replay in which the claim was never put to the test is vacuous."""
    body = "hello()\nserve(lambda request: {'outcome': 'refused'})"
    other = " ".join(f"'{word}'" for word in tiny(body, name="refuses.py").command)
    found = replay_foreign(kept, f"-- {other}", 1, as_json=False)

    assert (3, True) == (found, "at-most-once: it was not at stake" in capsys.readouterr().out)


@pytest.mark.parametrize(
    ("system", "name"),
    [
        ("../a b/\n", "a-b"),
        ("", "system"),
        ("..", "system"),
        ("x" * 500, "x" * 60),
        ("survives' own", "survives-own"),
    ],
)
def test_a_systems_name_may_hold_anything(tmp_path, system, name):
    """Findings are kept in one folder each, wherever a system's name would lead."""
    row = Row("at-most-once", "violated", violation=Violation(GOOD.order, "it was sent twice", ()))
    found = Examined("x.py", evolve(ALL_ABLE, system=system), (row,))
    kept = Path(keep(found, ("x.py",), tmp_path / "out")["at-most-once"])

    assert tmp_path / "out" == kept.parent.parent
    assert f"{name}-at-most-once" == kept.parent.name.rpartition("-")[0]
    assert system == read_foreign(kept).system
