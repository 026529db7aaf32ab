"""The survival matrix: each cell earned twice, the default row survives, each weak choice is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from model import CHOICES, contracts_from
from model.properties import PROPERTIES
from stateful import matrix
from stateful.matrix import COLUMNS, LIMITS, Mark, fill, rows
from stateful.order import Rig
from stateful.pairs import protecting_pairs
from stateful.report.matrix import markdown, page, short
from stateful.subject import load_subject

SHORTEST = {
    ("deadline=per-attempt", "clock"): ("deadline-kept", 6),
    ("retry=every-error", "retry"): ("bounded-attempts", 5),
    ("cancellation=forceful", "cancellation"): ("cancel-honoured", 2),
    ("approval=caller", "approval change"): ("valid-approval", 4),
    ("approval=advisory", "approval change"): ("valid-approval", 3),
    ("checkpoint=before-effect", "no failure"): ("true-completion", 3),
    ("idempotency=client", "retry"): ("one-effect", 5),
    ("idempotency=none", "payload change"): ("right-payload", 2),
    ("fencing=claim-only", "lease expiry"): ("one-lease", 4),
    ("fencing=none", "no failure"): ("one-lease", 3),
}
"""For each weak choice that the model tells apart, a cell that shows its price."""


@pytest.mark.parametrize(("row", "column"), SHORTEST, ids=str)
def test_a_weak_choice_is_shown_by_its_shortest_order(row, column):
    """The search finds the order, and SQLite under the same contracts breaks the same promise."""
    cell = fill((row,), (column,), states_executed=1).cell(row, column)

    assert Mark.VIOLATED is cell.mark
    assert SHORTEST[row, column] == (cell.property_id, len(cell.labels))
    assert cell.agrees


def test_every_weak_choice_has_its_cell():
    """No contract choice that the model tells apart goes without an order that shows its price."""
    weak = {name for name in rows() if name != "default"}
    elsewhere = {n for n in weak if n.partition("=")[0] in {"durability", "attempt_timeout"}}

    assert weak - elsewhere == {row for row, _ in SHORTEST}
    assert len(weak) == sum(len(choices) - 1 for choices in CHOICES.values())


@pytest.mark.parametrize(("row", "column"), SHORTEST, ids=str)
def test_the_default_survives_the_same_order(row, column):
    """What breaks under the weak choice holds under the default, on SQLite."""
    cell = fill((row,), (column,), states_executed=1).cell(row, column)
    with Rig(load_subject(), contracts_from({}), LIMITS, keys=1) as rig:
        ran = rig.run(cell.steps)

    assert ran.finding is None or ran.finding.property_id != cell.property_id


def test_the_default_row_survives_everything():
    """The default contracts survive each kind of failure within the bound, and SQLite conforms."""
    done = fill(("default",), states_executed=60)

    assert {Mark.SURVIVES} == {cell.mark for cell in done.cells}
    assert list(COLUMNS) == [cell.column for cell in done.cells]
    assert done.agrees


def test_a_cell_in_which_sqlite_differs_says_so(monkeypatch):
    """A dispatcher that does not conform makes the cell red."""
    monkeypatch.setattr(matrix, "load_subject", lambda: load_subject(mistake="M098"))

    cell = fill(("default",), ("silent sink",)).cell("default", "silent sink")

    assert not cell.agrees
    assert "DISAGREE" in short(cell)


def test_contracts_protect_each_other_in_pairs():
    """A pair of weak choices breaks a promise that either alone keeps, in the model and on SQLite."""
    pairs = protecting_pairs()

    assert ("idempotency=client", "fencing=none") in [pair.names for pair in pairs]
    assert all(pair.agrees for pair in pairs)


def test_the_page_needs_no_network_and_tells_every_cell():
    """One self-contained page: no link leaves it, each cell has its dialog, and text is escaped."""
    done = fill(("default", "fencing=none"), ("no failure", "retry"), states_executed=5)
    nasty = evolve(done.cells[0], note="<script>", mark=Mark.NOT_APPLICABLE)
    text = page(evolve(done, cells=(nasty, *done.cells[1:])))

    assert "http" not in text
    assert 4 == text.count("<dialog")
    assert "&lt;script&gt;" in text
    assert PROPERTIES["one-lease"].name in text


def test_markdown_has_a_row_for_each_contract():
    """The table that the README shows has a line a row and the bound."""
    lines = list(markdown(fill(("default",), ("no failure",), states_executed=5)))

    assert "| contracts | no failure |" == lines[0]
    assert lines[2].startswith("| `default` | survives (")
    assert "within 2 workers, 1 key" in lines[4]


README = (Path(__file__).parents[2] / "README.md").read_text("utf-8").splitlines()


@pytest.mark.parametrize("row", rows())
def test_the_readme_shows_the_matrix_as_it_is(row):
    """Each row of the table in the README is what the search gives today."""
    line = next(line for line in markdown(fill((row,), states_executed=1)) if line.startswith(f"| `{row}` |"))

    assert line in README
