"""What one engine alone came to: the head and the foot that all of them share, and the story of each broken promise."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from stateful.findings import keep
from stateful.swept import Swept


def framed(done: Swept, body: Iterable[str]) -> Iterator[str]:
    """A report for a terminal: what was tested, what came of it, and what went wrong on the way."""
    weak = ",".join(f"{n}={c}" for n, c in done.contracts.weakened().items())
    mistake = f" with mistake {done.subject.mistake}" if done.subject.mistake else ""
    yield f"{done.subject.name}{mistake}, contracts {weak or 'default'}"
    if done.unsupported:
        yield f"UNSUPPORTED by this engine: {done.unsupported}; the others judge the subject: survives check"
        return
    yield from body
    if done.sqlite_note:
        yield f"  {done.sqlite_note}"
    if done.cut_short:
        yield f"  CUT SHORT: {done.cut_short}; this is what was found so far"
    for tally in done.tallies:
        if tally.failed:
            yield f"  FAILED: {tally.engine}[{tally.shard}]: {tally.failed}"


def keep_and_show(done: Swept, body: Iterable[str], out: Path, *, as_json: bool, by_fault: bool = False) -> None:
    """Keep a trace of each promise that broke, and print the stories and the report, or JSON.

    With ``by_fault`` the traces lead up to what storage did, which is no step of an order: nothing replays it.
    """
    seen = {p.property_id: p.broken.detail for p in done.properties if p.broken is not None}
    kept = {
        id_: keep(trace, out, seen[id_] if by_fault else "", by_fault=by_fault)
        for id_, trace in done.traces().items()
    }
    if as_json:
        folders = {id_: str(one.folder) for id_, one in kept.items() if one.folder}
        click.echo(json.dumps(done.to_json() | {"folders": folders}, indent=2))
        return
    for one in kept.values():
        click.echo(one.story.text())
        if one.folder:
            click.echo(f"  kept in  {one.folder}" + ("" if by_fault else f"\n  replay:  {one.replay}"))
        click.echo()
        if one.trouble:
            click.echo(f"survives: {one.trouble}", err=True)
    click.echo("\n".join(framed(done, body)))
