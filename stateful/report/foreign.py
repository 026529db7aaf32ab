"""What a foreign system's examination looks like: a line a claim, a story a violation, and the table of all systems."""

from __future__ import annotations

import sys
from typing import Any

from attrs import frozen
from rich.console import Console
from rich.markup import escape

from model.claims import CLAIMS
from stateful.foreign.examine import HOLDS, REPLAYS, UNCLAIMED, Examined, Row
from stateful.verdict import Status

STYLE = {
    HOLDS: "green",
    str(Status.VIOLATED): "bold red",
    str(Status.UNSUPPORTED): "dim",
    UNCLAIMED: "dim",
    str(Status.UNKNOWN): "yellow",
    str(Status.VACUOUS): "yellow",
}
WIDTH = 120


def counted(number: int, noun: str) -> str:
    """``1 order``, ``2 orders``."""
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"


@frozen
class Shown:
    """An examination, and per claim where its trace is kept."""

    examined: Examined
    traces: dict[str, str]

    @property
    def system(self) -> str:
        """The system's name and version."""
        hello = self.examined.hello
        if hello is None:
            return self.examined.adapter
        return f"{hello.system} {hello.system_version}".strip()


def cell(row: Row) -> str:
    """A claim's end in a few words."""
    if row.status == HOLDS:
        stuck = f", {row.stuck} until an operator acts" if row.stuck else ""
        return f"holds ({counted(row.orders, 'order')}{stuck})"
    if row.status == Status.VIOLATED:
        return f"violated ({row.orders:,})"
    return str(row.status)


def console() -> Console:
    """Standard output, with lines as long as they are where it is no terminal."""
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDTH)


def show(shown: Shown, out: Console | None = None) -> None:
    """Print one examination."""
    out = out or console()
    examined = shown.examined
    out.print(f"{shown.system}, driven by {examined.adapter}\n", markup=False)
    for row in examined.rows:
        if row.status == UNCLAIMED:
            continue
        _row(out, row)
    unclaimed = [r.claim_id for r in examined.rows if r.status == UNCLAIMED]
    if unclaimed:
        out.print(f"unclaimed    {', '.join(unclaimed)}", markup=False)
    for row in examined.rows:
        if row.violation is not None:
            _story(out, row, shown.traces.get(row.claim_id, ""))
    _bound(out, examined)


def _row(out: Console, row: Row) -> None:
    claim = CLAIMS[row.claim_id]
    choice = f" [{row.claimed.choice}]" if row.claimed and row.claimed.choice else ""
    limit = f" [{row.claimed.limit}]" if row.claimed and row.claimed.limit else ""
    more = f"; {row.why}" if row.why else ""
    stuck = f", of which {row.stuck} end waiting for an operator" if row.stuck and row.status == HOLDS else ""
    status = f"{row.status!s:<11}"
    said = f"{claim.sentence}{choice}{limit} ({counted(row.orders, 'order')}{stuck}{more})"
    out.print(f"[{STYLE[str(row.status)]}]{status}[/]  {escape(said)}")


def _story(out: Console, row: Row, trace: str) -> None:
    violation = row.violation
    assert violation is not None
    assert row.claimed is not None
    out.print()
    out.print(f"{row.claim_id}: {violation.detail}", markup=False)
    if row.claimed.says:
        where = f" ({row.claimed.where})" if row.claimed.where else ""
        out.print(f"  claimed: {row.claimed.says}{where}", markup=False)
    for number, line in enumerate(violation.lines, start=1):
        rest = "  at rest, " if line.is_rest else "  "
        out.print(f"{rest}{number}  {line.label}: {line.outcome}", markup=False)
    out.print(f"  seen again {violation.again} times of {REPLAYS}", markup=False)
    if not violation.minimal:
        out.print("  (not one-minimal: it could not be reduced further within its bound)", markup=False)
    if trace:
        out.print(f"  replay:  survives replay {trace}", markup=False)


def _swept(examined: Examined) -> str:
    files = f" and {counted(examined.operations, 'file operation')}" if examined.operations else ""
    return counted(examined.statements, "statement") + files


def totals(examined: Examined) -> str:
    """``3 hold, 1 violated, 13 unclaimed``."""
    return ", ".join(f"{n} {'hold' if name == HOLDS else name}" for name, n in examined.totals().items() if n)


def _bound(out: Console, examined: Examined) -> None:
    ends = totals(examined)
    style = STYLE.get(str(examined.status), "green")
    status = str(examined.status).upper()
    out.print()
    out.print(
        f"[{style}]{status}[/] {escape(ends or 'nothing was judged')}; {counted(examined.orders, 'order')}, "
        f"{counted(examined.starts, 'process start')}, {_swept(examined)} swept; "
        f"{examined.seconds:.1f} s"
    )
    for name in examined.skipped:
        out.print(f"  not run, as it waits in real time: {name}", markup=False)
    if examined.hello and examined.hello.notes:
        out.print(f"  note: {examined.hello.notes}", markup=False)
    if examined.left_behind:
        names = sorted({left.partition(" ")[2] for left in examined.left_behind})
        count = counted(len(examined.left_behind), "process")
        out.print(f"  LEFT BEHIND: {count} that outlived a parent, {', '.join(names)}; ended", markup=False)
    for trouble in examined.troubles:
        out.print(f"  TROUBLE: {trouble}", markup=False)


def to_json(shown: Shown) -> dict[str, Any]:
    """An examination for machines. What depends on the machine is under ``timing``."""
    examined = shown.examined
    hello = examined.hello
    return {
        "format": "survives-claims",
        "version": 1,
        "adapter": examined.adapter,
        "system": hello.system if hello else "",
        "system_version": hello.system_version if hello else "",
        "status": str(examined.status),
        "totals": examined.totals(),
        "claims": [_row_json(row, shown.traces.get(row.claim_id, "")) for row in examined.rows],
        "bound": {
            "orders": examined.orders,
            "process_starts": examined.starts,
            "statements": examined.statements,
            "file_operations": examined.operations,
            "not_run": list(examined.skipped),
        },
        "notes": hello.notes if hello else "",
        "troubles": list(examined.troubles),
        "left_behind": list(examined.left_behind),
        "timing": {"seconds": round(examined.seconds, 3)},
    }


def _row_json(row: Row, trace: str) -> dict[str, Any]:
    out: dict[str, Any] = {"id": row.claim_id, "status": str(row.status), "orders": row.orders, "stuck": row.stuck}
    if row.claimed is not None:
        out |= {"says": row.claimed.says, "where": row.claimed.where}
        out |= {"choice": row.claimed.choice} if row.claimed.choice else {}
        out |= {"limit": row.claimed.limit} if row.claimed.limit else {}
        out |= {"excludes": list(row.claimed.excludes)} if row.claimed.excludes else {}
    if row.why:
        out["why"] = row.why
    if row.violation is not None:
        out["violation"] = {
            "detail": row.violation.detail,
            "order": row.violation.order.name,
            "steps": [line.label for line in row.violation.lines if not line.is_rest],
            "seen_again": row.violation.again,
            "trace": trace,
        }
    return out
