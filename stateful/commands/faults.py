"""``survives faults``: every storage call, lock and file operation of every operation fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed finds the same.")
@contracts_option
@click.option("--mistake", default="", help="Seed a mistake into the dispatcher, such as M124.")
@workers_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@out_option
def faults(
    subject: str,
    seed: int,
    contracts: tuple[dict[str, str], ...],
    mistake: str,
    workers: int,
    as_json: bool,
    out: Path,
) -> None:
    """Fail every storage call of every operation of SUBJECT, the first, the second ... until none is left.

    Exit status 0 survived, 1 violated, 3 cut short or unsupported.
    """
    from stateful.failures import fail_everything
    from stateful.report.faults import lines
    from stateful.report.swept import keep_and_show
    from stateful.subject import load_subject
    from stateful.verdict import EXIT_STATUS

    chosen = load_subject(subject, mistake)
    see_whether_it_can_be_written(out)
    with progress("failing storage calls") as told:

        def report(so_far: Any) -> None:
            tallies = (*so_far.ended, *so_far.under_way)
            calls = sum(sum(t.boundaries.values()) for t in tallies)
            told(f"{calls:,} calls failed, {len(so_far.ended)} parts done")

        done = fail_everything(chosen, contracts_of(contracts), seed, workers=workers, report=report)
    keep_and_show(done, lines(done), out, as_json=as_json, by_fault=True)
    raise SystemExit(EXIT_STATUS.get(done.status, UNKNOWN))
