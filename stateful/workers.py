"""Worker processes: shards run in fresh processes of their own, a few at a time, and are ended together.

A fresh process is single-threaded and has loaded next to nothing, which is what forking engines need, and a subject
that ends its process or floods its output harms only its shard.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import multiprocess
from attrs import define, frozen
from multiprocess import connection as mp_connection
from multiprocess import resource_tracker

from stateful.shard import Shard, serve
from stateful.verdict import Tally

POLL_SECONDS = 0.2
STOPS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@frozen
class Report:
    """Where a campaign stands: the shards that have ended, and those that are under way."""

    ended: tuple[Tally, ...]
    under_way: tuple[Tally, ...]


class Interrupted(Exception):  # noqa: N818 - an event, not an error
    """The campaign was stopped; ``tallies`` holds what there is."""

    def __init__(self, why: str, tallies: list[Tally]) -> None:
        super().__init__(why)
        self.why = why
        self.tallies = tallies


@define
class _Running:
    """A shard under way, its process, and the last that was heard of it."""

    index: int
    process: Any
    pipe: Any
    tally: Tally
    done: bool = False


def run_shards(
    shards: list[Shard],
    workers: int,
    limit: float,
    report: Callable[[Report], None] | None,
    before: list[Tally],
) -> list[Tally]:
    """Run shards, ``workers`` at a time, until ``limit`` on the monotonic clock; their tallies in the shards' order.

    Raises Interrupted, with what there is, on Ctrl-C, on SIGTERM and at the limit.
    """
    context = multiprocess.get_context("spawn")
    results: dict[int, Tally] = {}
    waiting = list(enumerate(shards))
    running: list[_Running] = []
    try:
        with terminating():
            while waiting or running:
                while waiting and len(running) < workers:
                    running.append(_started(context, *waiting.pop(0)))
                _listen(running)
                for one in [r for r in running if r.done]:
                    running.remove(one)
                    results[one.index] = one.tally
                if report is not None:
                    report(Report((*before, *results.values()), tuple(r.tally for r in running)))
                if time.monotonic() > limit:
                    raise Interrupted("it took too long", _so_far(results, running))
    except KeyboardInterrupt:
        raise Interrupted("it was interrupted", _so_far(results, running)) from None
    finally:
        for one in running:
            _end(one)
    return [results[i] for i in range(len(shards))]


def _so_far(results: dict[int, Tally], running: list[_Running]) -> list[Tally]:
    return [*(results[i] for i in sorted(results)), *(r.tally for r in sorted(running, key=lambda r: r.index))]


def _started(context: Any, index: int, shard: Shard) -> _Running:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(shard, theirs), daemon=True, name=f"survives {shard.name}")
    start(process)
    theirs.close()
    return _Running(index, process, ours, Tally(shard.engine, shard.index))


def start(process: Any) -> None:
    """Start a process that a signal to the whole group does not interrupt before it can see to that itself."""
    resource_tracker.ensure_running()  # it would let the signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _listen(running: list[_Running]) -> None:
    for pipe in mp_connection.wait([r.pipe for r in running], POLL_SECONDS):
        one = next(r for r in running if r.pipe is pipe)
        try:
            what, content = pipe.recv()
        except (EOFError, OSError):
            one.process.join()
            status = one.process.exitcode
            one.tally.failed = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
            one.done = True
            _end(one)
            continue
        if what == "failed":
            one.tally.failed = content
        else:
            one.tally = content
        if what != "progress":
            one.done = True
            _end(one)


def _end(one: _Running) -> None:
    """End a shard's process and all that it forked."""
    with suppress(ProcessLookupError, PermissionError):
        if one.process.pid is not None and not one.done:
            os.killpg(one.process.pid, signal.SIGKILL)
    if not one.done:
        one.process.kill()
    one.process.join()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(one.process.pid, signal.SIGKILL)  # what it left behind
    one.pipe.close()
    one.process.close()


@contextmanager
def terminating() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C, so that nothing is left behind."""

    def stop(signum: int, frame: Any) -> None:
        raise KeyboardInterrupt

    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]  # nohup
    try:
        before = {number: signal.signal(number, stop) for number in numbers}
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
