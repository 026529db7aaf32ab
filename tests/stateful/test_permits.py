"""Permits in the engines: who is run with a limit, what is seen then, and what a trace with one says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from model.contracts import Contracts, Limits
from model.words import Capability
from stateful.campaign import Budget, plan
from stateful.engines.interleavings import _standard
from stateful.engines.walk import walk
from stateful.findings import told_again
from stateful.order import Rig
from stateful.schedules.rig import ScheduledRig
from stateful.subject import Subject, load_subject
from stateful.trace import SURVIVED, Trace, TraceError, read_trace
from stateful.verdict import Tally

ROOT = Path(__file__).parents[2]
NAME = "impl.sqlite:SqliteDispatcher"
ORDER = ("submit k1 p1", "submit k2 p1", "claim w1 k1", "claim w2 k2", "cancel k1", "cancel k2")
STORY = """\
SURVIVED  Every promise survived this order.
  impl.sqlite:SqliteDispatcher, contracts default, 1 permit; 6 steps
    1  submit k1 p1  ok                        k1: intent pending for p1, deadline 600
    2  submit k2 p1  ok                        k2: intent pending for p1, deadline 600
    3  claim w1 k1   ok 1                      k1: lease 1 of w1 until 100, permit taken
    4  claim w2 k2   refused (no permit left)
    5  cancel k1     ok                        k1: pending -> cancelled, no lease, permit back
    6  cancel k2     ok                        k2: pending -> cancelled"""


@pytest.fixture
def trace(steps):
    """Two claims for one permit."""
    return Trace(NAME, Contracts(), steps(*ORDER), SURVIVED, permits=1)


@pytest.fixture
def limited():
    """A rig with one permit for two keys."""
    with Rig(load_subject(), Contracts(), Limits(permits=1)) as rig:
        yield rig


@pytest.fixture
def waves():
    """The plan of a campaign for a subject."""

    def planned(subject, seconds=60):
        return plan(subject, Contracts(), Budget(seconds), folder=ROOT)

    return planned


def without(*missing):
    """The SQLite dispatcher as if it had not declared some of its parts."""
    whole = load_subject()
    return Subject(whole.name, "", whole.make, whole.capabilities - set(missing))


# -- who is limited -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [Capability.PERMITS, Capability.LEASES])
def test_who_has_no_part_for_it_is_not_limited(missing, waves):
    """Without permits or leases a subject is run without a limit, whatever is asked for, and has no shard for it."""
    subject = without(missing)
    asked = subject.limited(Limits(permits=1, lease_ms=7))
    shards = {shard.permits for wave in waves(subject) for shard in wave}

    assert Limits(lease_ms=7) == asked
    assert {None} == shards


def test_a_mistake_brings_its_limit():
    """A subject is run with the permits that its mistake takes to show, unless other limits are asked for."""
    subject = load_subject(mistake="M029")

    assert (1, 3) == (subject.limited(None).permits, subject.limited(Limits(permits=3)).permits)
    assert None is load_subject(mistake="M002").limited(None).permits


@pytest.mark.parametrize("seconds", [1, 9, 60])
def test_every_wave_has_orders_with_one_permit(waves, seconds):
    """Each wave walks and schedules with one permit too, and every third has its machine and kills so."""
    planned = waves(load_subject(), seconds)
    engines = [sorted(shard.engine for shard in wave if shard.permits == 1) for wave in planned]
    whole = ["interleavings", "kills", "kills", "machine", "walk"]

    assert [whole if n % 3 == 2 else ["interleavings", "walk"] for n in range(len(planned))] == engines
    assert all(len({shard.name for shard in wave}) == len(wave) for wave in planned)


def test_the_smallest_campaign_sees_a_refusal(waves, limited):
    """The walk of the smallest budget is refused for want of a permit, and finds nothing."""
    (shard,) = (s for s in waves(load_subject(), 1)[0] if s.permits == 1 and s.engine == "walk")
    tally = Tally("walk")
    walk(limited, shard.seed, shard.size, tally)

    assert {} == tally.broken
    assert limited.judge.witnesses["permit-refusal"] > 10


def test_schedules_with_a_limit_are_those_of_two_keys():
    """On one key nobody waits for a permit: what is scheduled has two, and somebody who claims one."""
    with ScheduledRig(load_subject(), Contracts(), Limits(permits=1)) as rig:
        every, parts = list(_standard(rig, -1)), [list(_standard(rig, part)) for part in range(10)]

    assert every == [program for part in parts for program in part]
    assert all({a.key for a in [*(s.action for s in p.setup), *sum(p.lanes, ())]} >= {0, 1} for p in every)
    assert all(any(a.label.startswith("claim") for a in sum(p.lanes, ())) for p in every)


# -- what is seen ---------------------------------------------------------------------------------------------


def test_a_limit_of_one_ends_every_intent(limited, steps):
    """Though both keys are in doubt and compete for one permit, both are settled at rest."""
    lead = ("submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 silent", "advance k1 lease")
    more = ("submit k2 p1", "approve k2 p1", "claim w2 k2", "stall w2 k2", "kill w1", "kill w2")
    ran = limited.run(steps(*lead, *more))

    assert None is ran.finding
    assert ["completed"] * 2 == [s.intent.state for s in limited.judge.stores.slots]
    assert [(None, False)] * 2 == [(s.lease, s.permit) for s in limited.judge.stores.slots]


def test_nobody_sweeps_before_a_takeover(limited, steps):
    """At rest a lease that has run out is taken over as it is: time alone has to bring its permit back."""
    ran = limited.run(steps("submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 lost"))
    rest = [t.step.action.label for t in ran.told[ran.own :]]

    assert ["advance k1 lease", "claim w1 k1", "reconcile w1 k1"] == rest[:3]
    assert None is ran.finding


def test_a_permit_that_is_not_there_is_missed(limited, steps):
    """The oracle reads permits from the file: whoever takes none, or keeps one, differs from the model."""
    ran = limited.run(steps("submit k1 p1"))
    limited.start()
    for step in steps("submit k1 p1", "claim w1 k1"):
        limited.do(step)
    ledger = limited.bench.processes[0].dispatcher.ledger
    ledger._execute("DELETE FROM permits")
    limited.do(*steps("advance tick"))

    assert None is ran.finding
    assert "k1.permit expected True, read False" in limited.judge.divergence.detail


# -- a trace with a limit -------------------------------------------------------------------------------------


def test_it_is_told_with_its_limit(trace):
    """The limit stands with the contracts, and who takes a permit and gives it back is told."""
    assert STORY == told_again(trace)[0].text()


def test_it_comes_back_from_its_file(trace, tmp_path):
    """A trace carries its limit, in the first version that knows it."""
    trace.write(tmp_path / "trace.json")

    assert (trace, 5) == (
        read_trace(tmp_path / "trace.json"),
        json.loads((tmp_path / "trace.json").read_text())["version"],
    )


def test_only_a_limit_needs_the_newer_version(trace):
    """Without a limit the same trace is of version 1, and has no field for it."""
    plain = evolve(trace, permits=None).to_json()

    assert (1, {"permits"}) == (plain["version"], set(trace.to_json()) - set(plain))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"version": 4, "attempts": {}}, 'a trace of version 4 has no "permits"; its version is 5'),
        ({"version": 1}, 'a trace of version 1 has no "permits"; its version is 5'),
        ({"permits": 0}, '"permits" is 0; it is a number from 1 to 1,000'),
        ({"permits": True}, '"permits" is True; it is a number from 1 to 1,000'),
        ({"permits": None}, '"permits" is None; it is a number from 1 to 1,000'),
        ({"steps": [], "attempts": {}}, "nor permits; take them out"),
    ],
)
def test_what_is_wrong_is_said(trace, tmp_path, changes, says):
    """A limit that is none, or that the version does not know, is refused with the reason."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace.to_json() | changes))

    with pytest.raises(TraceError) as caught:
        read_trace(path)

    assert says in str(caught.value)
