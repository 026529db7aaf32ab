"""Our own dispatcher through the protocol, as a control: driven step by step, it is what it is in process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from attrs import evolve

from model.actions import Alphabet, Step
from model.contracts import Contracts
from stateful.boundaries import Gate
from stateful.engines.walk import walk
from stateful.foreign.adapter import Adapter
from stateful.foreign.dispatcher import load_remote, remote_subject
from stateful.order import Rig
from stateful.subject import SubjectError, load_subject
from stateful.trace import read_trace
from stateful.verdict import Tally

ROOT = Path(__file__).parents[2]
CONTROL = ROOT / "impl" / "adapters" / "sqlite_dispatcher.py"
BY_LABEL = Alphabet(2, 2).by_label
AUTHORISED = ("submit k1 p1", "approve k1 p1", "claim w1 k1")
NEVER = 999
"""No operation has so many boundaries: its process dies right after it."""


@pytest.fixture
def control(scratch):
    """The control as a subject, with a mistake or without; the paths of our packages and nothing else."""

    def make(mistake=""):
        command = (sys.executable, str(CONTROL), *filter(None, [mistake]))
        adapter = Adapter("control", command, ROOT)
        return remote_subject("control", adapter, adapter.ask(scratch))

    return make


def told(rig):
    """What an order came to, step by step, and where processes died."""
    return [(one.step.label, one.outcome, one.place) for one in rig.told]


@pytest.mark.parametrize(
    "name", ["fencing-none-no-stale-token", "idempotency-none-progress", "retry-every-error-bounded-attempts"]
)
def test_a_trace_comes_out_the_same(control, name):
    """A stored trace breaks the same promise, with the same answer to each of its steps."""
    trace = read_trace(ROOT / "tests" / "traces" / f"{name}.json")
    found = []
    for subject in (load_subject(), control()):
        with Rig(subject, trace.contracts, in_memory=False, workers=trace.workers, keys=trace.keys) as rig:
            found.append((rig.run(trace.steps).finding, told(rig)))

    assert found[0] == found[1]
    assert trace.expect == found[1][0].property_id


def test_a_walk_comes_out_the_same(control):
    """A long random order, deaths in the middle of operations included, is answered the same step by step."""
    found = []
    for subject in (load_subject(), control()):
        with Rig(subject, Contracts(), in_memory=False) as rig:
            tally = Tally("walk")
            walk(rig, 1, 1, tally)
            found.append((tally.broken, told(rig)))

    assert found[0] == found[1]
    assert ({}, True) == (found[1][0], len(found[1][1]) > 40)


def test_a_mistake_of_the_adapters_is_violated(control):
    """A mistake that is seeded into the program on the other side is found by the promise that it breaks."""
    with Rig(control("M036"), Contracts(), in_memory=False) as rig:
        finding = rig.run([Step(BY_LABEL["submit k1 p1"]), Step(BY_LABEL["claim w1 k1"])]).finding

    assert ("intent-kept", "claim w1 k1: the intent of k1 is gone") == (finding.property_id, finding.detail)


def test_a_process_can_die_at_the_same_places(control, monkeypatch):
    """Each operation has as many boundaries as in process, before the same kinds of statements on the same stores."""
    seen, reach = [], Gate.reach

    def reached(gate, where, what):
        if gate.die_at:
            seen[-1].append((where, what.split()[0]))
        reach(gate, where, what)

    monkeypatch.setattr(Gate, "reach", reached)
    steps = [Step(BY_LABEL[label], NEVER if label == "submit k1 p1" else 0) for label in AUTHORISED]
    for subject in (load_subject(), control()):
        seen.append([])
        with Rig(subject, Contracts(), in_memory=False) as rig:
            assert rig.run([*steps, Step(BY_LABEL["dispatch w1 k1 done"], NEVER)]).finding is None

    assert seen[0] == seen[1]
    assert len(seen[0]) > 10


def test_a_capability_that_is_none_is_told(control):
    """What an adapter declares is held against what there is."""
    subject = control()
    hello = evolve(subject.make.adapter.hello, capabilities=frozenset({"flying"}))
    with pytest.raises(SubjectError, match="'flying' is not a valid Capability; the capabilities are ledger"):
        remote_subject("x", subject.make.adapter, hello)


def test_a_called_system_is_no_subject():
    """A system that is driven by calls is not walked, and the user reads what to do with it."""
    name = str(ROOT / "examples" / "adapters" / "toy.py")
    with pytest.raises(
        SubjectError, match="is driven by calls, and not step by step; examine it with `survives check"
    ):
        load_remote(name)
