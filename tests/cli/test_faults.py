"""``survives faults``: what failed and what came of it, the finding that it keeps, and subjects that it cannot judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateful import campaign, failures
from stateful.trace import read_trace

TOY = "examples.toy_dispatcher:ToyDispatcher"


@pytest.fixture
def one_part(monkeypatch):
    """Only the first of many parts is run: what is done once for each store, and a few operations."""
    whole = campaign.run_shards

    def run_shards(shards, *rest):
        return whole(shards[:1], *rest)

    monkeypatch.setattr(failures, "PARTS", 30)
    monkeypatch.setattr(campaign, "run_shards", run_shards)


@pytest.mark.usefixtures("one_part")
def test_what_failed_is_told_by_kind_and_store(survives):
    """A line for each kind and store, with how many calls failed and what was answered; status 0."""
    said = survives("faults", "--workers", 1)
    lines = said.out.splitlines()

    assert (0, "") == (said.status, said.err)
    assert "impl.sqlite:SqliteDispatcher, contracts default" == lines[0]
    assert ["what", "fails", "store", "calls", "operations", "what", "they", "answered"] == lines[2].split()
    assert any(line.startswith("write: disk full ") and " refused " in line for line in lines)
    assert any(line.startswith("cut in half ") and line.endswith("stopped 1") for line in lines)
    assert lines[-1].startswith("SURVIVED 22 of 22 promises in ")


@pytest.mark.usefixtures("one_part")
def test_the_document_is_the_same_each_time(survives):
    """For machines: calls by kind, store and operation; two runs differ in ``timing`` alone."""
    first, second = (survives("faults", "--json", "--contracts", "durability=wal-full").json for _ in range(2))
    first.pop("timing"), second.pop("timing")

    assert ("survives-storage-faults", 1, "survived") == (first["format"], first["version"], first["status"])
    assert first["calls_failed"] == sum(one["calls_failed"] for one in first["faults"]) > 20
    assert first == second


@pytest.mark.usefixtures("one_part")
def test_a_finding_is_kept_with_the_order_that_led_up_to_it(survives):
    """The story says what failed, and that the order breaks nothing by itself; status 1."""
    said = survives("faults", "--mistake", "M127", "--out", "kept")
    (folder,) = [line.split("kept in  ")[1] for line in said.out.splitlines() if "kept in" in line]
    trace = read_trace(Path(folder, "trace.json"))

    assert (1, "M127", "conforms") == (said.status, trace.mistake, trace.expect)
    assert "renew w2 k2 in a forked process, by its parent's handle, answered ok" in said.out
    assert "it did not happen again when the order was replayed; it was seen when storage failed" in said.out


def test_a_subject_without_a_ledger_is_unsupported(survives, monkeypatch):
    """Nobody can say what a fault has left of rows that cannot be read; status 3."""
    monkeypatch.setattr(failures, "PARTS", 1)
    said = survives("faults", TOY)

    assert 3 == said.status
    assert said.out.splitlines()[-1].startswith("UNSUPPORTED by this engine: its rows cannot be read")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--contracts", "durability=never"], "durability"),
        (["--contracts", "nonsense"], "'nonsense' is not of the form NAME=CHOICE"),
        (["--mistake", "M999"], "M999"),
        (["--workers", "0"], "0 is not in the range"),
    ],
)
def test_wrong_use_is_told_in_one_line(survives, arguments, words):
    """The value, the reason, and status 2, before anything has run."""
    said = survives("faults", *arguments)

    assert (2, "") == (said.status, said.out)
    assert words in said.err.splitlines()[-1]
