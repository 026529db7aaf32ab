"""``survives check``: the verdict, its exit status, the findings that it keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve
from multiprocess import spawn

from model.contracts import Contracts
from model.properties import PROPERTIES, WITNESSES
from stateful import display, medium
from stateful.shard import Shard, run_shard
from stateful.trace import read_trace

ROOT = Path(__file__).parents[2]


def violated(said):
    return {p["id"]: p for p in said.json["properties"] if p["status"] == "violated"}


@pytest.mark.deep
def test_the_default_survives(survives):
    """The default dispatcher under the default contracts survives, with a bound, and all was seen that must be."""
    said = survives("check", "--seconds", 1)
    lines = said.out.splitlines()

    assert (0, "") == (said.status, said.err)
    assert len(PROPERTIES) == sum(line.startswith("survived ") for line in lines)
    assert any(line.startswith(f"SURVIVED {len(PROPERTIES)} of {len(PROPERTIES)} promises within ") for line in lines)


@pytest.mark.parametrize(
    ("choice", "property_id"),
    [
        ("idempotency=client", "one-effect"),
        ("idempotency=none", "one-effect"),
        ("fencing=none", "one-lease"),
        ("approval=advisory", "valid-approval"),
        ("checkpoint=before-effect", "true-completion"),
    ],
)
def test_a_weaker_contract_is_violated(survives, small, tmp_path, choice, property_id):
    """A weaker contract breaks its promise, in few steps; the trace replays each time, and not under the defaults."""
    small("walk")
    said = survives("check", "--contracts", choice, "--json")
    found = violated(said)[property_id]
    file = tmp_path / found["folder"] / "trace.json"
    again = survives("replay", file, "--times", 10)
    by_default = survives("replay", file, "--default-contracts")

    assert (1, 1, 0) == (said.status, again.status, by_default.status)
    assert found["steps"] <= 7
    assert "replayed 10 times: 10 times the same" in again.out
    assert f"expected {property_id}, and {property_id} broke: 10 of 10 times as expected" in again.out
    assert f"expected {property_id}, and it survived" in by_default.out


def test_a_violation_is_told(survives, small, tmp_path):
    """The promise, its story, where it is kept, and the command that replays it."""
    small("walk")
    said = survives("check", "--contracts", "approval=advisory", "--out", "kept")
    (replay,) = [
        line.split("survives replay ")[1]
        for line in said.out.splitlines()
        if "valid-approval-" in line and "replay:" in line
    ]

    assert "VIOLATED  No effect is authorised without a valid approval" in said.out
    assert "valid-approval" == read_trace(tmp_path / replay).expect


def test_a_mistake_can_be_seeded(survives, small):
    """A seeded mistake is found, and named above the verdict."""
    small("walk")
    said = survives("check", "--mistake", "M002")

    assert (1, "impl.sqlite:SqliteDispatcher with mistake M002, contracts default") == (
        said.status,
        said.out.splitlines()[0],
    )


def test_too_little_is_vacuous(survives, small):
    """A run that never reached what it was to test is not called survival."""
    small("walk", orders=1)
    said = survives("check")

    assert 3 == said.status
    assert "VACUOUS: never seen: " in said.out


def test_a_toy_survives_what_it_claims(survives, small):
    """A small dispatcher survives; what it does not declare is unsupported, neither kept nor broken."""
    small("walk", "machine", "kills")
    said = survives("check", "examples.toy_dispatcher:ToyDispatcher", "--json")
    statuses = {p["id"]: p["status"] for p in said.json["properties"]}

    assert (0, {p.id: "unsupported" if p.needs else "survived" for p in PROPERTIES.values()}) == (
        said.status,
        statuses,
    )


@pytest.mark.parametrize(
    ("name", "property_id"), [("MarksBeforeEffect", "first-receipt"), ("RetriesUnderNewKey", "effect-has-intent")]
)
def test_a_toy_with_a_mistake_is_found(survives, small, name, property_id):
    """The same dispatcher with a mistake is found, by the promise that it breaks, and by no other."""
    small("walk")
    said = survives("check", f"examples.toy_dispatcher:{name}", "--json")

    assert (1, [property_id]) == (said.status, list(violated(said)))


def test_a_subject_that_ends_its_process_is_told(survives, small):
    """It ends its shard and the process that tells the story, and the user reads which step it was."""
    small("walk")
    said = survives("check", "tests.stateful.subjects:Exits")

    assert (1, "") == (said.status, said.err)
    assert any(line.startswith("  => dispatch ") and "ended with status 7" in line for line in said.out.splitlines())


def test_a_flood_goes_nowhere(started):
    """What a subject prints, by whatever way, does not mix with the verdict."""
    script = """
from attrs import evolve
from stateful import campaign, cli
whole = campaign.plan
campaign.plan = lambda *a, **k: [[evolve(s, size=2) for s in whole(*a, **k)[0] if s.engine == "walk"]]
cli.main()
"""
    process = started(script, "check", "tests.stateful.subjects:Floods", "--json", "--contracts", "approval=advisory")
    out, err = process.communicate(timeout=60)

    assert ("survives-verdict", "") == (json.loads(out)["format"], err)


@pytest.mark.deep
def test_json_is_the_same_but_for_timing(survives, small):
    """One seed gives one document, byte by byte, whoever runs how many workers; only ``timing`` differs."""
    small("walk", "machine", orders=20)
    documents = []
    for workers in (1, 1, 2):
        document = survives("check", "--json", "--contracts", "fencing=none", "--workers", workers).json
        assert {"seconds", "workers"} == set(document.pop("timing"))
        documents.append(json.dumps(document, indent=2))

    assert [documents[0]] * 3 == documents


@pytest.mark.parametrize("out", ["file/below", "file"])
def test_a_folder_that_cannot_be_written_is_told_at_once(survives, small, tmp_path, out):
    """Where findings cannot be kept is found out before there are any."""
    (tmp_path / "file").write_text("")
    small("walk")
    said = survives("check", "--contracts", "approval=advisory", "--out", tmp_path / out)

    why = "is a file" if out == "file" else "cannot be written: Not a directory; choose another folder"
    assert (2, "", True) == (said.status, said.out, why in " ".join(said.err.split()))  # before any work is done


def test_a_full_disk_loses_nothing(survives, small, monkeypatch):
    """A disk that is full when the finding is written is told, and the trace itself follows."""
    from stateful.trace import Trace

    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Trace, "write", full)
    small("walk")
    said = survives("check", "--contracts", "approval=advisory")

    assert (1, True) == (said.status, "No space left on device" in said.err)
    assert '"format": "survives-trace"' in said.out


def test_the_verdict_says_how_many_promises(survives, small):
    """The last lines say how many promises were checked, and show no witness that the subject has no part for."""
    small("walk")
    toy = "examples.toy_dispatcher:ToyDispatcher"
    said, whole = survives("check", toy), json.loads(survives("check", toy, "--json").out)
    needs = sum(bool(p.needs) for p in PROPERTIES.values())
    total = len(PROPERTIES)

    assert f"SURVIVED {total - needs} of {total} promises ({needs} unsupported) within " in said.out
    assert {w.id for w in WITNESSES.values() if not w.needs} == set(whole["witnesses"])


def test_piped_output_is_not_laid_out(survives, small):
    """What is no terminal gets one promise a line, as long as it is, and no trailing blanks."""
    small("walk")
    lines = survives("check").out.splitlines()

    assert [f"survived  {p.name}" for p in PROPERTIES.values()] == [x for x in lines if x.startswith("survived")]
    assert [] == [line for line in lines if line != line.rstrip()]


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_what_does_not_happen_again_is_unknown(survives, small, monkeypatch, arguments):
    """A finding that does not break again when its order is replayed is no violation, and is said to be none."""
    monkeypatch.setattr(display, "keep", partial(_kept_of_another, display.keep))
    small("walk")
    said = survives("check", "--contracts", "approval=advisory", *arguments)

    assert 3 == said.status
    if arguments:
        (found,) = [p for p in said.json["properties"] if p["id"] == "valid-approval"]
        assert ("unknown", False, "unknown") == (found["status"], found["happened_again"], said.json["status"])
    else:
        assert "UNKNOWN  No effect is authorised without a valid approval" in said.out
        assert "  it did not happen again when the order was replayed" in said.out
        assert "SURVIVED" not in said.out


def _kept_of_another(keep, trace, *args, **kwargs):
    """The finding kept as if its order had come out well: under the contracts that keep the promise."""
    return keep(evolve(trace, contracts=Contracts()), *args, **kwargs)


def test_a_subject_that_kills_its_group_harms_nobody_else(started):
    """It ends its own process; the check tells of it, and prints its document."""
    script = """
from attrs import evolve
from stateful import campaign, cli
whole = campaign.plan
campaign.plan = lambda *a, **k: [[evolve(s, size=9) for s in whole(*a, **k)[0] if s.engine == "walk"]]
cli.main()
"""
    process = started(script, "check", "tests.stateful.subjects:KillsItsGroup", "--json")
    out, err = process.communicate(timeout=60)
    (found,) = [p for p in json.loads(out)["properties"] if p["status"] == "violated"]

    assert (1, "", "answers") == (process.returncode, err, found["id"])
    assert "ended by signal 15" in found["detail"]


@pytest.mark.parametrize(("error", "says"), [(28, "no space left in "), (30, "cannot be written: Read-only file")])
def test_no_room_is_unknown(survives, small, monkeypatch, error, says):
    """A scratch folder that takes no more is told as such, with the remedy, and is nobody's violation."""
    real = medium.tempfile.TemporaryFile

    def full(*, dir):  # noqa: A002 - its name
        if medium.RUN_PREFIX not in str(dir):
            return real(dir=dir)
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(medium.tempfile, "TemporaryFile", full)
    small("walk")
    said = survives("check")

    assert (3, "", True, True) == (said.status, said.out, says in said.err, "set TMPDIR" in said.err)


def test_room_that_runs_out_is_unknown(tmp_path, monkeypatch):
    """Where there is no room left when a subject cannot answer, its shard has failed, and it is not to blame."""
    monkeypatch.setattr(medium, "no_room", lambda folder: "no space left")
    shard = Shard("walk", 0, 1, 3, 0, "tests.stateful.subjects:Raises", "", Contracts(), ROOT, scratch=tmp_path)
    monkeypatch.setattr(medium, "scratch", tmp_path)
    tally = run_shard(shard)

    assert ("no space left", {}) == (tally.failed, tally.broken)


def test_an_interpreter_that_cannot_be_started_is_told(survives, small, monkeypatch):
    """Where no process can be started at all the message names the interpreter, and gives no other advice."""
    small("walk", "machine")
    monkeypatch.setattr(spawn, "get_executable", lambda: b"/nowhere/python")
    said = survives("check")

    assert (3, "") == (said.status, said.out)
    assert f"no shard could be started: each ended with status 255; see whether {sys.executable}" in said.err


def test_folders_of_the_dead_are_removed(tmp_path, monkeypatch):
    """A run removes what earlier ones have left that were killed, and not what living ones have."""
    monkeypatch.setattr(medium, "scratch", tmp_path)
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    dead, stranger = tmp_path / f"{medium.RUN_PREFIX}{ended.pid}-x", tmp_path / "survives-run-mine"
    for folder in (dead, stranger):
        folder.mkdir()
    (dead / medium.OWNER).write_text("")
    living, lock = medium.run_folder()
    again, other = medium.run_folder()
    os.close(lock)
    os.close(other)

    assert {living, again, stranger} == set(tmp_path.iterdir())
