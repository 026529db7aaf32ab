"""The survival matrix as a terminal table, as Markdown, and as one page that needs no network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.resources import files

import jinja2
from rich.console import Console
from rich.table import Table

from model.properties import PROPERTIES
from stateful.cells import Cell, Mark, Matrix
from stateful.columns import COLUMNS, LIMITS

STYLE = {
    Mark.SURVIVES: "green",
    Mark.VIOLATED: "bold red",
    Mark.BOUNDED: "yellow",
    Mark.AS_LESS: "red",
    Mark.UNSUPPORTED: "yellow",
    Mark.NOT_APPLICABLE: "dim",
}
WIDTH = 200


def _rows(matrix: Matrix) -> list[str]:
    return list(dict.fromkeys(c.row for c in matrix.cells))


def _columns(matrix: Matrix) -> list[str]:
    return list(dict.fromkeys(c.column for c in matrix.cells))


def short(cell: Cell) -> str:
    """A cell in two or three words; a cell on which model and SQLite disagree says so."""
    return cell.text if cell.agrees else f"DISAGREE: {cell.text}"


def told(cell: Cell) -> str:
    """A cell in a few words, with how often its power was cut or its storage failed, on which SQLite has a say."""
    if cell.faults:
        return f"{short(cell)}, {cell.faults:,} faults"
    if cell.runs:
        return f"{short(cell)}, {cell.runs:,} runs"
    return f"{short(cell)}, {cell.crashes:,} cuts" if cell.crashes else short(cell)


def bound() -> str:
    """Within which bound a cell survives."""
    ticks = f"lease {LIMITS.lease_ms}, approval {LIMITS.approval_ms}, deadline {LIMITS.deadline_ms} ticks"
    return f"2 workers, 1 key, 2 grants of its lease, {LIMITS.max_attempts} attempts, {ticks}"


def totals(matrix: Matrix) -> str:
    """How the cells were earned, in one line."""
    states = sum(c.states for c in matrix.cells)
    transitions = sum(c.transitions for c in matrix.cells)
    executed = sum(c.executed for c in matrix.cells)
    crashes = sum(c.crashes for c in matrix.cells)
    partly = sum("executed up to" in c.note for c in matrix.cells)
    agreed = "every cell agrees" if matrix.agrees else "THEY DISAGREE in the cells marked so"
    part = f", {partly} cells executed in part" if partly else ""
    faults = sum(c.faults for c in matrix.cells)
    cut = f", {crashes:,} crash states judged there" if crashes else ""
    cut += f", {faults:,} storage calls failed" if faults else ""
    runs = sum(c.runs for c in matrix.cells)
    cut += f", {runs:,} runs of attempts" if runs else ""
    return (
        f"{len(matrix.cells)} cells: {states:,} states and {transitions:,} transitions searched, "
        f"{executed:,} executed on SQLite{cut}, {agreed}{part}"
    )


def show(matrix: Matrix) -> None:
    """Print the matrix for a terminal."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    table = Table(show_lines=False, pad_edge=False)
    table.add_column("contracts", no_wrap=True)
    for column in _columns(matrix):
        table.add_column(column)
    for row in _rows(matrix):
        cells = [matrix.cell(row, column) for column in _columns(matrix)]
        table.add_row(row, *(f"[{STYLE[c.mark]}]{told(c)}[/]" for c in cells))
    console.print(table)
    console.print(
        f"survives (n): no violation in all n states within {bound()}; property (n): shortest order, n steps; "
        "n cuts: crash states judged on SQLite; n faults: storage calls of it that failed; n runs: of attempts"
    )
    console.print(totals(matrix))


def markdown(matrix: Matrix) -> Iterator[str]:
    """The matrix as lines of Markdown."""
    columns = _columns(matrix)
    yield f"| contracts | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for row in _rows(matrix):
        cells = [short(matrix.cell(row, column)) for column in columns]
        yield f"| `{row}` | {' | '.join(cells)} |"
    yield ""
    yield f"*survives (n)*: no violation in all n states, within {bound()}. *property (n)*: the shortest order, n steps."
    yield f"*as X*: what breaks here breaks under X too. {totals(matrix)}."
    yield from (
        f"*{c.name}*: {c.says}." for c in COLUMNS.values() if (c.cuts or c.faults or c.awaits) and c.name in columns
    )


def page(matrix: Matrix) -> str:
    """The matrix as one HTML page; a cell opens its trace."""
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("stateful.report").joinpath("matrix.html.j2").read_text("utf-8"))
    return template.render(
        matrix=matrix,
        rows=_rows(matrix),
        columns=_columns(matrix),
        says={c.name: c.says for c in COLUMNS.values()},
        names={p.id: p.name for p in PROPERTIES.values()},
        bound=bound(),
        totals=totals(matrix),
        told=told,
    )
