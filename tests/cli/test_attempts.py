"""``survives attempts``: what was run and what came of it, the finding that it keeps, and subjects without a runner."""

from __future__ import annotations

import json

import pytest

from stateful.trace import read_trace

TOY = "examples.toy_dispatcher:ToyDispatcher"
FEW = ("attempts", "--answers", 0, "--random", 60)


def test_what_was_run_is_told(survives):
    """How much, within which bound, and that nothing broke; status 0."""
    said = survives("attempts", "--answers", 1, "--random", 50)
    lines = said.out.splitlines()

    assert (0, "") == (said.status, said.err)
    assert "impl.sqlite:SqliteDispatcher, contracts default" == lines[0]
    assert lines[1].startswith("SURVIVED 10 of 10 promises that attempts can break in 1,271 runs, 1,2")
    assert lines[2].startswith(
        "  exhausted: every script of up to 1 answer, with at most 1 event before any of their"
    )
    assert "  50 random runs of up to 4 attempts with up to 4 events" == lines[3]
    assert " turns; from outside: cancel " in lines[4]
    assert ", interrupt " in lines[4]


def test_the_document_is_the_same_each_time(survives):
    """For machines: the bound and what was counted; two runs differ in ``timing`` alone."""
    first, second = (
        survives(*FEW, "--json", "--contracts", "attempt-timeout=thread", "--seed", 3).json for _ in range(2)
    )
    first.pop("timing"), second.pop("timing")

    assert ("survives-attempts", 1, 3, {}) == (first["format"], first["version"], first["seed"], first["violated"])
    assert (0, 1, 60, False) == tuple(first[name] for name in ("answers", "events", "random_runs", "exhausted"))
    assert {"runs": 60}.items() <= first["totals"].items()
    assert first == second


def test_a_finding_is_kept_and_replays(survives, tmp_path):
    """The story, the folder, and the command that replays it, with the same result each time; status 1."""
    said = survives(*FEW, "--mistake", "M301", "--out", "kept")
    files = [line.split("survives replay ")[1] for line in said.out.splitlines() if "replay:" in line]
    (file,) = [name for name in files if name.startswith("kept/unknown-kept-")]
    again = survives("replay", file, "--times", 3)

    assert (1, 1) == (said.status, again.status)
    assert "  => the intent is failed, and it had its effect" in said.out.splitlines()
    told = f"VIOLATED {len(files)} of 10 promises that attempts can break in 60 runs"
    assert any(line.startswith(told) for line in said.out.splitlines())
    assert "expected unknown-kept, and unknown-kept broke: 3 of 3 times as expected" in again.out
    assert ("M301", "unknown-kept") == (read_trace(tmp_path / file).mistake, read_trace(tmp_path / file).expect)


def test_a_violation_is_told_to_machines(survives, tmp_path):
    """The document has the traces, which are those that were kept; a weaker contract's price is one."""
    said = survives(*FEW, "--contracts", "cancellation=forceful", "--json")
    kept = {id_: json.loads((tmp_path / f / "trace.json").read_text()) for id_, f in said.json["folders"].items()}

    assert (1, "violated", ["cancel-honoured"]) == (said.status, said.json["status"], list(said.json["violated"]))
    assert said.json["traces"] == kept


def test_a_subject_without_a_runner_is_unsupported(survives):
    """The reason, and who judges it instead; status 3."""
    said = survives(*FEW, TOY)

    assert (3, "") == (said.status, said.err)
    assert said.out.splitlines()[-1].startswith(
        "UNSUPPORTED by this engine: it has no `runner`: nothing of it attempts"
    )
    assert said.out.rstrip().endswith("; the others judge the subject: survives check")


def test_a_replay_on_a_subject_without_a_runner_is_told(survives, tmp_path):
    """The trace is right, and this subject cannot play it; status 3."""
    survives(*FEW, "--mistake", "M301", "--out", "kept")
    (file,) = tmp_path.glob("kept/unknown-kept-*/trace.json")
    said = survives("replay", file, "--subject", TOY)

    assert 3 == said.status
    assert (
        "attempts cannot be replayed on examples.toy_dispatcher:ToyDispatcher: it has no `runner`"
        in said.out + said.err
    )


def test_nothing_to_run_is_wrong_use(survives):
    """Neither scripts nor random runs: the message says what would be right; status 2."""
    said = survives("attempts", "--answers", 0, "--random", 0)

    assert (2, True) == (said.status, "leave nothing to run; make one of them more" in said.err)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--answers", "5"], "5 is not in the range 0<=x<=4"),
        (["--events", "3"], "3 is not in the range 0<=x<=2"),
        (["--random", "-1"], "-1 is not in the range"),
        (["--contracts", "deadline=never"], "contract deadline has no choice 'never'; it is one of absolute, per-"),
        (["--mistake", "M999"], "mistake 'M999' is not among the"),
        (["--workers", "0"], "0 is not in the range"),
        (["--out", "/proc/nowhere"], "--out '/proc/nowhere' cannot be written"),
    ],
    ids=str,
)
def test_wrong_use_is_told(survives, arguments, says):
    """Status 2 and one message with what is right, before anything has run."""
    said = survives("attempts", *arguments)

    assert (2, "", True) == (said.status, said.out, says in " ".join(said.err.split())), said.err


ODD = """
import asyncio, os, threading, time
from impl.runner import OperationRunner
from impl.sqlite import SqliteDispatcher

class Exits(SqliteDispatcher):
    class runner_class(OperationRunner):
        async def run(self, key):
            os._exit(7)

class AsksForThreads(SqliteDispatcher):
    class runner_class(OperationRunner):
        async def run(self, key):
            return await asyncio.to_thread(int)

class LeavesThreads(SqliteDispatcher):
    class runner_class(OperationRunner):
        async def run(self, key):
            threading.Thread(target=threading.Event().wait).start()
            return await super().run(key)

class HasNoRun(SqliteDispatcher):
    def runner(self, *_, **__):
        return None
"""


@pytest.mark.parametrize(
    ("subject", "status", "said"),
    [
        ("Exits", 1, "=> while its runner was at work: the process ended with status 7"),
        ("AsksForThreads", 3, "UNSUPPORTED by this engine: it asks the event loop for threads, sockets or processes"),
        ("LeavesThreads", 0, "SURVIVED 10 of 10 promises that attempts can break in 60 runs"),
        ("HasNoRun", 1, "came back with a NoneType that has no async run(key); it must return an object with"),
    ],
)
def test_an_odd_runner_is_told(survives, tmp_path, subject, status, said):
    """What ends its process, asks for what a virtual clock has not, leaves threads behind, or is no runner at all."""
    (tmp_path / "odd.py").write_text(ODD)
    done = survives(*FEW, f"odd:{subject}", "--workers", 1)

    assert (status, True) == (done.status, said in done.out), done.out + done.err


def test_only_the_events_that_are_asked_for_come(survives):
    """A timeout is a stall until the attempt's time is up; nothing else comes, and the bound says so."""
    said = survives("attempts", "--answers", 1, "--random", 0, "--event", "cancel", "--event", "timeout", "--json")
    only = {name for name in ("cancel", "interrupt", "kill", "stall") if said.json["totals"].get(name)}

    assert (0, ["cancel", "timeout"]) == (said.status, said.json["event_kinds"])
    assert {"cancel", "stall"} == only
