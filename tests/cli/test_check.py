"""``survives check``: the verdict, its exit status, the findings that it keeps."""

from __future__ import annotations

import json

import pytest

from model.properties import PROPERTIES
from stateful.trace import read_trace


def violated(said):
    return {p["id"]: p for p in said.json["properties"] if p["status"] == "violated"}


def test_the_default_survives(survives):
    """The default dispatcher under the default contracts survives, with a bound, and all was seen that must be."""
    said = survives("check", "--seconds", 1)
    lines = said.out.splitlines()

    assert (0, "") == (said.status, said.err)
    assert len(PROPERTIES) == sum(line.startswith("survived ") for line in lines)
    assert True is any(line.startswith("SURVIVED within ") for line in lines)


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
    assert True is (found["steps"] <= 7)
    assert "replayed 10 times: 10 times the same" in again.out
    assert f"the trace expects {property_id}: 10 of 10 as expected" in again.out


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
    assert True is any(
        line.startswith("  => dispatch ") and "ended with status 7" in line for line in said.out.splitlines()
    )


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
def test_a_folder_that_cannot_be_written_loses_nothing(survives, small, tmp_path, out):
    """Where findings cannot be kept they are told all the same, and the trace itself follows."""
    (tmp_path / "file").write_text("")
    small("walk")
    said = survives("check", "--contracts", "approval=advisory", "--out", tmp_path / out)

    if out == "file":  # the option itself says so, before any work is done
        assert (2, True) == (said.status, "is a file" in said.err)
        return
    assert 1 == said.status
    assert "choose another folder with --out. The trace itself follows." in said.err
    assert '"format": "survives-trace"' in said.out


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
