"""The attempts engine: the real runner does what the rule allows, whatever its sink answers and whatever comes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from functools import cache, partial
from itertools import chain
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from impl.mistakes import MISTAKES
from impl.runner import Ending
from impl.sqlite import SqliteDispatcher
from model.attempts import End, EventKind, Said, Setup
from model.contracts import Contracts, contracts_from
from model.words import Capability, Kind, State
from stateful.attempts import course as course_module
from stateful.attempts.asked import asked_by
from stateful.attempts.choices import Choices
from stateful.attempts.judge import broken
from stateful.attempts.plan import Plan, Planned
from stateful.attempts.reduce import _shorter, reduced_plan
from stateful.attempts.search import every_run, random_runs
from stateful.attempts.system import AttemptSystem
from stateful.campaign import trace_of
from stateful.engines import attempts
from stateful.findings import told_again
from stateful.order import watched
from stateful.schedules.lanes import UnsupportedByEngine
from stateful.shard import NamedScripts, Shard
from stateful.subject import Subject, load_subject
from stateful.trace import SURVIVED, trace_from_json
from stateful.verdict import Tally

ROOT = Path(__file__).parents[2]
CANCEL, INTERRUPT, KILL, STALL = EventKind.CANCEL, EventKind.INTERRUPT, EventKind.KILL, EventKind.STALL
CLAIM = EventKind.CLAIM
SHORT = 6


@cache
def runs_of(choice="", tries=1, events=1, first=None):
    """Every run within a bound under a choice such as ``fencing=none``, and the promises that some of them break."""
    with AttemptSystem(load_subject(), under(choice)) as system:
        runs = tuple(every_run(system, tries, events, first))
        return runs, {finding.property_id for ran in runs for finding in broken(ran, system.setup)}


def under(choice):
    """The contracts with one choice, or the default ones."""
    return contracts_from(dict([choice.split("=")])) if choice else Contracts()


@pytest.fixture
def system():
    """The subject as it is, under the default contracts."""
    with AttemptSystem(load_subject(), Contracts()) as one:
        yield one


# -- the runner does what the rule allows ---------------------------------------------------------------------


ONE_EVENT = {
    "": (1_166, set()),
    "attempt_timeout=thread": (1_206, set()),
    "attempt_timeout=process": (1_164, set()),
    "retry=every-error": (1_188, set()),
    "deadline=per-attempt": (1_178, {"deadline-kept"}),
    "cancellation=forceful": (1_191, {"cancel-honoured"}),
    "idempotency=client": (1_166, set()),
    "idempotency=none": (1_166, set()),
    "fencing=claim-only": (1_211, {"cancel-honoured", "unknown-kept"}),
    "fencing=none": (1_214, {"cancel-honoured", "lease-kept", "unknown-kept"}),
}
"""How many runs one attempt with one event has, and what breaks in them."""
TWO_ANSWERS = {
    "": (140, set()),
    "attempt_timeout=thread": (101, set()),
    "attempt_timeout=process": (141, set()),
    "retry=every-error": (165, {"bounded-attempts"}),
    "deadline=per-attempt": (140, set()),
    "cancellation=forceful": (140, set()),
    "idempotency=client": (140, {"one-effect"}),
    "idempotency=none": (140, {"one-effect"}),
    "fencing=claim-only": (141, set()),
    "fencing=none": (141, set()),
}


@pytest.mark.parametrize("choice", ONE_EVENT)
def test_one_attempt_with_an_event_before_any_turn(choice):
    """Each run is one that the rule allows; a weaker choice breaks what it costs, and nothing else."""
    runs, ids = runs_of(choice)

    assert ONE_EVENT[choice] == (len(runs), ids)


@pytest.mark.parametrize("choice", TWO_ANSWERS)
def test_two_attempts_without_an_event(choice):
    """Every script of two answers, likewise."""
    runs, ids = runs_of(choice, 2, 0)

    assert TWO_ANSWERS[choice] == (len(runs), ids)


def test_two_attempts_with_an_event():
    """Of the scripts that begin with a request that is late, all that one event can make."""
    runs, ids = runs_of("", 2, 1, Said.LATE)

    assert (2_131, set()) == (len(runs), ids)


def test_random_runs(system):
    """Four attempts with up to four events break nothing either, and meet all that there is."""
    runs = list(random_runs(system, 4, 4, 5, 500))

    assert [] == [finding for ran in runs for finding in broken(ran, system.setup)]
    assert set(Said) == {said for ran in runs for said in ran.plan.answers}
    assert set(EventKind) == {event.kind for ran in runs for event in ran.events}
    assert 4 == max(len(ran.told.sends_ms) for ran in runs)


@st.composite
def cases(draw):
    """Limits of any size that fit one another, and a plan with up to three events."""
    attempt_ms, first_ms = draw(st.integers(6, 40)), draw(st.integers(1, 30))
    most_ms, lease_ms = draw(st.integers(first_ms, 90)), draw(st.integers(2, 120))
    setup = Setup(
        attempt_ms=attempt_ms,
        grace_ms=draw(st.integers(1, 12)),
        waits_ms=tuple(min(most_ms, first_ms * 2**n) for n in range(4)),
        deadline_ms=draw(st.integers(1, 200)),
        max_attempts=draw(st.integers(1, 4)),
        lease_ms=lease_ms,
        beat_ms=draw(st.integers(1, lease_ms - 1)),
    )
    events = []
    for at_ms in sorted(draw(st.lists(st.integers(0, 160), max_size=3))):
        kind = draw(st.sampled_from((CANCEL, INTERRUPT, KILL, CLAIM, STALL)))
        until_ms = at_ms + draw(st.integers(1, 100)) if kind is STALL else 0
        events.append(Planned(kind, at_ms, draw(st.integers(1, 4)), until_ms))
    answers = draw(st.lists(st.sampled_from(Said), max_size=6))
    ties = draw(st.lists(st.integers(0, 2), max_size=6))
    return setup, Plan(setup.max_attempts, tuple(answers), tuple(events), tuple(ties), draw(st.integers(0, 2)))


@settings(max_examples=250, deadline=None, derandomize=True, database=None, suppress_health_check=())
@given(cases())
def test_limits_of_any_size(case):
    """Whatever the limits, what comes is allowed by the rule and breaks nothing."""
    setup, plan = case
    with AttemptSystem(load_subject(), Contracts(), setup) as system:
        ran = system.replay(plan)

        assert [] == list(broken(ran, system.setup)), ran


# -- what a run leaves ----------------------------------------------------------------------------------------


def test_no_send_is_beyond_the_durable_budget(system):
    """Deaths, interruptions and another layer that retries share one budget, and each send was counted before."""
    runs = (*runs_of()[0], *runs_of("", 2, 1, Said.LATE)[0], *random_runs(system, 3, 4, 11, 300))
    beyond = [r for r in runs if not len(r.told.sends_ms) <= r.told.attempts <= r.plan.max_attempts]

    assert [] == beyond
    assert any(len(ran.told.ends) > 3 and len(ran.told.sends_ms) > 2 for ran in runs)


def in_flight(runs, said):
    """The runs that were interrupted after their send, at 0 ms, and before its answer."""
    back_ms = {Said.RESET_BEFORE: 2, Said.EDGE: 20, Said.SILENT: 20, Said.LATE: 20, Said.HANG: 20}.get(said, 5)
    sent = [ran for ran in runs if ran.plan.answers == (said,) and ran.told.sends_ms == (0,)]
    return [ran for ran in sent if any(e.kind is INTERRUPT and e.at_ms < back_ms for e in ran.plan.events)]


@pytest.mark.parametrize("said", Said)
def test_an_interrupted_attempt_cleans_up(said):
    """Once in each case, where it can be interrupted and listens; a call that is killed, or a thread, promises none."""
    cleaned = {ran.told.cleaned for ran in in_flight(runs_of()[0], said)}
    killed = {ran.told.cleaned for ran in in_flight(runs_of("attempt_timeout=process")[0], said)}
    threads = {ran.told.cleaned for ran in in_flight(runs_of("attempt_timeout=thread")[0], said)}

    assert ({int(said is not Said.HANG)}, {0}, {0}) == (cleaned, killed, threads)


def test_a_killed_call_acts_no_more():
    """What had not arrived when its process was killed never does; a thread goes on, and acts after its worker's end."""
    effects = {}
    for isolation in ("thread", "process"):
        with AttemptSystem(load_subject(), under(f"attempt_timeout={isolation}")) as one:
            ran = one.replay(Plan(1, (Said.DONE,), (Planned(INTERRUPT, 0, 3),)))
            effects[isolation] = (ran.told.effects, ran.told.ends[0][0])

    assert {"thread": (1, End.INTERRUPTED), "process": (0, End.INTERRUPTED)} == effects


@pytest.mark.parametrize("isolation", ["cooperative", "thread", "process"])
def test_another_worker_is_refused_as_long_as_an_attempt_takes(isolation):
    """An attempt outlasts a lease and keeps it, whoever asks at whichever instant; without a beat it would not."""
    with AttemptSystem(load_subject(), under(f"attempt_timeout={isolation}")) as one:
        plans = [Plan(1, (Said.SILENT,), (Planned(CLAIM, at_ms, 1),)) for at_ms in range(20)]
        claims = [one.replay(plan).told.claims for plan in plans]
        outlasts = one.setup.lease_ms < one.setup.attempt_ms
    kept = [at_ms for ((at_ms, granted),) in claims if not granted]

    assert (True, 20, {0, 2, 7, 14, 20}) == (outlasts, len(kept), set(kept))


@pytest.mark.parametrize("until_ms", [18, 89])
def test_a_worker_that_sleeps_for_a_lease_loses_it(system, until_ms):
    """The event has teeth: another worker is granted the key then, and the attempt ends at once, as the rule has it."""
    ran = system.replay(Plan(1, (Said.SILENT,), (Planned(STALL, 2, 1, until_ms), Planned(CLAIM, until_ms, 1))))

    assert (((until_ms, True),), []) == (ran.told.claims, list(broken(ran, system.setup)))


# -- the same again -------------------------------------------------------------------------------------------


def test_the_same_choices_give_the_same_run(system):
    """Turn by turn: what can come, when, the ties, the story, and what came of it."""

    def watched(plan):
        turns, asked = [], asked_by(plan)

        def event(now_ms, turn, possible):
            turns.append((now_ms, turn, tuple(possible)))
            return asked.event(now_ms, turn, possible)

        return system.run(plan.max_attempts, evolve(asked, event=event), again=plan.again, keep_story=True), turns

    plans = [ran.plan for ran in random_runs(system, 4, 4, 3, 25)]

    assert [watched(plan) for plan in plans] == [watched(plan) for plan in plans]


def test_a_run_is_its_plan(system):
    """What a random run has met, written down and played, gives that very run."""
    runs = list(random_runs(system, 4, 4, 3, 60))

    assert runs == [system.replay(ran.plan) for ran in runs]


SCRIPT = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from model.contracts import Contracts
from stateful.attempts.search import random_runs
from stateful.attempts.system import AttemptSystem
from stateful.subject import load_subject

with AttemptSystem(load_subject(), Contracts()) as system:
    seen = [repr(ran) for ran in random_runs(system, 4, 4, int(sys.argv[2]), 60)]
print(hashlib.sha256("".join(seen).encode()).hexdigest())
"""


def recorded(hash_seed, seed):
    command = [sys.executable, "-c", SCRIPT, str(ROOT), str(seed)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_a_seed_gives_the_same_runs_everywhere():
    """In processes that hash differently too; another seed gives others."""
    assert [1, 2] == [len({recorded("1", 7), recorded(*other)}) for other in (("2", 7), ("1", 8))]


def test_all_ways_are_gone_once():
    """Depth first, each leaf of a tree whose branches differ in length."""

    def leaf(choose):
        first = choose(3)
        return (first, *(choose(2) for _ in range(first)), choose(1))

    choices, leaves = Choices(), []
    while True:
        leaves.append(leaf(choices))
        if not choices.advance():
            break

    seconds = [(2, a, b, 0) for a in (0, 1) for b in (0, 1)]
    assert [(0, 0), (1, 0, 0), (1, 1, 0), *seconds] == leaves


def test_a_run_that_asks_otherwise_is_no_run_of_the_same():
    """A search that is told other questions after the same answers would miss ways without a word."""
    choices = Choices()
    choices(2)
    choices.advance()

    with pytest.raises(AssertionError, match="asks otherwise"):
        choices(3)


# -- mistakes -------------------------------------------------------------------------------------------------


HERE = [pytest.param(one, id=one.id) for one in MISTAKES.values() if one.shown_by == "attempts"]


def first_that_breaks(system, property_id):
    """The first run that breaks the promise, short ones first, and its finding."""
    runs = chain(every_run(system, 1, 1), every_run(system, 2, 0), random_runs(system, 4, 3, 0, 400))
    for ran in runs:
        for finding in broken(ran, system.setup):
            if finding.property_id == property_id:
                return ran.plan, finding.detail
    return None


@pytest.mark.parametrize("one", HERE)
def test_a_mistake_is_caught(one):
    """By the promise that it is about, in a short trace that breaks it again, and without the mistake breaks nothing."""
    subject = load_subject(mistake=one.id)
    with AttemptSystem(subject, Contracts()) as system:
        plan, detail = first_that_breaks(system, one.breaks)
        done = reduced_plan(system, plan, one.breaks, detail)
        shorter = [broken(system.replay(plan), system.setup) for plan in _shorter(done.plan)]
        tally = Tally("attempts")
        tally.found(one.breaks, done.detail, (), after=1, attempts=done.plan)
    written = trace_of(subject, Contracts(), tally.broken[one.breaks])
    trace = trace_from_json(json.loads(json.dumps(written.to_json())))
    verdicts = [told_again(trace)[0].verdict for _ in range(2)]

    assert (written, True) == (trace, done.minimal)
    assert one.breaks not in {finding.property_id for findings in shorter for finding in findings}
    assert ([one.breaks] * 2, SURVIVED) == (verdicts, told_again(evolve(trace, mistake=""))[0].verdict)
    assert done.plan.length <= SHORT, done.plan


def test_a_mistake_is_run_and_written_under_the_choice_that_it_needs():
    """Whoever replays its trace reads under which contracts it broke; a subject without a mistake keeps those it got."""
    asked = contracts_from({"fencing": "none"})
    chosen = load_subject(mistake="M013").chosen(asked)

    assert asked == load_subject().chosen(asked) == load_subject(mistake="M010").chosen(asked)
    assert contracts_from({"fencing": "none", "attempt_timeout": "thread"}) == chosen


def test_there_are_such_mistakes():
    """The parameters above are not empty."""
    assert len(HERE) >= 20


# -- the judge ------------------------------------------------------------------------------------------------


@pytest.fixture
def ran(system):
    """A run that breaks nothing, with a cancellation that came too late."""
    return system.replay(Plan(2, (Said.SILENT, Said.DONE), (Planned(CANCEL, 4, 1),)))


@pytest.mark.parametrize(
    ("changes", "property_id", "says"),
    [
        ({"trouble": "ValueError: no"}, "answers", "ValueError: no"),
        ({"receipts": ("r-1", "r-2")}, "first-receipt", "receipts r-1, r-2 for one operation"),
        ({"cancelled": (Kind.ERROR,)}, "cancel-honoured", "told that there is no effect, and there is one"),
    ],
)
def test_the_judge_finds_what_a_run_says_of_itself(system, ran, changes, property_id, says):
    """What runs and cancellations came back with, besides what they left."""
    (finding,) = broken(evolve(ran, **changes), system.setup)

    assert [] == list(broken(ran, system.setup))
    assert (property_id, True) == (finding.property_id, says in finding.detail), finding


@pytest.mark.parametrize(
    ("changes", "property_id"),
    [
        ({"effects": 0, "state": State.CANCELLED}, "cancel-honoured"),
        ({"sends_ms": (0, 34), "state": State.UNKNOWN}, "cancel-honoured"),
        ({"effects": 2}, "one-effect"),
        ({"sends_ms": (0, 1, 2)}, "bounded-attempts"),
        ({"sends_ms": (0, 91)}, "deadline-kept"),
        ({"sends_ms": (1,)}, "conforms"),
        ({"cleaned": 3}, "conforms"),
        ({"ends": ((End.EFFECT, 5),)}, "conforms"),
        ({"attempts": 2}, "conforms"),
    ],
)
def test_the_judge_finds_what_a_run_left(system, ran, changes, property_id):
    """A named promise where there is one, and else that the rule does not allow it."""
    found = [f.property_id for f in broken(evolve(ran, told=evolve(ran.told, **changes)), system.setup)]

    assert (property_id, "conforms") == (found[0], found[-1])


# -- subjects that break the harness --------------------------------------------------------------------------


class Runner:
    """Does nothing, and does it well."""

    async def run(self, key):
        return Ending(Kind.REFUSED)

    async def cancel(self, key):
        return Ending(Kind.REFUSED)


class Hasty(Runner):
    """It raises."""

    async def run(self, key):
        raise ValueError("no run today")


class Waiting(Runner):
    """It waits for what never comes."""

    async def run(self, key):
        await asyncio.get_running_loop().create_future()


class Deaf(Runner):
    """It cannot be stopped, and never ends."""

    async def run(self, key):
        while True:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue


class Spinning(Runner):
    """It never ends, and no time passes."""

    async def run(self, key):
        while True:  # noqa: ASYNC110 - the very mistake
            await asyncio.sleep(0)


class Leaving(Runner):
    """It cancels itself."""

    async def run(self, key):
        raise asyncio.CancelledError


class Exiting(Runner):
    """It ends the process."""

    async def run(self, key):
        raise SystemExit(3)


class Blocking(Runner):
    """It never lets go."""

    async def run(self, key):
        while True:
            pass


class Mute(Runner):
    """It answers nothing."""

    async def run(self, key):
        await asyncio.sleep(0)


class Odd(Runner):
    """It answers what is no kind of ending."""

    ending = Ending("magic")

    async def run(self, key):
        return self.ending


class Unreadable(Odd):
    """Its receipt is no text."""

    ending = Ending(Kind.OK, receipt=["r-1"])


class Plain(Runner):
    """It is no coroutine."""

    def run(self, key):
        return Ending(Kind.OK)


class BadAtCancelling(Runner):
    """It answers something else to whoever cancels."""

    async def run(self, key):
        await asyncio.sleep(0.01)
        return Ending(Kind.REFUSED)

    async def cancel(self, key):
        return {}


def made(runner):
    """A subject with that runner."""

    class Made(SqliteDispatcher):
        def runner(self, *_args, **_settings):
            return runner() if runner else runner

    return Subject("tests.stateful.test_attempts:Made", "", Made, frozenset(Capability))


def swept(subject, scripts):
    """What a shard comes to."""
    tally = Tally("attempts")
    attempts.run(subject, Shard("attempts", 0, 1, 0, 0, subject.name, "", Contracts(), ROOT, scripts=scripts), tally)
    return tally


@pytest.mark.parametrize(
    ("runner", "says"),
    [
        (Hasty, "ValueError: no run today"),
        (Waiting, "RuntimeError: everybody waits at 0 ms, and no timer is set: this would never end"),
        (Deaf, "TooManyTurnsError: it has not ended after 100,000 turns"),
        (Spinning, "TooManyTurnsError: it has not ended after 100,000 turns, 0 ms"),
        (Leaving, "RuntimeError: the run ended as if its task was cancelled, and nobody has cancelled it"),
        (Exiting, "SystemExit: 3"),
        (Mute, "TypeError: run came back with None, not with an Ending"),
        (Odd, "TypeError: run came back with Ending(kind='magic'"),
        (Unreadable, "receipt=['r-1'], sent=0), not with an Ending"),
        (Plain, "came back with a Plain that has no async run(key)"),
        (BadAtCancelling, "TypeError: cancel came back with {}, not with an Ending"),
        (None, "came back with a NoneType that has no async run(key)"),
    ],
)
def test_a_runner_that_breaks_is_a_finding(runner, says):
    """What it raises, that it never ends, and what it comes back with: a promise that broke, and no traceback."""
    found = swept(made(runner), NamedScripts(1, 1)).broken["answers"]

    assert says in found.detail
    assert found.minimal


def test_a_runner_that_blocks_is_stopped(monkeypatch):
    """Within one turn no virtual time ends it: an alarm does, and it is not run again to make its trace shorter."""
    monkeypatch.setattr(course_module, "watched", partial(watched, 0.1))
    tally = swept(made(Blocking), NamedScripts(1, 1))

    assert (1, "no answer within 10 s") == (tally.orders, tally.broken["answers"].detail)


def test_a_subject_without_a_runner_is_unsupported():
    """There is nothing to run, and the reason says so."""
    subject = load_subject("examples.toy_dispatcher:ToyDispatcher", folder=ROOT, probe=False)
    with pytest.raises(UnsupportedByEngine, match="it has no `runner`: nothing of it attempts, waits or"):
        AttemptSystem(subject, Contracts())


def test_a_shard_counts_what_it_ran():
    """Runs, turns, sends and events; the same each time."""
    tallies = [swept(load_subject(), NamedScripts(1, 1, "429")) for _ in range(2)]

    assert tallies[0] == tallies[1]
    assert {"runs", "turns", "sends", "cancel", "interrupt", "kill", "claim", "stall"} == set(tallies[0].attempts)
    assert tallies[0].orders == tallies[0].attempts["runs"] > 40


def test_a_subject_that_cannot_be_opened_leaves_no_folder(monkeypatch, tmp_path):
    """What was made for it goes, whatever it raises."""
    monkeypatch.setattr("stateful.medium.scratch", tmp_path)
    with pytest.raises(OSError, match="no disk today"):
        AttemptSystem(load_subject("tests.stateful.subjects:RaisesWhenOpened"), Contracts())

    assert [] == list(tmp_path.iterdir())
