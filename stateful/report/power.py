"""What power cuts came to, line by line, and the story of each promise that one broke."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from stateful.cuts import Cuts
from stateful.findings import keep
from stateful.story import counted
from stateful.verdict import Status, checked


def lines(done: Cuts) -> Iterator[str]:
    """For a terminal."""
    weak = ",".join(f"{n}={c}" for n, c in done.contracts.weakened().items())
    mistake = f" with mistake {done.subject.mistake}" if done.subject.mistake else ""
    total = done.totals
    yield f"{done.subject.name}{mistake}, contracts {weak or 'default'}"
    if done.unsupported:
        yield f"UNSUPPORTED by this engine: {done.unsupported}; the others judge the subject: survives check"
        return
    yield (
        f"{str(done.status).upper()} {checked(_ends(done))} in {counted(total['states'], 'crash state')} of "
        f"{counted(total['orders'], 'order')}: the standard one and {done.orders:,} generated, "
        f"{counted(total['operations'], 'storage operation')}; seed {done.seed}, {done.seconds:.1f} s"
    )
    yield (
        f"  {counted(total['points'], 'point')}, {total['sampled']:,} of them sampled; recovered from "
        f"{counted(total['recoveries'], 'state')}, cut a second time there: {counted(total['second'], 'crash state')}"
    )
    if total["passed"]:
        yield (
            f"  SAMPLED: what is stored is too large to cut everywhere; {counted(total['points'], 'point')} of "
            f"{total['points'] + total['passed']:,} were cut, with a few states at each"
        )
    if not done.subject.has_ledger:
        yield "  what it stores itself was not judged: its rows cannot be read, only what it makes of them"
    if done.sqlite_note:
        yield f"  {done.sqlite_note}"
    if done.cut_short:
        yield f"  CUT SHORT: {done.cut_short}; this is what was found so far"
    for tally in done.tallies:
        if tally.failed:
            yield f"  FAILED: {tally.engine}[{tally.shard}]: {tally.failed}"


def _ends(done: Cuts) -> dict[Status, int]:
    out: dict[Status, int] = {}
    for prop in done.properties:
        out[prop.status] = out.get(prop.status, 0) + 1
    return out


def keep_and_show(done: Cuts, out: Path, *, as_json: bool) -> None:
    """Keep the shortest trace of each promise that broke, and print the lines and the stories, or JSON."""
    kept = {property_id: keep(trace, out) for property_id, trace in done.traces().items()}
    if as_json:
        folders = {property_id: str(one.folder) for property_id, one in kept.items() if one.folder}
        click.echo(json.dumps(done.to_json() | {"folders": folders}, indent=2))
        return
    for one in kept.values():
        click.echo(f"{one.story.text()}")
        if one.folder:
            click.echo(f"  kept in  {one.folder}\n  replay:  {one.replay}")
        click.echo()
        if one.trouble:
            click.echo(f"survives: {one.trouble}", err=True)
    click.echo("\n".join(lines(done)))
