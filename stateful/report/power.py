"""What power cuts came to, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from stateful.cuts import Cuts
from stateful.story import counted
from stateful.verdict import checked


def lines(done: Cuts) -> Iterator[str]:
    """What was cut, and what came of it."""
    total = done.totals
    yield (
        f"{str(done.status).upper()} {checked(done.ends())} in {counted(total['states'], 'crash state')} of "
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
