"""``survives check``: a campaign on a dispatcher."""

from __future__ import annotations

import os
from pathlib import Path

import click

from stateful.commands.options import (
    UNKNOWN,
    contracts_of,
    contracts_option,
    out_option,
    see_whether_it_can_be_written,
)
from stateful.spoken import hush


@click.command()
@click.argument("subject", default="impl.sqlite:SqliteDispatcher")
@click.option(
    "--seconds",
    type=click.IntRange(1, 86_400),
    default=60,
    show_default=True,
    help="How much work: what two slow cores do in this time. The same work on any machine.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed finds the same.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=min(8, os.cpu_count() or 2),
    help="Processes at a time; does not change what is found.  [default: one a core]",
)
@contracts_option
@click.option("--mistake", default="", help="Seed a mistake into the dispatcher, such as M002.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@out_option
def check(
    subject: str,
    seconds: int,
    seed: int,
    workers: int,
    contracts: tuple[dict[str, str], ...],
    mistake: str,
    as_json: bool,
    out: Path,
) -> None:
    """Check SUBJECT, a dispatcher class called module:Class. Default: the SQLite dispatcher."""
    from stateful.campaign import Budget, Campaign
    from stateful.display import Display
    from stateful.subject import load_subject
    from stateful.verdict import EXIT_STATUS

    chosen = load_subject(subject, mistake)
    see_whether_it_can_be_written(out)
    display = Display(as_json=as_json)
    campaign = Campaign(chosen, contracts_of(contracts), Budget(seconds, seed, workers))
    with display.progress(campaign) as report:
        verdict = campaign.run(report)
    if verdict.ran_nothing:
        why = "interrupted before anything ran" if "interrupted" in verdict.cut_short else verdict.cut_short
        click.echo(f"survives: {why}", err=True)
        if not as_json:
            raise SystemExit(UNKNOWN)
    try:
        verdict = display.verdict(verdict, out)
    except BrokenPipeError:
        hush()  # whoever read has gone, and the verdict stands
    raise SystemExit(EXIT_STATUS[verdict.status])
