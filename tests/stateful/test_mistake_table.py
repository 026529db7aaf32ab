"""The table of mistakes: what it prints is what was found, and the document that shows it is what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from impl.mistakes import LEFT_OUT, MISTAKES
from model.attempts import Said
from model.properties import PROPERTIES
from stateful.engines import attempts
from stateful.mistake_table import Caught, Row, shard_for
from stateful.report.mistakes import first_catches, head, markdown, shortest_cell, to_json, totals
from stateful.shard import ENGINES
from stateful.shortest import Shortest

DOCUMENT = (Path(__file__).parents[2] / "docs" / "mistakes.md").read_text("utf-8")
HEAD = head(searched=True)
COMMAND = "survives mistakes --markdown --shortest"


def cells(line):
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def rows_of(document):
    """The document's rows, as the program has them: by whom a mistake was caught, and what is said of its order."""
    table = [cells(line) for line in document.splitlines() if re.match(r"\| M\d{3} \|", line)]
    return [_row(dict(zip(HEAD, row, strict=True))) for row in table if len(row) == len(HEAD)]


def _row(row):
    steps = int(row["steps"])
    told = {e: row[f"{e}: orders"] for e in ENGINES}
    caught = [Caught(e, row["breaks"], int(orders), steps) for e, orders in told.items() if orders.isdigit()]
    ran = tuple(e for e, orders in told.items() if orders)
    known = MISTAKES[row["mistake"]]
    shortest = None
    if (said := row["shortest"]) == "yes":
        shortest = Shortest(steps)
    elif said:
        shortest = Shortest(int(said.removeprefix("at least ")), () if "least" in said else ("an order",))
    what = row["what it does"]
    return Row(row["mistake"], known.kind, what, known.breaks, tuple(caught), ran, known.shown_by, shortest)


ROWS = rows_of(DOCUMENT)


def test_the_document_has_the_columns_that_are_printed():
    """One table has the head of the program, cell for cell, and the command that prints it is named above it."""
    assert 1 == DOCUMENT.count(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}\n")
    assert f"`{COMMAND}`" in DOCUMENT.partition("| mistake |")[0]


def test_every_seeded_mistake_has_one_row_that_says_what_it_is():
    """No mistake is missing, none stands there twice, and each does what the code says of it."""
    assert [(one.id, one.sentence) for one in MISTAKES.values()] == [(row.id, row.sentence) for row in ROWS]


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS])
def test_every_row_says_who_caught_it(row):
    """At least one engine did, what broke is a promise, and whoever alone shows it was asked."""
    assert row.caught
    assert row.caught[0].property_id in PROPERTIES
    assert not row.shown_by or row.by(row.shown_by)


def test_no_order_is_longer_than_it_is_said_to_be_at_least():
    """What is said of the shortest order never contradicts the steps beside it."""
    assert [] == [row.id for row in ROWS if row.shortest and row.shortest.steps > row.caught[0].steps]
    assert [] == [r.id for r in ROWS if r.shortest and r.shortest.order and r.shortest.steps == r.caught[0].steps]


def test_the_totals_are_what_the_rows_come_to():
    """The lines below the table, word for word; counted once more by hand."""
    two = sum(len(row.caught) > 1 for row in ROWS)

    assert "\n".join(f"- {line}" for line in totals(ROWS)) in DOCUMENT
    assert f"- {len(MISTAKES)} of {len(MISTAKES)} caught, {two} by more than one engine.\n" in DOCUMENT
    assert two >= 60


def test_what_is_left_out_is_what_the_code_leaves_out():
    """Each with its reason, and in no other order."""
    left_out = [cells(line) for line in DOCUMENT.partition("## Left out")[2].splitlines() if line.startswith("| M")]

    assert [list(one) for one in sorted(LEFT_OUT.items())] == left_out


def test_those_missed_at_first_are_counted():
    """The section says how many there are, and names that many, each of them seeded."""
    section = DOCUMENT.partition("## Missed at first")[2].partition("\n## ")[0]
    named = {id_ for line in section.splitlines() if line.startswith("| M") for id_ in re.findall(r"M\d{3}", line)}

    assert f"{len(named)} mistakes" in section
    assert named <= set(MISTAKES)


# -- what is printed ------------------------------------------------------------------------------------------


def row(id_, *caught, shortest=None, ran=("machine", "walk"), seconds=0.0):
    known = MISTAKES[id_]
    found = tuple(Caught(engine, known.breaks, orders, 3, (), seconds) for engine, orders in caught)
    return Row(id_, known.kind, known.sentence, known.breaks, found, ran, known.shown_by, shortest)


def test_an_engine_that_missed_a_mistake_does_not_make_its_median_better():
    """What was not caught counts as never, and what another engine alone shows is no concern of it."""
    rows = [row("M002", ("walk", 1)), row("M005", ("walk", 9), ("machine", 4)), row("M124", ("walk", 7))]

    assert [float("inf"), 4] == first_catches(rows, "machine")
    assert [1, 9] == first_catches(rows, "walk")
    assert any("machine to the first catch: median inf" in line for line in totals(rows))
    assert "Caught by walk alone, of those tried: M002, M124 (2)." in totals(rows)


@pytest.mark.parametrize(
    ("shortest", "said"),
    [
        (None, ""),
        (Shortest(3), "yes"),
        (Shortest(2, exhausted=False), "at least 2"),
        (Shortest(2, ("an order",)), "2"),
    ],
)
def test_a_cell_says_what_is_known_of_the_shortest_order(shortest, said):
    """It is the shortest, one of so many steps is shorter, or it has at least so many; nothing where none was sought."""
    assert said == shortest_cell(row("M002", ("walk", 1), shortest=shortest))


def test_a_mistake_that_nobody_caught_is_shouted():
    """Its row says so in capitals, and the first of the totals counts it."""
    lines = markdown([row("M002")])

    assert "| NOT CAUGHT |" in lines[2]
    assert "- 0 of 1 caught, 0 by more than one engine." in lines


def test_markdown_does_not_depend_on_time():
    """Two runs that differ in nothing but the time they took print the same."""
    quick, slow = ([row("M002", ("walk", 1), seconds=seconds)] for seconds in (0.1, 7.0))

    assert markdown(quick) == markdown(slow)
    assert to_json(quick)["timing"] != to_json(slow)["timing"]


# -- what is tried --------------------------------------------------------------------------------------------


def test_attempts_begin_with_every_answer_that_a_sink_may_give(monkeypatch):
    """What only a runner shows is looked for in every script, not in the part of one first answer."""
    asked = []
    monkeypatch.setattr(
        attempts, "every_run", lambda _, count, events, first=None: asked.append((count, first)) or []
    )
    monkeypatch.setattr(attempts, "random_runs", lambda *_: [])
    mine = shard_for("M318", "attempts", 0, Path())

    assert [] == list(attempts._runs(None, mine))
    assert [(1, None), *((2, first) for first in Said)] == asked
