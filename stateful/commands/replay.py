"""``survives replay``: a trace once more, on this dispatcher or on another."""

from __future__ import annotations

import json
from pathlib import Path

import click

from model.contracts import contracts_from
from stateful.commands.options import contracts_given, contracts_option


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--subject", default="", help="Replay on this dispatcher instead, module:Class or an adapter.")
@click.option("--mistake", default=None, help="Seed this mistake instead of the trace's; '' for none.")
@contracts_option
@click.option("--default-contracts", is_flag=True, help="Replay under the default contracts instead of the trace's.")
@click.option("--times", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Replay so many times.")
@click.option("--json", "as_json", is_flag=True, help="Print what happened as JSON.")
def replay(
    trace: Path,
    subject: str,
    mistake: str | None,
    contracts: tuple[dict[str, str], ...],
    default_contracts: bool,
    times: int,
    as_json: bool,
) -> None:
    """Replay TRACE, a failure order, and tell what happened. Exit status 0 if it survived, 1 if not."""
    from attrs import evolve

    from stateful.findings import replayed
    from stateful.foreign.trace import is_foreign
    from stateful.subject import load_subject
    from stateful.trace import SURVIVED, read_trace

    if is_foreign(trace):
        from stateful.commands.foreign import replay_foreign

        if mistake or contracts or default_contracts:
            raise click.UsageError("a trace of an adapter has neither contracts nor a mistake; drop the option")
        raise SystemExit(replay_foreign(trace, subject, times, as_json=as_json))
    order = read_trace(trace)
    if subject:
        order = evolve(order, subject=subject, mistake="")
    if mistake is not None:
        order = evolve(order, mistake=mistake)
    if contracts or default_contracts:
        base = {} if default_contracts else order.contracts.to_json()
        order = evolve(order, contracts=contracts_from(base | contracts_given(contracts)))
    load_subject(order.subject, order.mistake)
    stories = replayed(order, times).stories
    story = stories[0]
    same = sum(s.verdict == story.verdict for s in stories)
    as_expected = sum(s.as_expected for s in stories)
    if as_json:
        document = {
            "trace": order.to_json(),
            "verdict": story.verdict,
            "detail": story.finding.detail if story.finding else "",
            "times": times,
            "as_expected": as_expected,
            "steps": [{"step": x.label, "answer": x.answer, "changes": list(x.changes)} for x in story.lines],
        }
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(story.text())
        if times > 1:
            click.echo(f"  replayed {times} times: {same} times the same")
        expected = "that it survives" if order.expect == SURVIVED else order.expect
        came = "it survived" if story.verdict == SURVIVED else f"{story.verdict} broke"
        often = f": {as_expected} of {times} times as expected" if times > 1 else ""
        click.echo(f"  expected {expected}, and {came}{often}")
    raise SystemExit(0 if story.verdict == SURVIVED and same == times else 1)
