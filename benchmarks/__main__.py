"""``python -m benchmarks``: run them all, or some, and print a table or JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable

from benchmarks import (
    attempts,
    conformance,
    explorer,
    foreign,
    histories,
    kills,
    machine,
    planted,
    reduction,
    schedules,
    storage,
    walk,
)
from benchmarks.rows import Row

BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    "attempts": attempts.rows,
    "conformance": conformance.rows,
    "machine": machine.rows,
    "walk": walk.rows,
    "kills": kills.rows,
    "reduction": reduction.rows,
    "minimum": planted.rows,
    "explorer": explorer.rows,
    "histories": histories.rows,
    "schedules": schedules.rows,
    "storage": storage.rows,
    "foreign": foreign.rows,
}
_MET = {True: "yes", False: "no", None: "-"}
_HEAD = ("what", "ours", "floor", "ratio", "target", "met", "measured against")


def _cells(row: Row) -> tuple[str, ...]:
    target = "-" if row.target is None else f"{'>=' if row.higher_is_better else '<'} {row.target:g}"
    digits = 2 if row.unit == "s" else 0
    amounts = (f"{n:,.{digits}f} {row.unit}" for n in (row.ours, row.floor))
    return (row.what, *amounts, f"{row.ratio:.2f}", target, _MET[row.met], row.against)


def table(rows: Iterable[Row]) -> str:
    """The rows as text, one a line, columns aligned."""
    lines = [_HEAD, *map(_cells, rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(_HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def main() -> int:
    """Run what was asked for. The exit status says nothing of the targets: a ratio is read, not asserted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    arguments = parser.parse_args()
    rows: list[Row] = []
    for name in arguments.only or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += BENCHMARKS[name]()
    print(json.dumps([row.to_json() for row in rows], indent=2) if arguments.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
