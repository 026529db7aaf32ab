"""What standard programs came to under every schedule, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from stateful.findings import keep
from stateful.interleave import Interleaved, Row
from stateful.story import counted
from stateful.verdict import Status

_HEAD = ("program", "schedules", "nodes", "crash states", "seconds", "")


def lines(done: Interleaved) -> Iterator[str]:
    """For a terminal: a line a program, then what it comes to, and within which bound."""
    weak = ",".join(f"{n}={c}" for n, c in done.contracts.weakened().items())
    mistake = f" with mistake {done.subject.mistake}" if done.subject.mistake else ""
    yield f"{done.subject.name}{mistake}, contracts {weak or 'default'}; {done.size.label}"
    yield ""
    table = [_HEAD, *(_cells(row) for row in done.rows)]
    widths = [max(len(cells[n]) for cells in table) for n in range(len(_HEAD))]
    for cells in table:
        first, *numbers, last = zip(cells, widths, strict=True)
        right = "  ".join(f"{text:>{width}}" for text, width in numbers)
        yield f"{first[0]:<{first[1]}}  {right}  {last[0]}".rstrip()
    yield ""
    yield _verdict(done)
    yield f"  seen: {', '.join(done.witnesses()) or 'nothing'}"
    if done.total("deadlocks"):
        yield f"  {counted(done.total('deadlocks'), 'deadlock')}: whoever was left waited for a lock, and was told BUSY"
    if done.cut_short:
        yield f"  CUT SHORT: {done.cut_short}; this is what was found so far"


def _cells(row: Row) -> tuple[str, ...]:
    done = row.tally.schedules
    sampled = f"+{done['sampled']:,}" if done["sampled"] else ""
    numbers = (f"{done['schedules']:,}{sampled}", f"{done['nodes']:,}", f"{done['crash_states']:,}")
    return (row.name, *numbers, f"{row.tally.seconds:.1f}", _said(row))


def _said(row: Row) -> str:
    if row.tally.broken:
        return f"VIOLATED {', '.join(row.tally.broken)}"
    if row.tally.unsupported:
        return f"UNSUPPORTED by this engine: {row.tally.unsupported}"
    if row.tally.failed:
        return f"FAILED: {row.tally.failed}"
    if row.tally.schedules["undecided"]:
        return "UNKNOWN: a history was too large to judge"
    if row.tally.schedules["cut"]:
        return "CUT: a schedule did not end within its bound"
    return "exhausted" if row.is_exhausted else "bounded"


def _verdict(done: Interleaved) -> str:
    rows = len(done.rows)
    size = (
        f"{counted(done.total('schedules'), 'schedule')}, {counted(done.total('nodes'), 'node')}, "
        f"{counted(done.total('crash_states'), 'crash state')}, {done.seconds:.1f} s"
    )
    if done.status is Status.VIOLATED:
        broken = sum(bool(row.tally.broken) for row in done.rows)
        return f"VIOLATED by {broken} of {counted(rows, 'program')}: {size}"
    if done.status is Status.UNSUPPORTED:
        return "UNSUPPORTED by this engine; the others judge the subject: survives check"
    if done.status is Status.SURVIVED:
        return f"EXHAUSTED without a violation, within that bound: {counted(rows, 'program')}, {size}"
    left = sum(not row.is_exhausted for row in done.rows)
    return f"UNKNOWN: {left} of {counted(rows, 'program')} not exhausted, no violation so far: {size}"


def keep_and_show(done: Interleaved, out: Path, *, as_json: bool) -> None:
    """Keep the shortest trace of each promise that broke, and print the table and the stories, or JSON."""
    kept = {property_id: keep(trace, out) for property_id, trace in done.traces().items()}
    if as_json:
        folders = {property_id: str(one.folder) for property_id, one in kept.items() if one.folder}
        click.echo(json.dumps(done.to_json() | {"folders": folders}, indent=2))
        return
    click.echo("\n".join(lines(done)))
    for one in kept.values():
        click.echo(f"\n{one.story.text()}")
        if one.folder:
            click.echo(f"  kept in  {one.folder}\n  replay:  {one.replay}")
        if one.trouble:
            click.echo(f"survives: {one.trouble}", err=True)
