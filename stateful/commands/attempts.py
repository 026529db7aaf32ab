"""``survives attempts``: one operation's attempts on a virtual clock."""

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
@click.option(
    "--answers",
    type=click.IntRange(0, 4),
    default=2,
    show_default=True,
    help="Every script of up to so many answers; 4 takes ten minutes.",
)
@click.option(
    "--events",
    type=click.IntRange(0, 2),
    default=1,
    show_default=True,
    help="With at most so many events each; 2 takes ten times as long.",
)
@click.option(
    "--event",
    "kinds",
    type=click.Choice(["cancel", "interrupt", "kill", "claim", "stall", "timeout"]),
    multiple=True,
    help="Only this; timeout is a stall until the attempt's time is up.  [default: all]",
)
@click.option(
    "--random",
    type=click.IntRange(0, 1_000_000),
    default=2_000,
    show_default=True,
    help="Random runs of up to 4 attempts and 4 events.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed finds the same.")
@contracts_option
@click.option("--mistake", default="", help="Seed a mistake into the dispatcher, such as M301.")
@workers_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@out_option
def attempts(  # noqa: PLR0913, PLR0917 - its options
    subject: str,
    answers: int,
    events: int,
    kinds: tuple[str, ...],
    random: int,
    seed: int,
    contracts: tuple[dict[str, str], ...],
    mistake: str,
    workers: int,
    as_json: bool,
    out: Path,
) -> None:
    """Run one operation of SUBJECT on a virtual clock, whatever its sink answers and whatever comes between two awaits.

    An event is a cancellation, an interruption, a death, a claim of another worker, or a stall until an attempt's time
    or the deadline is over.
    Exit status 0 survived, 1 violated, 3 cut short or unsupported.
    """
    from stateful.attempted import attempt_everything
    from stateful.report.attempts import lines
    from stateful.report.swept import keep_and_show
    from stateful.shard import NamedScripts
    from stateful.subject import load_subject
    from stateful.verdict import EXIT_STATUS

    if not answers and not random:
        raise click.UsageError("--answers 0 and --random 0 leave nothing to run; make one of them more")
    chosen = load_subject(subject, mistake)
    see_whether_it_can_be_written(out)
    with progress("attempting") as told:
        done = attempt_everything(
            chosen,
            contracts_of(contracts),
            NamedScripts(answers, events, random=random, kinds=kinds),
            seed,
            workers=workers,
            report=lambda r: told(
                f"{sum(t.attempts['runs'] for t in (*r.ended, *r.under_way)):,} runs, {len(r.ended)} shards done"
            ),
        )
    keep_and_show(done, lines(done), out, as_json=as_json)
    raise SystemExit(EXIT_STATUS.get(done.status, UNKNOWN))
