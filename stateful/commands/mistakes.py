"""``survives mistakes``: which engine catches which seeded mistake."""

from __future__ import annotations

import click

from stateful.commands.options import workers_option


@click.command()
@click.argument("ids", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the table as Markdown.")
@click.option("--shortest", is_flag=True, help="Run every shorter order too: minutes for a mistake of six steps.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--engine",
    type=click.Choice(["walk", "machine", "kills", "interleavings", "power", "faults", "attempts"]),
    multiple=True,
    help="Default: walk and machine, and the one that alone shows the mistake; kills where one alone caught it.",
)
@workers_option
def mistakes(
    ids: tuple[str, ...],
    as_json: bool,
    as_markdown: bool,
    shortest: bool,
    seed: int,
    engine: tuple[str, ...],
    workers: int,
) -> None:
    """Show which engine catches which seeded mistake, in how many orders and steps. IDS: only these."""
    from impl.mistakes import seeded
    from stateful.mistake_table import mistake_table
    from stateful.report.mistakes import show_table

    for id_ in ids:
        seeded(id_)
    rows = mistake_table(ids, seed, engine, workers, search=shortest)
    show_table(rows, as_json=as_json, as_markdown=as_markdown)
    raise SystemExit(0 if all(row.caught for row in rows) else 1)
