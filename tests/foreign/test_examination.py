"""An examination: planted systems are found out, honest ones hold, and what was not found out is said to be so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from attrs import evolve

from stateful.foreign import examine
from stateful.foreign.adapter import Adapter, python_adapter
from stateful.foreign.examine import Examination, Examined
from stateful.foreign.judges import judged
from stateful.foreign.order import At, Do, Order, Step, Then
from stateful.foreign.stage import Stage
from stateful.verdict import Status

ROOT = Path(__file__).parents[2]
START = Step(Do.START, 1, 1, "p1")
TWO_STATEMENTS = '''
import sqlite3, threading
from survives_adapter import Claim, InDoubt, System, serve

class Two(System):
    """Whoever dies between its two statements has lost its call, and it says that it is done."""

    claims = [Claim("true-completion", "Done is sent.")]
    one_process = True

    def open(self):
        self.connect().execute("CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, begun INTEGER)")

    def connect(self):
        return sqlite3.connect(self.folder / "two.sqlite3", isolation_level=None)

    def noted(self, key):
        db = self.connect()
        self.is_new = db.execute("INSERT OR IGNORE INTO calls VALUES (?, 0)", (key,)).rowcount
        self.begun = db.execute("UPDATE calls SET begun = begun + 1 WHERE key = ? RETURNING begun", (key,)).fetchone()[0]

    def start(self, key, payload):
        NOTED
        if self.is_new:
            return self.effect(key, payload)
        if self.begun == 1:
            return "done"
        raise InDoubt("it was begun")

serve(Two)
'''
IN_A_THREAD = "t = threading.Thread(target=self.noted, args=(key,)); t.start(); t.join()"


def ends(found: Examined) -> dict[str, set[str]]:
    """Which claims came to which end, but for those that nobody made."""
    return {
        status: {r.claim_id for r in found.rows if str(r.status) == status}
        for status, number in found.totals().items()
        if number and status != "unclaimed"
    }


def row_of(found: Examined, claim_id: str) -> examine.Row:
    """What became of a claim."""
    return next(r for r in found.rows if r.claim_id == claim_id)


def test_the_liar_is_exposed(examined, only, monkeypatch):
    """The planted liar is violated in what it breaks, each in one or two steps, and in nothing that it keeps."""
    monkeypatch.setattr(examine, "REPLAYS", 1)
    only(
        "once", "killed before the send", "killed after the send", "another payload.*", "two at once, the first is.*"
    )
    found = examined(python_adapter(ROOT / "impl" / "adapters" / "liar.py"), workers=2)

    assert {
        "holds": {"effect-kept", "progress"},
        "violated": {
            "at-most-once",
            "in-doubt",
            "first-result",
            "true-completion",
            "changed-payload",
            "one-at-a-time",
        },
    } == ends(found)
    assert (Status.VIOLATED, ()) == (found.status, found.troubles)
    assert {True} == {r.violation.minimal and len(r.violation.order.steps) <= 2 for r in found.rows if r.violation}


def test_the_toy_holds_what_it_claims(examined):
    """The example keeps each of its promises, also before each of its statements."""
    found = examined(python_adapter(ROOT / "examples" / "adapters" / "toy.py"), workers=2, sweep=True)

    assert (Status.SURVIVED, {"holds"}, 3) == (found.status, set(ends(found)), found.statements)
    assert 7 == found.totals()["holds"]


def test_who_marks_before_the_effect_is_found(examined, only, quick):
    """A system that says done before it has sent is violated in what it says of its effects, and sends once."""
    only("once", "killed (before|after) the send")
    found = examined(quick("marks before", "at-most-once", "effect-kept", "true-completion"))
    steps = [line.label for line in row_of(found, "true-completion").violation.lines if not line.is_rest]

    assert {"holds": {"at-most-once"}, "violated": {"effect-kept", "true-completion"}} == ends(found)
    assert ["w1: start k1 p1, killed before the send"] == steps


def test_what_it_has_no_part_for_is_unsupported(examined, only, quick):
    """A claim that needs what the adapter lacks is neither held nor broken, and counted as what it is."""
    only("once")
    found = examined(quick("honest", "at-most-once", "approval-needed", "late-owner"))

    assert {"holds": {"at-most-once"}, "unsupported": {"approval-needed", "late-owner"}} == ends(found)
    assert "the adapter has no decide" == row_of(found, "approval-needed").why
    assert "the adapter has no lease, two-processes" == row_of(found, "late-owner").why
    assert {
        "holds": 1,
        "violated": 0,
        "unsupported": 2,
        "unclaimed": 14,
        "unknown": 0,
        "vacuous": 0,
    } == found.totals()
    assert Status.SURVIVED is found.status


def test_what_nothing_put_at_stake_is_vacuous(examined, only, quick):
    """A claim that no order put to the test is not held; a system with nothing but such claims has not survived."""
    only("once")
    found = examined(quick("honest", "one-at-a-time", abilities=("two-processes",)))

    assert {"vacuous": {"one-at-a-time"}} == ends(found)
    assert ("no order put it at stake", Status.VACUOUS) == (row_of(found, "one-at-a-time").why, found.status)


def test_who_never_sends_is_unknown(examined, quick):
    """Nothing is said of a system whose call does not come to its effect, but why not, and what to do."""
    found = examined(quick("sends never", "at-most-once"))
    why = (
        "a call never came to its effect (w1: start k1 p1: pending; w1: start k1 p1: pending; w9: start k1 p1: pending; "
        "w9: start k1 p1: pending; w9: start k1 p1: pending; w9: start k1 p1: pending); "
        "it is to be sent through self.effect"
    )

    assert ({"unknown": {"at-most-once"}}, Status.UNKNOWN) == (ends(found), found.status)
    assert (why, (why,)) == (row_of(found, "at-most-once").why, found.troubles)


def test_what_does_not_happen_again_is_unknown(examined, only, quick):
    """What was seen once and never again is neither a violation nor survival."""
    only("killed after the send")
    found = examined(quick("once more", "at-most-once"))
    row = row_of(found, "at-most-once")

    assert (Status.UNKNOWN, "seen, and then 0 times of 5") == (row.status, row.why)
    assert (Status.UNKNOWN, "k1 was sent 2 times: by w1, by w9") == (found.status, row.violation.detail)


def test_the_result_is_the_same_for_any_number_of_workers(examined, only, quick):
    """How many orders run at a time changes nothing of what is found, to the last line of each story."""
    claims = ("at-most-once", "in-doubt", "true-completion")
    only("once", "repeated", "killed .*")
    one, two = (examined(quick("sends again", *claims), workers=n) for n in (1, 2))

    assert {"holds": {"true-completion"}, "violated": {"at-most-once", "in-doubt"}} == ends(one)
    assert one == two


@pytest.mark.parametrize(
    ("claim", "labels"),
    [
        ("true-completion", ["w3: start k2 p1, killed before the send"]),
        ("changed-payload:refused", ["w2: start k1 p2", "w2: start k1 p1"]),
    ],
)
def test_a_reduced_order_is_one_minimal(quick, staged, scratch, claim, labels):
    """Of a long order a part is left that breaks the claim, and without any of its steps it does not."""
    adapter = quick("marks before", claim)
    killed = evolve(START, worker=3, key=2, at=At.ENTER, then=Then.KILL)
    again, other = evolve(START, worker=2), evolve(START, worker=2, payload="p2")
    order = Order("long", (START, again, killed, Step(Do.CLOSE, 2), other, again))
    facts = staged(adapter, order)
    (claimed,) = adapter.hello.claims
    violation = Examination(adapter, scratch, workers=1)._reduced(facts, claimed, adapter.hello)
    steps = violation.order.steps
    without = [order.with_steps(steps[:n] + steps[n + 1 :]) for n in range(len(steps))]

    assert (True, 5, labels) == (violation.minimal, violation.again, [s.label for s in steps])
    assert {False} == {bool(judged(staged(adapter, o), claimed, adapter.hello)) for o in without}


@pytest.mark.parametrize("noted", ["self.noted(key)", IN_A_THREAD], ids=["main thread", "worker thread"])
def test_a_death_before_every_statement(monkeypatch, examined, only, tmp_path, noted):
    """What breaks only between two statements is found by the sweep, whichever thread runs them, and by nothing else."""
    path = tmp_path / "two.py"
    path.write_text(TWO_STATEMENTS.replace("NOTED", noted))
    adapter = Adapter("two.py", (sys.executable, str(path)), tmp_path)
    monkeypatch.setattr(examine, "REPLAYS", 1)
    only("once", "killed (before|after) the send", "killed before statement.*")
    swept, unswept = (examined(adapter, sweep=sweep) for sweep in (True, False))
    row = row_of(swept, "true-completion")

    assert (2, 0) == (swept.statements, unswept.statements)
    assert ("violated", "killed before statement 2 of start") == (str(row.status), row.violation.order.name)
    assert [
        "w1: start k1 p1, killed before statement 2 'UPDATE calls SET begun = begun + ? WHERE key = ? RETURNING b'"
    ] == [step.label for step in row.violation.order.steps]
    assert 2 == swept.orders - unswept.orders
    assert {"holds": {"true-completion"}} == ends(unswept)


def test_whoever_interrupts_waits_for_no_answer(monkeypatch, tiny, only, scratch):
    """An interruption ends the orders that are under way, whatever they wait for, and no other is begun."""
    body = """
about = hear()
say(id=0, version=1, style="call", system="slow", claims=CLAIMS[:1])
starts = []
def start(request):
    starts.append(request)
    if len(starts) == 3: hear()
    return send(request)
serve(start)
"""
    ended, run = {}, Stage.run

    def noted(stage, order):
        facts = run(stage, order)
        ended[order.name] = facts.trouble
        return facts

    def interrupt(name, done, planned):
        raise KeyboardInterrupt

    only("once", "repeated", "killed .*")
    monkeypatch.setattr(Stage, "run", noted)
    examined = Examination(tiny(body, patience=10), scratch, workers=2, sweep=False, report=interrupt).run()

    assert len(ended) < 6
    assert "interrupted after" in examined.troubles[-1]
    assert ("unknown", False) == (str(examined.status), "holds" in {str(row.status) for row in examined.rows})
    assert not any("has not answered" in trouble for trouble in ended.values())


def test_who_says_done_without_a_send_is_violated(examined, quick):
    """A call that never comes to its effect and is told done breaks the claim that done means sent."""
    found = examined(quick("says done and never sends", "at-most-once", "true-completion"))

    assert {"violated": {"true-completion"}, "unknown": {"at-most-once"}} == ends(found)
