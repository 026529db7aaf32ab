"""What storage faults came to, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from stateful.failures import Failed, Failures
from stateful.story import counted
from stateful.verdict import checked

_HEAD = ("what fails", "store", "calls", "operations", "what they answered")


def lines(done: Failures) -> Iterator[str]:
    """What failed, and what came of it."""
    yield ""
    yield from _table([_HEAD, *map(_cells, done.by_kind())])
    yield ""
    yield (
        f"{str(done.status).upper()} {checked(done.ends())} in {counted(done.operations, 'operation')} that met a fault, "
        f"{counted(done.calls, 'failed call')}; seed {done.seed}, {done.seconds:.1f} s"
    )
    for left in done.left_over:
        yield f"  LEFT OVER: {left}"


def _cells(one: Failed) -> tuple[str, ...]:
    answered = ", ".join(f"{what} {count:,}" for what, count in one.came_to.items())
    return one.kind, one.store, f"{one.calls:,}", f"{sum(one.came_to.values()):,}", answered


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(cells[n]) for cells in rows) for n in range(len(_HEAD))]
    for kind, store, calls, operations, answered in rows:
        numbers = f"{calls:>{widths[2]}}  {operations:>{widths[3]}}"
        yield f"{kind:<{widths[0]}}  {store:<{widths[1]}}  {numbers}  {answered}".rstrip()
