"""Adapters that break the protocol: told with the line and the remedy, within seconds, and nothing of them is left."""

from __future__ import annotations

import re

import pytest
from attrs import evolve

from stateful.foreign import channel, stage
from stateful.foreign.adapter import Adapter
from stateful.foreign.order import At, Do, Order, Step, Then
from tests.foreign.bad import ANSWERING, BAD

START = Step(Do.START, 1, 1, "p1")
ONCE = Order("once", (START,))


@pytest.mark.parametrize("name", BAD)
def test_a_bad_adapter_is_told(tiny, examined, monkeypatch, name):
    """Whatever it does ends the examination in trouble that names the line, why it is wrong, and what is right."""
    monkeypatch.setattr(channel, "ENDING_SECONDS", 1.0)
    bad = BAD[name]
    found = examined(tiny(bad.body, patience=bad.patience))

    assert (1, True) == (len(found.troubles), bad.says in found.troubles[0]), found.troubles


def test_an_endless_loop_is_told(tiny, examined, monkeypatch):
    """A system that sends without end is told, whatever its patience."""
    monkeypatch.setattr(stage, "HOLDS_MAX", 100)
    found = examined(tiny(ANSWERING + "while True: enter(r)"))

    assert (
        "line 102: it has been held 100 times during one request; see whether the system sends in an endless loop",
    ) == found.troubles


@pytest.mark.parametrize("held", [False, True])
def test_noise_is_no_silence(tiny, staged, held):
    """Who says something wrong is told, also where it might have waited for another that is held."""
    first = START if not held else evolve(START, at=At.ENTER, then=Then.HOLD)
    body = """
hello(abilities=["two-processes"])
r = hear()
if os.path.exists("begun"): write("hm\\n")
open("begun", "w").close()
enter(r); leave(r); say(id=1, outcome="done"); hear()
"""
    facts = staged(tiny(body), Order("two", (first, evolve(START, worker=2))))

    assert (
        "line 2 of its standard output is noise, no JSON object: 'hm'; print to the standard error" == facts.trouble
    )


@pytest.mark.parametrize("what", ["nth='x'", "sql=3", "sql=None", "nth=[]"])
def test_a_statement_that_is_none_is_told(tiny, staged, what):
    """Whoever stands before a statement says which."""
    body = ANSWERING + f"say(id=1, held='statement', n=1, {what}); hear()"
    facts = staged(tiny(body), ONCE, every_statement=True)

    assert 'line 2: it is held at a statement with "sql"' in facts.trouble
    assert "they are its text and which one with this text it is" in facts.trouble


def test_what_cannot_be_started_is_told(tmp_path, examined):
    """A file that is not executable, or none, is told as such."""
    path = tmp_path / "plain"
    path.write_text("no program")
    found = [examined(Adapter("it", (str(tmp_path / name),))).troubles for name in ("plain", "nowhere")]

    remedy = "check the command, and that the file is executable"
    assert [
        (f"'{path}' cannot be started: Permission denied; {remedy}",),
        (f"'{tmp_path / 'nowhere'}' cannot be started: No such file or directory; {remedy}",),
    ] == found


LEAVERS = {
    "in its group": "subprocess.Popen(['sleep', '600'])",
    "in a group of its own": "subprocess.Popen(['sleep', '600'], process_group=0)",
    "in a session of its own": "subprocess.Popen(['sleep', '600'], start_new_session=True)",
    "a daemon": "subprocess.run(['setsid', '-f', 'sleep', '600'])",
    "a daemon's daemon": "subprocess.Popen(['setsid', 'sh', '-c', 'setsid -f sleep 600; sleep 600'])",
    "deaf": "subprocess.Popen(['sh', '-c', 'trap \"\" TERM HUP; exec sleep 600'], start_new_session=True)",
    "without an environment": "subprocess.Popen(['sleep', '600'], env={})",
}


@pytest.mark.parametrize("where", LEAVERS)
def test_what_outlives_its_parent_is_ended_and_told(tiny, staged, where):
    """A process that a worker started ends with it; it is named if it had left the worker's group."""
    body = (
        "hello()\n"
        + LEAVERS[where]
        + """
serve(send)
"""
    )
    facts = staged(tiny(body), Order("killed", (evolve(START, at=At.EXIT, then=Then.KILL),)))
    named = all(re.fullmatch(r"\d+ \(\w+\)", one) for one in facts.left_behind)
    leaves = where not in {"in its group", "without an environment"}
    in_time = not where.startswith("a daemon")  # one may be killed with the group before it has left it

    assert ("", True) == (facts.trouble, named)
    assert not in_time or leaves == bool(facts.left_behind)


def test_trouble_late_loses_nothing(tiny, examined, tmp_path):
    """An adapter that misbehaves once, late: what it broke before is violated, and the trouble is told as well."""
    body = """
count = len(os.listdir("starts")); open(f"starts/{count}", "w").close()
if count == 12: write("I am tired\\n")
hello(claims=CLAIMS[:1])
serve(send)
"""
    (tmp_path / "starts").mkdir()
    found = examined(tiny(body))
    (row,) = [r for r in found.rows if r.claimed]

    assert ("violated", 1, True) == (found.status, len(found.troubles), "'I am tired'" in found.troubles[0])
    assert ("violated", "k1 was sent 3 times: by w1, by w9, by w9") == (row.status, row.violation.detail)
