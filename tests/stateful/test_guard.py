"""What a subject may not do in a lane: it is told as unsupported by this engine, and is nobody's violation.

The guard changes the interpreter, so that each subject runs in a process of its own.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from model.contracts import Contracts, contracts_from
from stateful import order
from stateful.schedules import system
from stateful.schedules.search import Bounds, Search
from stateful.schedules.system import ProgramSystem
from stateful.shard import NamedProgram, Shard
from stateful.workers import run_shards
from tests.stateful.conftest import program_of

ROOT = Path(__file__).parents[2]
CLAIMS = NamedProgram("claim | claim", schedules=5)
UNBOUND = contracts_from({"idempotency": "client"})
RACE = ("submit k1 p1", "claim w1 k1 | claim w2 k1")


def ran(name, *engines, program=CLAIMS, contracts=Contracts()):
    """The tallies of one shard an engine, each in a process of its own."""
    shards = [
        Shard(engine, n, 1, 5, 0, f"tests.stateful.subjects:{name}", "", contracts, ROOT, program=program)
        for n, engine in enumerate(engines or ["interleavings"])
    ]
    return run_shards(shards, 2, time.monotonic() + 60, None, [])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Sleeps", "it sleeps (time.sleep(0))"),
        ("SleepsInSecret", "it sleeps (time.sleep(0))"),
        ("StartsThread", "it starts a thread"),
        ("Forks", "it forks"),
        ("StartsProcess", "it starts a process"),
        ("SharesMutex", "it waits for a lock in memory that another of its processes holds"),
        ("WaitsOnItsLoop", "it waits on its event loop for time or for another thread"),
    ],
)
def test_what_no_schedule_can_order_is_unsupported(name, why):
    """The tally says what the subject does, and accuses it of nothing."""
    (tally,) = ran(name)

    assert (why, {}, "") == (tally.unsupported, tally.broken, tally.failed)


def test_the_other_engines_judge_it():
    """An engine that schedules nothing runs the same subject to its end."""
    walked, interleaved = ran("Sleeps", "walk", "interleavings")

    assert ("", "", 5, {}) == (walked.unsupported, walked.failed, walked.orders, walked.broken)
    assert interleaved.unsupported


def test_awaiting_is_fine():
    """A subject that awaits what takes no time is searched to the end like any other."""
    (tally,) = ran("Awaits", program=NamedProgram("claim | cancel", kills=0, preemptions=1))

    assert ("", "", {}) == (tally.unsupported, tally.failed, tally.broken)
    assert (1, True) == (tally.schedules["exhausted"], tally.schedules["schedules"] > 4)


AWAITS = """
import sys
sys.path.insert(0, sys.argv[1])
from stateful.schedules import guard
guard.install()
from pathlib import Path
from model.contracts import Contracts, contracts_from
from stateful.schedules.rig import ScheduledRig
from stateful.schedules.system import ProgramSystem
from stateful.subject import load_subject
from tests.stateful.conftest import program_of

subject = load_subject("tests.stateful.subjects:Awaits", folder=Path(sys.argv[1]), probe=False)
with ScheduledRig(subject, Contracts()) as rig:
    guard.watch(rig.scheduler)
    system = ProgramSystem(rig, program_of("submit k1 p1", "claim w1 k1 | claim w2 k1"), keep_story=True)
    system.prepare()
    system.begin()
    while options := system.options():
        system.take(options[0])
    print(*(said.did for said in system.story), sep="\\n")
    system.finish(complete=True)
"""


def test_each_step_of_a_loop_is_a_boundary(in_python):
    """Between two steps of an event loop another lane may go on."""
    boundaries = in_python(AWAITS, ROOT).splitlines()

    assert boundaries.count("await of the event loop") >= 2 * 3


def test_a_call_without_end_is_cut():
    """Schedules of a call that never ends are cut at the bound and counted, and judged as if they had not been run."""
    (tally,) = ran("AsksForEver")

    assert (5, 0, 0) == tuple(tally.schedules[name] for name in ("cut", "exhausted", "schedules"))
    assert ("", "", {}) == (tally.unsupported, tally.failed, tally.broken)


def test_what_a_process_keeps_in_memory_is_its_own():
    """A lock or a set in a module or a class keeps no other process out: what it hides between threads is found."""
    (held,) = ran("HoldsMutex", program=NamedProgram("claim | cancel"))
    (remembered,) = ran("RemembersKeys", program=NamedProgram("dispatch | dispatch", kills=0), contracts=UNBOUND)

    assert ("", {}, 1) == (held.unsupported, held.broken, held.schedules["exhausted"])
    assert ["one-effect"] == list(remembered.broken)


def test_what_comes_to_no_boundary_is_a_hang(lanes, monkeypatch):
    """A lane that hands nothing on is ended, and its call is named; the next search begins afresh."""
    monkeypatch.setattr(system, "watched", partial(order.watched, 0.2))
    one = ProgramSystem(lanes("LoopsInClaim"), program_of(*RACE))
    one.prepare()
    Search(one, Bounds()).run()

    assert ("answers", "claim ", True) == (
        one.finding.property_id,
        one.finding.detail[:6],
        "no answer within" in one.finding.detail,
    )
