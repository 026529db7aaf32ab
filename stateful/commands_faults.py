"""``survives faults``: every storage call, lock and file operation of every operation fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from model.contracts import Contracts


def _contracts(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> Contracts:
    from stateful.cli import Choices
    from stateful.cli import _contracts as merged

    return merged(tuple(Choices().convert(one, param, ctx) for one in given))


@click.command()
@click.argument("subject", default="impl.sqlite:SqliteDispatcher")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed finds the same.")
@click.option(
    "--contracts",
    multiple=True,
    callback=_contracts,
    metavar="NAME=CHOICE,...",
    help="Weaken contracts, such as durability=wal-full. `survives list contracts` shows them.",
)
@click.option("--mistake", default="", help="Seed a mistake into the dispatcher, such as M124.")
@click.option(
    "--workers", type=click.IntRange(1, 64), default=min(8, os.cpu_count() or 2), help="Processes at a time."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".survives"),
    show_default=True,
    help="Where findings are kept.",
)
def faults(
    subject: str, seed: int, contracts: Contracts, mistake: str, workers: int, as_json: bool, out: Path
) -> None:
    """Fail every storage call of every operation of SUBJECT, the first, the second ... until none is left.

    Exit status 0 survived, 1 violated, 3 cut short or unsupported.
    """
    from stateful.cli import UNKNOWN, _progress, _see_whether_it_can_be_written
    from stateful.failures import fail_everything
    from stateful.report.faults import keep_and_show
    from stateful.subject import load_subject
    from stateful.verdict import EXIT_STATUS

    chosen = load_subject(subject, mistake)
    _see_whether_it_can_be_written(out)
    with _progress("failing storage calls") as told:

        def report(so_far: Any) -> None:
            tallies = (*so_far.ended, *so_far.under_way)
            calls = sum(sum(t.boundaries.values()) for t in tallies)
            told(f"{calls:,} calls failed, {len(so_far.ended)} parts done")

        done = fail_everything(chosen, contracts, seed, workers=workers, report=report)
    keep_and_show(done, out, as_json=as_json)
    raise SystemExit(EXIT_STATUS.get(done.status, UNKNOWN))
