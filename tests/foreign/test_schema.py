"""The schema says what is said on the wire: all of it, and in the code's own words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve
from jsonschema import Draft202012Validator

from impl.protocol import Verdict
from model.claims import EXCLUDED, Ability
from model.contracts import Contracts
from model.words import Kind
from stateful.foreign import adapter as adapters
from stateful.foreign.adapter import python_adapter
from stateful.foreign.channel import Channel
from stateful.foreign.dispatcher import ProcessDispatcher, remote_subject
from stateful.foreign.facts import OUTCOMES
from stateful.foreign.order import At, Do, Order, Step, Then
from stateful.order import Rig
from stateful.trace import read_trace

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "stateful" / "foreign" / "protocol.schema.json").read_text("utf-8"))
DEFS = SCHEMA["$defs"]
START = Step(Do.START, 1, 1, "p1")
ASKED = {Do.START, Do.RECOVER, Do.OBSERVE, Do.DECIDE, Do.CANCEL, Do.RECONCILE, Do.ADVANCE, Do.CLOSE}
"""What is asked of an adapter; the rest is done to its process."""


def side(name: str) -> Draft202012Validator:
    """A validator of what is said to an adapter, or by one."""
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": DEFS})


@pytest.fixture
def recorded(monkeypatch):
    """Every message that goes through a channel: to the adapter, and from it."""
    said: dict[str, list[dict]] = {"toAdapter": [], "fromAdapter": []}
    send, receive = Channel.send, Channel.receive

    def sent(channel, message):
        said["toAdapter"].append(json.loads(json.dumps(message)))
        send(channel, message)

    def received(channel, seconds=None):
        message = receive(channel, seconds)
        said["fromAdapter"].append({name: value for name, value in message.items() if name != "line"})
        return message

    monkeypatch.setattr(Channel, "send", sent)
    monkeypatch.setattr(Channel, "receive", received)
    return said


def wrong(said: dict[str, list[dict]]) -> list[str]:
    """What the schema does not know of a conversation."""
    return [
        f"{message}: {error.message}"
        for name, messages in said.items()
        for message in messages
        for error in side(name).iter_errors(message)
    ]


def kinds(said: dict[str, list[dict]]) -> set[str]:
    """Which kinds of messages were in a conversation."""
    names = [d["$ref"].rpartition("/")[2] for n in ("toAdapter", "fromAdapter") for d in DEFS[n]["oneOf"]]
    return {n for n in names for m in (*said["toAdapter"], *said["fromAdapter"]) if side(n).is_valid(m)}


def test_the_schema_is_one():
    """It is a schema of the draft that it names."""
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", ["examples/adapters/toy.py", "impl/adapters/liar.py"])
def test_what_is_said_with_a_called_system_is_in_the_schema(recorded, staged, path):
    """Requests, holds, deaths, failures and outcomes: every line is one that the schema knows."""
    steps = (
        evolve(START, at=At.ENTER, then=Then.HOLD),
        evolve(START, worker=2, payload="p2"),
        Step(Do.GO_ON, 1),
        evolve(START, key=2, at=At.EXIT, then=Then.FAIL),
        Step(Do.KILL, 1),
        evolve(START, key=3, at=At.EXIT, then=Then.KILL),
    )
    facts = staged(python_adapter(ROOT / path), Order("much", steps), every_statement=True)

    assert ("", []) == (facts.trouble, wrong(recorded))
    assert {"hello", "request", "continue", "about", "held", "outcome"} == kinds(recorded)


def test_what_is_said_with_a_dispatcher_is_in_the_schema(recorded, scratch):
    """So is every line of a dispatcher that is driven step by step, with a death in the middle of an operation."""
    trace = read_trace(ROOT / "tests" / "traces" / "fencing-none-no-stale-token.json")
    adapter = python_adapter(ROOT / "impl" / "adapters" / "sqlite_dispatcher.py")
    subject = remote_subject("control", adapter, adapter.ask(scratch))
    with Rig(subject, Contracts(), in_memory=False) as rig:
        rig.run([*trace.steps, evolve(trace.steps[0], kill_at=2)])

    assert [] == wrong(recorded)
    assert {"hello", "request", "continue", "about", "held", "stepAnswer"} == kinds(recorded)


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "outcome": "perhaps"},
        {"id": 1, "held": "somewhere", "n": 1},
        {"id": 1, "held": "effect-enter"},
        {"id": 1},
        {"outcome": "done"},
        {"id": 0, "version": 2, "style": "call", "system": "x"},
        {"id": 1, "answer": {"kind": "perhaps"}},
    ],
)
def test_what_is_no_message_is_not_in_the_schema(message):
    """The schema knows no answer that the suite refuses."""
    assert not side("fromAdapter").is_valid(message)


def enum(*path: str) -> set[str]:
    """An enumeration of the schema, by its place."""
    found = DEFS
    for name in path:
        found = found[name]
    return set(found["enum"])


def test_the_schemas_words_are_the_codes():
    """Each enumeration of the schema has the words that the code knows, and no other."""
    methods = {n for n in vars(ProcessDispatcher) if not n.startswith("_")}
    points = {*filter(None, At), "apply", "lookup"} - {At.FILE}

    assert {*ASKED, *methods} == enum("request", "properties", "do")
    assert set(Ability) == enum("about", "properties", "abilities", "items")
    assert set(EXCLUDED) == enum("about", "properties", "claims", "items", "properties", "excludes", "items")
    assert set(OUTCOMES) == enum("outcome", "properties", "outcome")
    assert points == enum("held", "properties", "held")
    assert set(Verdict) == enum("continue", "properties", "said", "properties", "verdict")
    assert set(Kind) - {Kind.KILLED} == enum("stepAnswer", "properties", "answer", "properties", "kind")
    assert {"call", "step"} == enum("about", "properties", "style")
    assert [adapters.VERSION] * 2 == [DEFS[name]["properties"]["version"]["const"] for name in ("hello", "about")]
