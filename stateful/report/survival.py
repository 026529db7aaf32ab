"""The survival table of published systems, as Markdown and as one page that needs no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files

import jinja2

from model.claims import CLAIMS
from stateful.foreign.examine import REPLAYS, Examined, Row
from stateful.report.foreign import Shown, cell, counted, totals
from stateful.verdict import Status


def markdown(all_shown: Sequence[Shown]) -> str:
    """The table alone: a row a claim, a column a system."""
    heads = [s.system for s in all_shown]
    lines = [f"| claim | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for claim in CLAIMS.values():
        cells = [_marked(_row_of(s.examined, claim.id)) for s in all_shown]
        lines.append(f"| **{claim.id}**: {claim.sentence} | {' | '.join(cells)} |")
    ends = [totals(s.examined) or "not run" for s in all_shown]
    return "\n".join([*lines, f"| *together* | {' | '.join(ends)} |"])


def document(all_shown: Sequence[Shown], date: str) -> str:
    """The table, and for each system what it claims and where, what was run, and each violation with its order."""
    parts = [markdown(all_shown), "", f"Run on {date}.", ""]
    for shown in all_shown:
        parts += _section(shown)
    return "\n".join(parts)


def _section(shown: Shown) -> Iterator[str]:
    examined, hello = shown.examined, shown.examined.hello
    yield f"## {shown.system}"
    yield ""
    run = f"{counted(examined.orders, 'order')}, {counted(examined.starts, 'process start')}, "
    again = _name(examined.adapter) if examined.adapter.startswith("impl/adapters/") else examined.adapter
    yield f"{run}{counted(examined.statements, 'statement')} swept. Again: `survives table {again}`."
    if hello is not None and hello.notes:
        yield f"Note: {hello.notes}"
    for trouble in examined.troubles:
        yield f"Trouble: {trouble}"
    yield ""
    yield "| claim | in our words | where | came out |"
    yield "|---|---|---|---|"
    for row in examined.rows:
        if row.claimed is not None:
            more = " ".join(filter(None, [row.claimed.choice, str(row.claimed.limit or ""), *_without(row)]))
            says = row.claimed.says + (f" ({more})" if more else "")
            yield f"| {row.claim_id} | {says} | {row.claimed.where} | {_marked(row)} |"
    yield ""
    for row in examined.rows:
        yield from _violation(row, shown.traces.get(row.claim_id, ""))


def _without(row: Row) -> list[str]:
    assert row.claimed is not None
    return [f"excludes {name}" for name in row.claimed.excludes]


def _name(adapter: str) -> str:
    return adapter.rpartition("/")[2].removesuffix(".py")


def _violation(row: Row, trace: str) -> Iterator[str]:
    violation = row.violation
    if violation is None:
        return
    yield f"**{row.claim_id}**: {violation.detail}"
    yield ""
    yield "```text"
    for line in violation.lines:
        yield f"{'at rest, ' if line.is_rest else ''}{line.label}: {line.outcome}"
    yield "```"
    yield ""
    yield f"Seen again {violation.again} times of {REPLAYS}." + (f" `survives replay {trace}`" if trace else "")
    yield ""


def _row_of(examined: Examined, claim_id: str) -> Row | None:
    return next((r for r in examined.rows if r.claim_id == claim_id), None)


def _marked(row: Row | None) -> str:
    if row is None:
        return "not run"
    text = cell(row)
    return f"**{text}**" if row.status == Status.VIOLATED else text


def page(all_shown: Sequence[Shown], date: str) -> str:
    """The survival table as one page that needs no network."""
    source = files("stateful.report").joinpath("survival.html.j2").read_text("utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(source).render(
        systems=all_shown,
        claims=CLAIMS.values(),
        row_of=_row_of,
        cell=cell,
        date=date,
        replays=REPLAYS,
    )
