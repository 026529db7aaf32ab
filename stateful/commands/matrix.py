"""``survives matrix``: contract choice by kind of failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import click

from stateful.commands.options import progress


@click.command()
@click.option("--contract", "row_names", multiple=True, help="Only this row, such as fencing=none or default.")
@click.option("--failure", "column_names", multiple=True, help="Only this column, such as kill.")
@click.option("--json", "as_json", is_flag=True, help="Print the matrix as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the matrix as Markdown.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write it as one page that needs no network."
)
@click.option("--pairs", is_flag=True, help="Show the pairs of contracts that protect each other instead.")
@click.option(
    "--execute",
    type=click.IntRange(0),
    default=1_000,
    show_default=True,
    help="Execute the transitions of so many states of each cell on SQLite; 0 for all.",
)
def matrix(
    row_names: tuple[str, ...],
    column_names: tuple[str, ...],
    as_json: bool,
    as_markdown: bool,
    html: Path | None,
    pairs: bool,
    execute: int,
) -> None:
    """The survival matrix: contract choice by kind of failure, searched in the model and executed on SQLite."""
    from stateful.columns import COLUMNS, rows
    from stateful.matrix import fill
    from stateful.report.matrix import markdown, page, show

    for what, given, known in (("contract", row_names, rows()), ("failure", column_names, COLUMNS)):
        for name in given:
            if name not in known:
                raise click.UsageError(f"there is no {what} {name!r}; one of {', '.join(known)}")
    if pairs:
        _pairs(as_json=as_json)
    with progress("filling the matrix") as told:
        done = fill(row_names, column_names, report=lambda c: told(f"{c.row}, {c.column}"), states_executed=execute)
    if html is not None:
        html.write_text(page(done), "utf-8")
    if as_json:
        click.echo(json.dumps(done.to_json(), indent=2))
    elif as_markdown:
        click.echo("\n".join(markdown(done)))
    else:
        show(done)
    raise SystemExit(0 if done.agrees else 1)


def _pairs(*, as_json: bool) -> NoReturn:
    from stateful.pairs import protecting_pairs

    with progress("weakening two contracts at a time") as told:
        found = protecting_pairs(lambda names: told(" and ".join(names)))
    if as_json:
        click.echo(json.dumps([pair.to_json() for pair in found], indent=2))
    else:
        for pair in found:
            click.echo(pair.text())
    raise SystemExit(0 if all(pair.agrees for pair in found) else 1)
