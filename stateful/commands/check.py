"""``survives check``: a campaign on a dispatcher."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

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
@click.argument("subject", nargs=-1)
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
@click.option("--slow/--no-slow", default=True, help="Of an adapter: also orders that wait in real time.")
@click.option("--sweep/--no-sweep", default=True, help="Of an adapter: also a death before every statement.")
@click.option("--files/--no-files", default=False, help="Of an adapter: also a death before every file operation.")
@click.option(
    "--patience",
    type=click.FloatRange(0.1, 3600),
    default=60.0,
    show_default=True,
    help="Of an adapter: seconds that an answer may take.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@out_option
def check(
    subject: tuple[str, ...],
    contracts: tuple[dict[str, str], ...],
    mistake: str,
    as_json: bool,
    out: Path,
    **more: Any,
) -> None:
    """Check SUBJECT: a dispatcher class (module:Class), an adapter's file, or -- COMMAND. Default: the SQLite one.

    Words after a file are its own arguments. --seconds, --seed, --contracts and --mistake are of a dispatcher's campaign;
    --slow, --sweep, --files and --patience of a called system's orders, which are the same each time.
    """
    from stateful.campaign import Budget, Campaign
    from stateful.display import Display
    from stateful.foreign.naming import names_adapter
    from stateful.subject import DEFAULT_SUBJECT, load_subject
    from stateful.verdict import EXIT_STATUS

    see_whether_it_can_be_written(out)
    if math.isnan(more["patience"]):
        raise click.BadParameter("it is a number of seconds", param_hint="'--patience'")
    if names_adapter(subject):
        from stateful.commands.foreign import How, check_adapter, step_driven

        name = step_driven(subject, more["patience"])
        if not name:
            if contracts or mistake:
                raise click.UsageError(
                    "a called system has its own contracts, and no seeded mistakes; drop the option"
                )
            how = How(**{name: more[name] for name in ("workers", "slow", "sweep", "files", "patience")})
            raise SystemExit(check_adapter(subject, out, how, as_json=as_json))
    else:
        name = subject[0] if subject else DEFAULT_SUBJECT
    chosen = load_subject(name, mistake)
    display = Display(as_json=as_json)
    budget = Budget(more["seconds"], more["seed"], more["workers"])
    campaign = Campaign(chosen, contracts_of(contracts), budget)
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
