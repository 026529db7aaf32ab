"""``survives explore`` and ``survives matrix``: honest bounds, documented status, clear messages."""

from __future__ import annotations

import json

import pytest

from model.search import Progress
from stateful import explore as exploring

SMALL = ["--kills", "0", "--policy-bumps", "0", "--grants", "1", "--no-payload-changes"]


def test_an_exhausted_search_says_within_which_bound(survives):
    """Status 0, the word, and the bound."""
    said = survives("explore", *SMALL)

    assert 0 == said.status
    assert "EXHAUSTED without a violation, within that bound" in said.out
    assert "2 workers, 1 key, 0 kills, 1 grant a key" in said.out


@pytest.mark.parametrize("bound", [["--depth", "3"], ["--states", "50"]], ids=str)
def test_a_cut_search_is_never_called_exhausted(survives, bound):
    """Status 3, and the bound that cut it."""
    said = survives("explore", *SMALL, *bound)

    assert 3 == said.status
    assert f"BOUNDED by {bound[0][2:]}" in said.out
    assert "EXHAUSTED" not in said.out


def test_too_little_memory_ends_the_search_with_what_there_is(survives):
    """A process that is larger than its bound stops at the next look, with status 3."""
    said = survives("explore", "--megabytes", "64", "--json")

    assert 3 == said.status
    assert ("bounded", "memory") == (said.json["verdict"], said.json["cut_by"])
    assert said.json["states"] > 0


def test_ctrl_c_prints_what_was_reached(survives, monkeypatch):
    """An interrupt is a bound like any other."""

    def interrupted(progress: Progress) -> None:
        raise KeyboardInterrupt

    real = exploring.explore
    monkeypatch.setattr(exploring, "explore", lambda *a, **k: real(*a, **(k | {"report": interrupted})))
    said = survives("explore", "--json")

    assert 3 == said.status
    assert "interrupt" == said.json["cut_by"]


def test_a_counterexample_is_shortest_runs_on_sqlite_and_replays(survives, tmp_path):
    """The order breaks the same promise on SQLite, in ticks and, as a trace, in milliseconds."""
    trace = tmp_path / "trace.json"
    said = survives("explore", "--contracts", "fencing=claim-only", "--trace", str(trace), "--json")

    assert 1 == said.status
    assert ("one-lease", 4, "one-lease") == (said.json["property"], len(said.json["trace"]), said.json["on_sqlite"])
    assert 1 == survives("replay", str(trace)).status
    assert 0 == survives("replay", str(trace), "--default-contracts").status


@pytest.mark.deep
def test_every_transition_can_be_executed_and_reported(survives):
    """The edges covered out of all edges, with nothing left over."""
    said = survives("explore", *SMALL, "--workers-modelled", "1", "--execute", "--json")
    done = said.json["conformance"]

    assert 0 == said.status
    assert (done["edges"], []) == (done["covered"], done["disagreements"])
    assert done["executed"] < 2 * done["covered"]


def test_an_exhausted_search_tells_what_it_never_saw(survives):
    """A bound without a second grant shows no takeover, and the result says so."""
    said = survives("explore", *SMALL)

    assert "VACUOUS in part: no order within that bound shows stale-refusal, takeover" in said.out


def test_an_intent_that_never_ends_is_looked_for(survives):
    """Under the default contracts recovery brings every intent to its end, as far as the claims within bounds go."""
    said = survives("explore", *SMALL, "--workers-modelled", "1", "--ends", "--json")

    assert ("", "") == (said.json["property"], said.json["on_sqlite"])
    assert 3 == said.status
    assert "system" == said.json["cut_by"]


@pytest.mark.deep
def test_symmetry_reaches_the_same_verdict_with_fewer_states(survives):
    """Workers that are alike are not told apart."""
    plain, alike = (survives("explore", *SMALL, option, "--json").json for option in ("--no-symmetry", "--symmetry"))

    assert ("exhausted", "exhausted") == (plain["verdict"], alike["verdict"])
    assert alike["states"] < plain["states"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["explore", "--kills", "-1"], "-1 is not in the range"),
        (["explore", "--workers-modelled", "0"], "0 is not in the range"),
        (["explore", "--property", "nothing"], "there is no property 'nothing'; one of one-effect"),
        (["explore", "--contracts", "fencing=some"], "contract fencing has no choice 'some'"),
        (["matrix", "--failure", "flood"], "there is no failure 'flood'; one of no failure, retry"),
        (["matrix", "--contract", "fencing=some"], "there is no contract 'fencing=some'; one of default"),
    ],
    ids=str,
)
def test_wrong_bounds_are_told(survives, arguments, says):
    """Status 2 and one message."""
    said = survives(*arguments)

    assert 2 == said.status
    assert says in said.err


def test_the_matrix_is_written_for_machines_people_and_browsers(survives, tmp_path):
    """JSON, Markdown and a page, from the same cells."""
    some = ["--contract", "default", "--failure", "retry", "--execute", "5"]
    page = tmp_path / "matrix.html"

    as_json = survives("matrix", *some, "--json", "--html", str(page))
    as_markdown = survives("matrix", *some, "--markdown")

    assert (0, 0) == (as_json.status, as_markdown.status)
    assert "survives" == json.loads(as_json.out)["cells"][0]["verdict"]
    assert "| `default` | survives (" in as_markdown.out
    assert page.read_text("utf-8").startswith("<!doctype html>")
