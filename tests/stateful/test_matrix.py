"""The survival matrix: each cell earned twice, the default row survives, each weak choice is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from model import CHOICES, Contracts, Model, contracts_from
from model.contracts import Durability
from model.properties import PROPERTIES
from stateful import matrix
from stateful.attempts import cell as attempts_cell
from stateful.cells import Mark
from stateful.columns import COLUMNS, LIMITS, rows
from stateful.failing import cell as fault_cell
from stateful.matrix import fill
from stateful.order import Rig
from stateful.pairs import protecting_pairs
from stateful.power import cell as power_cell
from stateful.power.cell import shortest_order
from stateful.report.matrix import markdown, page, short
from stateful.storage.abi import UnsupportedStorageError
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
    **{(f"durability={choice}", "power cut"): ("intent-kept", 2) for choice in Durability if not choice.keeps},
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
    as_good = {f"durability={choice}" for choice in Durability if choice.keeps}
    elsewhere = {n for n in weak if n.partition("=")[0] == "attempt_timeout"}

    assert weak - elsewhere - as_good == {row for row, _ in SHORTEST}
    assert len(weak) == sum(len(choices) - 1 for choices in CHOICES.values())


WITHOUT_CUT = [(row, column) for row, column in SHORTEST if column != "power cut"]


@pytest.mark.parametrize(("row", "column"), WITHOUT_CUT, ids=str)
def test_the_default_survives_the_same_order(row, column):
    """What breaks under the weak choice holds under the default, on SQLite."""
    cell = fill((row,), (column,), states_executed=1).cell(row, column)
    with Rig(load_subject(), contracts_from({}), LIMITS, keys=1) as rig:
        ran = rig.run(cell.steps)

    assert ran.finding is None or ran.finding.property_id != cell.property_id


def test_the_default_row_survives_everything():
    """The default contracts survive each kind of failure within the bound, and SQLite conforms."""
    done = fill(("default",), states_executed=20)

    assert {Mark.SURVIVES} == {cell.mark for cell in done.cells}
    assert list(COLUMNS) == [cell.column for cell in done.cells]
    assert done.agrees


@pytest.mark.parametrize("choice", [c for c in Durability if c.keeps], ids=str)
def test_a_durable_choice_survives_the_power_cut_that_the_others_do_not(choice):
    """No crash state of a submission loses it, on SQLite, and there are some."""
    cuts = shortest_order(load_subject(), Contracts(durability=choice), LIMITS, ("submit k1 p1", "power cut"))

    assert {} == cuts.broke
    assert cuts.crashes > 10


def test_what_breaks_with_less_is_told_there():
    """A weakness that a kill shows is not told again by a power cut, and the standard order survives it on SQLite."""
    cell = fill(("idempotency=client",), ("power cut",), states_executed=6).cell("idempotency=client", "power cut")

    assert (Mark.AS_LESS, "as kill", True) == (cell.mark, cell.text, cell.agrees)
    assert cell.crashes > 100


@pytest.mark.parametrize(
    ("durability", "model_keeps", "said"),
    [
        (
            Durability.WAL_NORMAL,
            True,
            "on SQLite: intent-kept: power cut after the last step: the intent of k1 is gone",
        ),
        (Durability.WAL_FULL, False, "on SQLite: no promise broke"),
    ],
)
def test_a_power_cut_on_which_sqlite_differs_says_so(monkeypatch, durability, model_keeps, said):
    """A model that thinks too well of a setting, or too ill, is contradicted by the crash states."""
    monkeypatch.setattr(Durability, "keeps", property(lambda _: model_keeps))
    row = f"durability={durability}"

    cell = fill((row,), ("power cut",), states_executed=1).cell(row, "power cut")

    assert not cell.agrees
    assert said == cell.note
    assert short(cell).startswith("DISAGREE: ")


def test_a_storage_fault_breaks_no_more_on_sqlite_than_in_the_model():
    """Each call of the first operations fails once, and what breaks then breaks in the model with less."""
    done = fill(("default", "idempotency=client"), ("storage fault",), states_executed=4)
    default, client = done.cells

    assert (Mark.SURVIVES, True) == (default.mark, default.agrees)
    assert (Mark.AS_LESS, "as retry", True) == (client.mark, client.text, client.agrees)
    assert default.faults > 400


def test_a_storage_fault_on_which_sqlite_differs_says_so(monkeypatch):
    """A dispatcher that stumbles over a failing disk makes the cell red."""
    monkeypatch.setattr(matrix, "load_subject", lambda: load_subject(mistake="M124"))

    cell = fill(("default",), ("storage fault",), states_executed=5).cell("default", "storage fault")

    assert not cell.agrees
    assert cell.note.startswith("on SQLite: ")
    assert "DISAGREE" in short(cell)


def test_the_sample_of_operations_is_each_of_two_orders_once():
    """From submission to checkpoint, and an answer that is lost and asked after."""
    names = [target.name for target in fault_cell.targets(Model(keys=1))]

    assert len(set(names)) == len(names)
    assert {"submit p1 -> ok", "checkpoint -> ok", "dispatch silent -> unknown", "reconcile -> replayed"} <= {*names}


def test_only_a_power_cut_tells_durability_apart_and_only_an_await_what_ends_an_attempt():
    """The other columns say nothing about them."""
    chosen = ("durability=wal-normal", "attempt_timeout=thread")
    done = fill(chosen, states_executed=1)
    said = {row: [c.column for c in done.cells if c.row == row and c.text != "-"] for row in chosen}

    assert {"durability=wal-normal": ["power cut"], "attempt_timeout=thread": ["at an await"]} == said


def test_a_runner_that_does_what_the_rule_forbids_disagrees():
    """The rule and the real runner are two halves: a mistake in one of them shows in the cell."""
    done = attempts_cell.enacted(load_subject(mistake="M301"), Contracts(), runs_max=40)

    assert "unknown-kept" in done.broke
    assert done.forbidden.startswith("the rule does not allow")


AT_AN_AWAIT = {
    "retry=every-error": "bounded-attempts",
    "fencing=claim-only": "cancel-honoured",
}


@pytest.mark.parametrize("row", AT_AN_AWAIT)
def test_what_breaks_by_the_rule_breaks_on_the_real_runner(row):
    """A weak choice breaks the same promise in the shortest script and in a run."""
    cell = fill((row,), ("at an await",)).cell(row, "at an await")

    assert (Mark.VIOLATED, AT_AN_AWAIT[row], True) == (cell.mark, cell.property_id, cell.agrees)
    assert 1 <= len(cell.labels) <= 2
    assert cell.runs > 900


def test_where_nothing_can_be_recorded_the_cell_is_unsupported(monkeypatch):
    """A cell that was only searched claims nothing, and says why."""

    def refuse(*_, **__):
        raise UnsupportedStorageError("no such library")

    monkeypatch.setattr(power_cell, "RecordingRig", refuse)
    monkeypatch.setattr(fault_cell, "FaultRig", refuse)

    for row, column in (("default", "power cut"), ("durability=off", "power cut"), ("default", "storage fault")):
        cell = fill((row,), (column,), states_executed=1).cell(row, column)
        assert (Mark.UNSUPPORTED, "no such library") == (cell.mark, cell.note)


@pytest.mark.parametrize(
    ("labels", "steps"),
    [
        (("submit k1 p1", "power cut"), ["submit k1 p1"]),
        (("submit k1 p1", "claim w1 k1, power cut after stage 1"), ["submit k1 p1", "claim w1 k1"]),
    ],
)
def test_an_order_ends_with_its_power_cut(labels, steps):
    """The operation under way is recorded whole: the power is cut at every point of it."""
    assert steps == [step.label for step in power_cell.steps_of(labels, Model(keys=1))]


@pytest.mark.parametrize("labels", [("submit k1 p1",), ("power cut", "restart w1 same-name", "power cut")])
def test_an_order_without_a_power_cut_at_its_end_is_refused(labels):
    """What could not be executed is not called executed."""
    with pytest.raises(ValueError, match="should have one power cut, at its end"):
        power_cell.steps_of(labels, Model(keys=1))


def test_a_cell_in_which_sqlite_differs_says_so(monkeypatch):
    """A dispatcher that does not conform makes the cell red."""
    monkeypatch.setattr(matrix, "load_subject", lambda: load_subject(mistake="M098"))

    cell = fill(("default",), ("silent sink",)).cell("default", "silent sink")

    assert not cell.agrees
    assert "DISAGREE" in short(cell)


@pytest.mark.deep
def test_contracts_protect_each_other_in_pairs():
    """A pair of weak choices breaks a promise that either alone keeps, in the model and on SQLite."""
    pairs = protecting_pairs()

    assert ("idempotency=client", "fencing=none") in [pair.names for pair in pairs]
    assert all(pair.agrees for pair in pairs)


def test_the_page_needs_no_network_and_tells_every_cell():
    """One self-contained page: no link leaves it, each cell has its dialog, and text is escaped."""
    done = fill(("default", "durability=off"), ("no failure", "power cut"), states_executed=2)
    nasty = evolve(done.cells[0], note="<script>", mark=Mark.NOT_APPLICABLE)
    text = page(evolve(done, cells=(nasty, *done.cells[1:])))

    assert "http" not in text
    assert 4 == text.count("<dialog")
    assert "&lt;script&gt;" in text
    assert PROPERTIES["intent-kept"].name in text
    assert f"survives (9,368), {done.cell('default', 'power cut').crashes} cuts" in text


def test_markdown_has_a_row_for_each_contract():
    """The table that the README shows has a line a row and the bound."""
    lines = list(markdown(fill(("default",), ("no failure",), states_executed=5)))

    assert "| contracts | no failure |" == lines[0]
    assert lines[2].startswith("| `default` | survives (")
    assert "within 2 workers, 1 key" in lines[4]


def test_markdown_says_what_a_power_cut_may_lose_and_no_number_that_depends_on_sqlite():
    """The bound of the column stands below the table; how many crash states there are is SQLite's business."""
    lines = list(markdown(fill(("durability=off",), ("power cut",), states_executed=1)))

    assert "| `durability=off` | intent-kept (2) |" == lines[2]
    assert "loses up to 2 of its last transactions" in lines[-1]


README = (Path(__file__).parents[2] / "README.md").read_text("utf-8").splitlines()


SAMPLED = ("default", "attempt_timeout=thread", "deadline=per-attempt", "durability=wal-normal")
"""Rows of each sort; to fill them all takes minutes."""


def test_the_readme_has_a_row_for_each_choice():
    """No choice is missing, and none is there that is gone."""
    assert [f"| `{row}`" for row in rows()] == [
        line[: line.index("` |") + 1]
        for line in README
        if line.startswith("| `") and line.count("|") == 2 + len(COLUMNS)
    ]


@pytest.mark.parametrize("row", SAMPLED)
def test_the_readme_shows_the_matrix_as_it_is(row):
    """A row of the table in the README is what the search gives today."""
    line = next(line for line in markdown(fill((row,), states_executed=1)) if line.startswith(f"| `{row}` |"))

    assert line in README
