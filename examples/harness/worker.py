"""A worker of the lesson: one process with its dispatcher, and a sink at the other end of a wire.

Time is virtual: it jumps to the next timer, so that timeouts and waits are real in every way but that they take none.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from attrs import frozen

from impl.protocol import Json, Request, SinkAnswer, Site
from impl.runner import Ending, OperationRunner, Policy
from impl.sqlite import RealFiles, SqliteDispatcher, SqliteSink
from model import Contracts, Limits
from stateful.virtual import VirtualLoop

APPROVER, APPROVER_KEY = "alice", b"a key for this lesson alone"
LIMITS = Limits()
POLICY = Policy(attempt_ms=50, backoff_ms=10)
"""An attempt that takes longer is interrupted; the next one comes 10 ms later, then 20, then 40."""


@frozen
class VirtualClock:
    """Logical time is the loop's: it jumps to the next timer, and nobody waits for it."""

    loop: VirtualLoop

    def now_ms(self) -> int:
        """Milliseconds on the clock that all workers share."""
        return self.loop.now_ms

    def wall_ms(self) -> int:
        """Milliseconds on a wall clock that nobody has set wrong."""
        return self.loop.now_ms


@frozen
class Wire:
    """The sink as its clients see it: a call takes a millisecond, and can be interrupted meanwhile."""

    sink: SqliteSink

    async def apply(self, request: Request) -> SinkAnswer:
        """Act once."""
        await asyncio.sleep(0.001)
        return self.sink.apply(request)

    async def lookup(self, key: str, payload: Json, token: int) -> SinkAnswer:
        """What became of a key."""
        await asyncio.sleep(0.001)
        return self.sink.lookup(key, payload, token)


class LongestWaits:
    """No jitter: one worker alone has nobody to keep out of step with."""

    @staticmethod
    def randint(_a: int, b: int) -> int:
        """The most that may be waited."""
        return b


def sink_path(folder: Path) -> Path:
    """Where the sink keeps its effects: apart from the dispatcher, as another company's service would."""
    return folder / "sink" / "sink.db"


@frozen
class Worker:
    """One process: its dispatcher, the sink that it has never seen the inside of, and its event loop."""

    dispatcher: SqliteDispatcher
    sink: SqliteSink
    loop: VirtualLoop

    def runner(self, wire: Wire | None = None) -> OperationRunner:
        """What takes an operation through attempts, waits, deadline and cancellation, with the ledger's leave."""
        return self.dispatcher.runner(wire or Wire(self.sink), POLICY, draws=LongestWaits())

    def run(self, key: str, wire: Wire | None = None) -> Ending:
        """Take a submitted operation to its end, checkpoint included."""
        return self.loop.run_until_complete(self.runner(wire).run(key))


@contextmanager
def worker_at(folder: Path, now_ms: int) -> Iterator[Worker]:
    """A worker under the default contracts, which are those that survive; it starts at an instant of logical time."""
    loop, contracts = VirtualLoop(), Contracts()
    loop.stall(now_ms * 1000)
    clock = VirtualClock(loop)
    home = folder / "dispatcher"
    home.mkdir(parents=True, exist_ok=True)
    with closing(SqliteSink(sink_path(folder), sqlite3.connect, clock, contracts)) as sink:
        site = Site(
            folder=home,
            worker=f"worker-{os.getpid()}",
            contracts=contracts,
            limits=LIMITS,
            clock=clock,
            files=RealFiles(),
            sink=sink,
            connect=sqlite3.connect,
            approver_keys={APPROVER: APPROVER_KEY},
            lease_ms=LIMITS.lease_ms,
            live_settings={},
        )
        with closing(SqliteDispatcher(site)) as dispatcher:
            yield Worker(dispatcher, sink, loop)
