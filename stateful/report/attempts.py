"""What attempts came to, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from model.attempts import RETRY_AFTER_MS, Setup
from stateful.attempted import Attempted
from stateful.story import counted
from stateful.verdict import checked


def lines(done: Attempted) -> Iterator[str]:
    """What was run, and what came of it."""
    total, setup = done.totals, Setup()
    yield (
        f"{str(done.status).upper()} {checked(done.ends())} that attempts can break in {counted(total['runs'], 'run')}, "
        f"{counted(total['sends'], 'send')}; seed {done.seed}, {done.seconds:.1f} s"
    )
    if done.attempts:
        only = f" ({', '.join(done.kinds)} only)" if done.kinds else ""
        ends = "exhausted" if done.bound()["exhausted"] else "NOT exhausted"
        yield (
            f"  {ends}: every script of up to {counted(done.attempts, 'answer')}, with at most "
            f"{counted(done.events, 'event')}{only} before any of their turns, each operation run once more"
        )
    if total["random"]:
        yield f"  {counted(total['random'], 'random run')} of up to 4 attempts with up to 4 events"
    came = ", ".join(f"{name} {count:,}" for name, count in done.events_by_kind.items())
    yield f"  {counted(total['turns'], 'turn')}; from outside: {came or 'nothing'}"
    yield (
        f"  in ms: an attempt may take {setup.attempt_ms}, waits {', '.join(map(str, setup.waits_ms[:3]))}, Retry-After "
        f"{RETRY_AFTER_MS}, deadline at {setup.deadline_ms}, a lease lasts {setup.lease_ms}, clean-up {setup.grace_ms}"
    )
