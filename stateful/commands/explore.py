"""``survives explore``: every order of the model within bounds."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from stateful.commands.options import contracts_of, contracts_option, progress


@click.command()
@contracts_option
@click.option("--workers-modelled", type=click.IntRange(1, 4), default=2, show_default=True)
@click.option("--keys", type=click.IntRange(1, 3), default=1, show_default=True)
@click.option(
    "--kills", type=click.IntRange(0, 9), default=2, show_default=True, help="Deaths of workers in an order."
)
@click.option("--grants", type=click.IntRange(0, 9), default=2, show_default=True, help="Leases granted for a key.")
@click.option("--policy-bumps", type=click.IntRange(0, 2), default=1, show_default=True)
@click.option("--payload-changes/--no-payload-changes", default=True, show_default=True)
@click.option("--depth", type=click.IntRange(0), help="Steps in an order.  [default: no bound]")
@click.option("--states", type=click.IntRange(1), help="Distinct states.  [default: no bound]")
@click.option("--seconds", type=click.IntRange(1, 86_400), default=600, show_default=True, help="Time.")
@click.option("--megabytes", type=click.IntRange(64), help="Memory.  [default: three fifths of what is free]")
@click.option("--symmetry/--no-symmetry", default=False, show_default=True, help="Take workers and keys for alike.")
@click.option("--property", "property_id", default="", help="Look for a violation of this property alone.")
@click.option(
    "--ends", "liveness", is_flag=True, help="Look for an intent that never ends instead: small bounds only."
)
@click.option("--execute", is_flag=True, help="Then execute every transition of the graph on SQLite.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--trace", type=click.Path(dir_okay=False, path_type=Path), help="Write a counterexample's trace here.")
def explore(  # noqa: PLR0913, PLR0917 - one parameter an option
    contracts: tuple[dict[str, str], ...],
    workers_modelled: int,
    keys: int,
    kills: int,
    grants: int,
    policy_bumps: int,
    payload_changes: bool,
    depth: int | None,
    states: int | None,
    seconds: int,
    megabytes: int | None,
    symmetry: bool,
    property_id: str,
    liveness: bool,
    execute: bool,
    as_json: bool,
    trace: Path | None,
) -> None:
    """Search every order of the model within bounds. Exit status 0 exhausted, 1 violated, 3 cut by a bound."""
    from model.properties import PROPERTIES
    from model.search import ModelBounds, Progress
    from stateful.explore import SHARE_OF_MEMORY, Limit, ends, megabytes_free
    from stateful.explore import execute as run_all
    from stateful.explore import explore as search
    from stateful.report.explore import lines

    if property_id and property_id not in PROPERTIES:
        raise click.UsageError(f"there is no property {property_id!r}; one of {', '.join(PROPERTIES)}")
    bounds = ModelBounds(
        workers=workers_modelled,
        keys=keys,
        kills=kills,
        grants=grants,
        policy_bumps=policy_bumps,
        payload_changes=payload_changes,
    )
    limit = Limit(seconds, megabytes or int(megabytes_free() * SHARE_OF_MEMORY))
    with progress("exploring") as told:
        started = time.monotonic()

        def report(p: Progress) -> None:
            rate = p.transitions / max(0.1, time.monotonic() - started)
            told(f"{p.states:,} states, frontier {p.frontier:,}, depth {p.depth}, {rate:,.0f} transitions/s")

        weak = contracts_of(contracts)
        if liveness:
            done = ends(weak, bounds, limit, depth=depth, states=states, report=report)
        else:
            done = search(
                weak,
                bounds,
                limit,
                depth=depth,
                states=states,
                symmetric=symmetry,
                property_id=property_id,
                report=report,
            )
        if execute:
            done = run_all(done, limit, lambda c: told(f"{c.covered:,} of {c.edges:,} transitions executed"))
    click.echo(json.dumps(done.to_json(), indent=2) if as_json else "\n".join(lines(done)))
    if trace is not None and done.trace is not None:
        done.trace.write(trace)
        click.echo(f"  replay:  survives replay {trace}", err=as_json)
    raise SystemExit(done.exit_status)
