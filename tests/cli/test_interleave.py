"""``survives interleave``: exhausted or not, within which bound, and the finding that it keeps."""

from __future__ import annotations

import json
import signal

import pytest

from stateful.trace import read_trace
from tests.cli.test_signals import left_of

CLAIMS = ["interleave", "--program", "claim | claim"]
SUBJECTS = "tests.stateful.subjects"


def test_a_program_is_exhausted(survives):
    """The bound, what was run, and that nothing broke; status 0."""
    said = survives(*CLAIMS)
    lines = said.out.splitlines()

    assert (0, "") == (said.status, said.err)
    assert "impl.sqlite:SqliteDispatcher, contracts default" == lines[0].partition("; ")[0]
    assert "2 workers, 1 key, 1 death in a schedule, no bound on preemptions" == lines[0].partition("; ")[2]
    assert any(line.startswith("claim | claim") and line.endswith("exhausted") for line in lines)
    assert any(
        line.startswith("EXHAUSTED without a violation, within that bound: 1 program, 20 schedules, ")
        and "6 crash states" in line
        for line in lines
    ), said.out


def test_a_race_is_violated_and_kept(survives, tmp_path):
    """The story, the folder, and the command that replays it, with the same result each time; status 1."""
    program = ["--program", "dispatch | approve"]
    said = survives("interleave", "--mistake", "M204", *program, "--out", "kept")
    (file,) = [line.split("survives replay ")[1] for line in said.out.splitlines() if "replay:" in line]
    again = survives("replay", file, "--times", 3)
    plain = survives("replay", file, "--subject", f"{SUBJECTS}:Honest")

    assert (1, 1, 0) == (said.status, again.status, plain.status)
    assert "VIOLATED by 1 of 1 program" in said.out
    assert "   -- then side by side --" in said.out
    assert "expected valid-approval, and valid-approval broke: 3 of 3 times as expected" in again.out
    assert "valid-approval" == read_trace(tmp_path / file).expect
    assert file.startswith("kept/")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--program", "claim | dream"],
            "there is no program 'claim | dream' of that size; one of 'claim | claim', 'cl",
        ),
        (["--program", "crossing"], "there is no program 'crossing' of that size"),
        (["--lanes", "3", "--program", "claim | claim"], "one of 'three claims', 'three at one key'"),
        (["--lanes", "4"], "4 is not in the range 2<=x<=3"),
        (["--schedules", "0"], "0 is not in the range"),
        (["--mistake", "M999"], "mistake 'M999' is not among the"),
        (["--out", "/proc/nowhere"], "--out '/proc/nowhere' cannot be written"),
        (["--lanes", "3", "--keys", "2"], "there is no standard program for 3 workers on 2 keys that impl.sqlite"),
    ],
    ids=str,
)
def test_wrong_use_is_told(survives, arguments, says):
    """Status 2 and one message with what is right."""
    said = survives("interleave", *arguments)

    assert (2, "", True) == (said.status, said.out, says in " ".join(said.err.split())), said.err


def test_a_bounded_search_is_not_exhausted(survives):
    """A program whose schedules were not all run is unknown: status 3, and the word is not said."""
    said = survives(*CLAIMS, "--schedules", "3")

    assert 3 == said.status
    assert any(line.startswith("claim | claim") and line.endswith("bounded") for line in said.out.splitlines())
    assert "UNKNOWN: 1 of 1 program not exhausted, no violation so far" in said.out
    assert "exhausted" not in said.out.replace("not exhausted", "").lower()


def test_json_is_the_same_but_for_timing(survives):
    """Two runs, with one process and with two, give one document but for the time that they took."""
    documents = []
    for workers in (1, 2):
        said = survives(*CLAIMS, "--program", "claim | cancel", "--json", "--workers", workers)
        assert 0 == said.status
        document = said.json
        assert {"seconds"} == set(document.pop("timing"))
        documents.append(json.dumps(document, indent=2))

    assert documents[0] == documents[1]
    assert ["claim | claim", "claim | cancel"] == [p["name"] for p in json.loads(documents[0])["programs"]]
    assert {"exhausted": True, "status": "survived"}.items() <= json.loads(documents[0])["programs"][0].items()


def test_a_violation_is_told_to_machines(survives, tmp_path):
    """The document has the trace, which is the one that was kept."""
    said = survives("interleave", "--mistake", "M204", "--program", "dispatch | approve", "--json")
    (trace,) = said.json["traces"].values()
    kept = json.loads((tmp_path / said.json["folders"]["valid-approval"] / "trace.json").read_text())

    assert (1, "violated", trace) == (said.status, said.json["status"], kept)


def test_three_workers(survives):
    """A program of three lanes, with no death, to its end."""
    said = survives("interleave", "--lanes", "3", "--kills", "0", "--program", "three claims")

    assert (0, True) == (said.status, "3 workers, 1 key, 0 deaths in a schedule" in said.out)


def test_a_subject_with_few_parts(survives):
    """A subject is asked for nothing that it has no part for, and the rest is run to its end."""
    said = survives(
        "interleave", "examples.toy_dispatcher:ToyDispatcher", "--program", "dispatch | dispatch", "--kills", 0
    )

    assert (0, "") == (said.status, said.err)
    assert "EXHAUSTED without a violation" in said.out


def test_what_no_schedule_can_order_is_unsupported(survives):
    """A subject that sleeps is nobody's violation: the reason, the other way, status 3."""
    said = survives("interleave", f"{SUBJECTS}:Sleeps", "--program", "claim | claim")

    assert 3 == said.status
    assert "UNSUPPORTED by this engine: it sleeps (time.sleep(0))" in said.out
    assert "the others judge the subject: survives check" in said.out


def test_a_schedule_that_does_not_end_is_cut(survives):
    """It is said to be cut, and neither exhausted nor violated."""
    said = survives("interleave", f"{SUBJECTS}:AsksForEver", "--program", "claim | claim", "--schedules", "2")

    assert 3 == said.status
    assert "CUT: a schedule did not end within its bound" in said.out
    assert "UNKNOWN: 1 of 1 program not exhausted" in said.out


RINGING = """
import os, sys
from pathlib import Path
from stateful import campaign, medium

number, medium.scratch = int(sys.argv[1]), Path(sys.argv[2])
del sys.argv[1:3]
run_shards = campaign.run_shards

def ringing(shards, workers, limit, report, before):
    def ring(stand):
        if any(t.orders for t in stand.under_way):
            os.killpg(0, number)
    return run_shards(shards, workers, limit, ring, before)

campaign.run_shards = ringing
from stateful.cli import main
main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupted_run_tells_what_it_has(started, tmp_path, name):
    """Ctrl-C, SIGTERM and SIGHUP end it at once, with what was found so far and status 3, and nothing is left."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = started(RINGING, int(getattr(signal, name)), scratch, "interleave", "--program", "life and rival")
    out, err = process.communicate(timeout=60)

    assert (3, "") == (process.returncode, err)
    assert "CUT SHORT: it was interrupted; this is what was found so far" in out
    assert [] == left_of(process.pid)
    assert [] == list(scratch.iterdir())
