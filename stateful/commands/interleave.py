"""``survives interleave``: standard programs under every schedule of their statements."""

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
@click.option("--program", "names", multiple=True, help="Only this standard program, such as 'claim | claim'.")
@click.option("--lanes", type=click.IntRange(2, 3), default=2, show_default=True, help="Workers side by side.")
@click.option("--keys", type=click.IntRange(1, 2), default=1, show_default=True)
@click.option("--kills", type=click.IntRange(0, 3), default=1, show_default=True, help="Deaths in a schedule.")
@click.option("--preemptions", type=click.IntRange(0, 20), help="In a schedule.  [default: no bound]")
@click.option("--schedules", type=click.IntRange(1), help="Of each program.  [default: no bound]")
@contracts_option
@click.option("--mistake", default="", help="Seed a mistake into the dispatcher, such as M204.")
@workers_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@out_option
def interleave(  # noqa: PLR0913, PLR0917 - one parameter an option
    subject: str,
    names: tuple[str, ...],
    lanes: int,
    keys: int,
    kills: int,
    preemptions: int | None,
    schedules: int | None,
    contracts: tuple[dict[str, str], ...],
    mistake: str,
    workers: int,
    as_json: bool,
    out: Path,
) -> None:
    """Run standard programs on SUBJECT under every schedule of their statements, with a crash at each node.

    Exit status 0 exhausted without a violation, 1 violated, 3 cut by a bound or unsupported.
    """
    from stateful.interleave import Size, standard
    from stateful.interleave import interleave as run
    from stateful.report.interleave import keep_and_show
    from stateful.subject import load_subject
    from stateful.verdict import EXIT_STATUS

    chosen = load_subject(subject, mistake)
    size = Size(lanes, keys, kills, preemptions, schedules)
    known = standard(chosen, size)
    for name in names:
        if name not in known:
            listed = ", ".join(map(repr, known)) or "none that this subject has the parts for"
            raise click.UsageError(f"there is no program {name!r} of that size; one of {listed}")
    if not known:
        at = f"{lanes} workers on {keys} {'key' if keys == 1 else 'keys'}"
        raise click.UsageError(f"there is no standard program for {at} that {subject} has the parts for")
    see_whether_it_can_be_written(out)
    with progress("interleaving") as told:
        done = run(
            chosen,
            contracts_of(contracts),
            size,
            names=names,
            workers=workers,
            report=lambda r: told(f"{len(r.ended)} of {len(names or known)} programs"),
        )
    keep_and_show(done, out, as_json=as_json)
    raise SystemExit(EXIT_STATUS.get(done.status, UNKNOWN))
