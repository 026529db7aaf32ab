"""``survives power``: the power is cut at every point of an order."""

from __future__ import annotations

from pathlib import Path

import click

from stateful.commands.options import (
    UNKNOWN,
    contracts_of,
    contracts_option,
    out_option,
    progress,
    see_whether_it_can_be_written,
    workers_option,
)


@click.command()
@click.argument("subject", default="impl.sqlite:SqliteDispatcher")
@click.option("--orders", type=click.IntRange(0, 100_000), default=20, show_default=True, help="Generated orders.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed finds the same.")
@contracts_option
@click.option("--mistake", default="", help="Seed a mistake into the dispatcher, such as M131.")
@workers_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@out_option
def power(
    subject: str,
    orders: int,
    seed: int,
    contracts: tuple[dict[str, str], ...],
    mistake: str,
    workers: int,
    as_json: bool,
    out: Path,
) -> None:
    """Cut the power at every point of a standard order of SUBJECT, and of generated ones.

    Exit status 0 survived, 1 violated, 3 cut short or unsupported.
    """
    from stateful.cuts import cut_orders
    from stateful.report.power import lines
    from stateful.report.swept import keep_and_show
    from stateful.subject import load_subject
    from stateful.verdict import EXIT_STATUS

    chosen = load_subject(subject, mistake)
    see_whether_it_can_be_written(out)
    with progress("cutting the power") as told:
        done = cut_orders(
            chosen,
            contracts_of(contracts),
            orders,
            seed,
            workers=workers,
            report=lambda r: told(
                f"{sum(t.cuts['states'] for t in (*r.ended, *r.under_way)):,} crash states, "
                f"{sum(t.orders for t in (*r.ended, *r.under_way)):,} of {orders + 1:,} orders"
            ),
        )
    keep_and_show(done, lines(done), out, as_json=as_json)
    raise SystemExit(EXIT_STATUS.get(done.status, UNKNOWN))
