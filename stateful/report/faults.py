"""What storage faults came to, line by line, and the story of what led up to each promise that one broke."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from stateful.failures import Failed, Failures
from stateful.findings import keep
from stateful.story import counted
from stateful.verdict import Status, checked

_HEAD = ("what fails", "store", "calls", "operations", "what they answered")


def lines(done: Failures) -> Iterator[str]:
    """For a terminal."""
    weak = ",".join(f"{n}={c}" for n, c in done.contracts.weakened().items())
    mistake = f" with mistake {done.subject.mistake}" if done.subject.mistake else ""
    yield f"{done.subject.name}{mistake}, contracts {weak or 'default'}"
    if done.unsupported:
        yield f"UNSUPPORTED by this engine: {done.unsupported}; the others judge the subject: survives check"
        return
    yield ""
    yield from _table([_HEAD, *map(_cells, done.by_kind())])
    yield ""
    yield (
        f"{str(done.status).upper()} {checked(_ends(done))} in {counted(done.operations, 'operation')} that met a fault, "
        f"{counted(done.calls, 'failed call')}; seed {done.seed}, {done.seconds:.1f} s"
    )
    for left in done.left_over:
        yield f"  LEFT OVER: {left}"
    if done.sqlite_note:
        yield f"  {done.sqlite_note}"
    if done.cut_short:
        yield f"  CUT SHORT: {done.cut_short}; this is what was found so far"
    for tally in done.tallies:
        if tally.failed:
            yield f"  FAILED: {tally.engine}[{tally.shard}]: {tally.failed}"


def _cells(one: Failed) -> tuple[str, ...]:
    answered = ", ".join(f"{what} {count:,}" for what, count in one.came_to.items())
    return one.kind, one.store, f"{one.calls:,}", f"{sum(one.came_to.values()):,}", answered


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(cells[n]) for cells in rows) for n in range(len(_HEAD))]
    for kind, store, calls, operations, answered in rows:
        numbers = f"{calls:>{widths[2]}}  {operations:>{widths[3]}}"
        yield f"{kind:<{widths[0]}}  {store:<{widths[1]}}  {numbers}  {answered}".rstrip()


def _ends(done: Failures) -> dict[Status, int]:
    out: dict[Status, int] = {}
    for prop in done.properties:
        out[prop.status] = out.get(prop.status, 0) + 1
    return out


def keep_and_show(done: Failures, out: Path, *, as_json: bool) -> None:
    """Keep the order that led up to each promise that broke, and print the stories and the lines, or JSON.

    A fault is no step of an order: what failed stands in what was seen, and the order alone does not break anything.
    """
    seen = {p.property_id: p.broken.detail for p in done.properties if p.broken is not None}
    kept = {id_: keep(trace, out, seen[id_], by_fault=True) for id_, trace in done.traces().items()}
    if as_json:
        folders = {id_: str(one.folder) for id_, one in kept.items() if one.folder}
        click.echo(json.dumps(done.to_json() | {"folders": folders}, indent=2))
        return
    for one in kept.values():
        click.echo(one.story.text())
        if one.folder:
            click.echo(f"  kept in  {one.folder}")
        click.echo()
        if one.trouble:
            click.echo(f"survives: {one.trouble}", err=True)
    click.echo("\n".join(lines(done)))
