"""Runs of attempts in virtual time, and what the attempt runner adds to a call under each isolation.

A run is two workers on one ledger in memory and one scripted sink, side by side on the same key: an attempt that acts,
is not answered and times out, a back-off, an attempt that is told to come back, a longer wait, and a third one, which is
answered with the receipt of the first; the other worker looks in until it finds that. The floor is the same shape in
bare asyncio: no ledger, no leases, no question to the sink.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.rows import Row, by_turns, rate_of
from impl.attempts import AttemptRunner
from impl.runner import Policy
from model.attempts import Said
from model.contracts import AttemptTimeout, Contracts
from model.words import Kind
from stateful.attempts.course import KEY
from stateful.attempts.given import Longest, MemoryFiles
from stateful.attempts.search import every_run
from stateful.attempts.sink import ScriptedSink
from stateful.attempts.system import AttemptSystem
from stateful.subject import load_subject
from stateful.virtual import VirtualLoop

RUNS = 300
PEERS = {"detangle": 726, "seedloop": 694, "simloom": 125}
"""What kept libraries reach with virtual-time asyncio runs, runs a second."""
TARGET_RATE = 700
SCRIPT = (Said.SILENT, Said.TOO_MANY_UNTIL, Said.DONE)
LOOKS_IN_MS = 25
"""How often the other worker looks whether the key is free, or done."""
ATTEMPT_MS, WAIT_MS, ASKED_WAIT_MS, ANSWER_MS = 20, 10, 30, 5

CALLS = 2_000
FORKS = 200
LONG_MS = 60_000
"""A timeout that does not ring."""
OVERHEAD_MAX = 3
SEARCHED_ATTEMPTS = 2


# -- two workers --------------------------------------------------------------------------------------------------


async def _until_done(runner: Any) -> Kind:
    """Run the key, and look in again as long as another has it."""
    while (ending := await runner.run(KEY)).kind in {Kind.REFUSED, Kind.UNKNOWN}:  # noqa: ASYNC110 - as workers poll
        await asyncio.sleep(LOOKS_IN_MS / 1000)
    return Kind(ending.kind)


def _side_by_side(system: AttemptSystem) -> None:
    """One run of two workers, from the template stores."""
    loop, setup = system.loop, system.setup
    system.medium.put_back()
    loop.reset()
    loop.at_turn = loop.tie = None
    answers = iter(SCRIPT)
    sink = ScriptedSink(loop, system.contracts, setup.attempt_ms, lambda: next(answers))
    files = MemoryFiles()
    policy = Policy(setup.attempt_ms, setup.waits_ms[0], max(setup.waits_ms), setup.grace_ms)
    workers = [
        system.subject.make(system._site(None, files, setup.max_attempts, name))  # noqa: SLF001 - as its own runs do
        for name in ("w1", "w2")
    ]
    runners = [worker.runner(sink, policy, draws=Longest()) for worker in workers]

    async def both() -> list[Kind]:
        return await asyncio.gather(*map(_until_done, runners))

    kinds = loop.run_until_complete(both())
    loop.bury()
    for worker in workers:
        worker.close()
    if kinds != [Kind.REPLAYED] * 2 or len(sink.effects) != 1 or len(sink.sends) != len(SCRIPT):
        raise RuntimeError(f"two workers came to {kinds}, {len(sink.sends)} sends and {len(sink.effects)} effects")


def _runs(system: AttemptSystem) -> int:
    for _ in range(RUNS):
        _side_by_side(system)
    return RUNS


# -- the floor ----------------------------------------------------------------------------------------------------


class JumpingLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, on a clock that jumps to whatever is scheduled next."""

    now_s = 0.0

    def time(self) -> float:
        """Seconds since it was made."""
        return self.now_s

    def _run_once(self) -> None:
        if not self._ready:  # type: ignore[attr-defined]
            due = (timer.when() for timer in self._scheduled if not timer.cancelled())  # type: ignore[attr-defined]
            self.now_s = max(self.now_s, min(due, default=0))
        super()._run_once()  # type: ignore[misc]


async def _bare() -> int:
    """The same attempts and waits with a dictionary for a ledger; how often it sent."""
    held: dict[str, str] = {}
    sent = 0

    async def send(said: Said) -> str:
        if said is Said.SILENT:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(ANSWER_MS / 1000)
        return "r-1" if said is Said.DONE else ""

    async def works() -> None:
        nonlocal sent
        held[KEY] = ""
        for said, wait_ms in zip(SCRIPT, (WAIT_MS, ASKED_WAIT_MS, 0), strict=True):
            sent += 1
            try:
                async with asyncio.timeout(ATTEMPT_MS / 1000):
                    held[KEY] = await asyncio.ensure_future(send(said))
            except TimeoutError:
                held[KEY] = ""
            if wait_ms:
                await asyncio.sleep(wait_ms / 1000)

    async def looks_in() -> None:
        while not held[KEY]:  # noqa: ASYNC110 - as the worker does
            await asyncio.sleep(LOOKS_IN_MS / 1000)

    await asyncio.gather(works(), looks_in())
    return sent


def _bare_runs(run: Callable[[Awaitable[int]], int]) -> int:
    for _ in range(RUNS):
        if run(_bare()) != len(SCRIPT):
            raise RuntimeError("the bare scenario did not send as often as it should")
    return RUNS


def _on_virtual(loop: VirtualLoop) -> Callable[[Awaitable[int]], int]:
    def run(scenario: Awaitable[int]) -> int:
        loop.reset()
        sent: int = loop.run_until_complete(scenario)
        return sent

    return run


def _on_jumping(scenario: Awaitable[int]) -> int:
    loop = JumpingLoop()
    try:
        return loop.run_until_complete(scenario)
    finally:
        loop.close()


def _two_workers(system: AttemptSystem) -> list[Row]:
    virtual = VirtualLoop()  # type: ignore[abstract]  # it has what a coroutine without sockets asks for
    ours, bare, jumping = by_turns(
        lambda: rate_of(lambda: _runs(system)),
        lambda: rate_of(lambda: _bare_runs(_on_virtual(virtual))),
        lambda: rate_of(lambda: _bare_runs(_on_jumping)),
    )
    what = "attempts, two workers"
    peers = ", ".join(f"{name} {rate}" for name, rate in PEERS.items())
    return [
        Row(what, f"{TARGET_RATE}; peers: {peers}", "runs/s", ours, TARGET_RATE, 1),
        Row(what, "bare coroutines, the virtual loop", "runs/s", ours, bare),
        Row(what, "bare coroutines, asyncio's loop with a clock that jumps, new each run", "runs/s", ours, jumping),
    ]


# -- exhaustive ---------------------------------------------------------------------------------------------------


def _search(system: AttemptSystem) -> int:
    """Every script of answers and every order of what is simultaneous; how many runs that was."""
    runs = 0
    for ran in every_run(system, SEARCHED_ATTEMPTS, events=0):
        if ran.trouble:
            raise RuntimeError(f"a run broke: {ran.trouble}")
        runs += 1
    return runs


def _searched() -> Row:
    with AttemptSystem(load_subject(), Contracts()) as system:
        (ours,) = by_turns(lambda: rate_of(lambda: _search(system)))
    peer = max(PEERS, key=PEERS.__getitem__)
    return Row("attempts, every run of 2", f"{peer}, runs it does not enumerate", "runs/s", ours, PEERS[peer])


# -- one attempt --------------------------------------------------------------------------------------------------


async def _yields() -> None:
    await asyncio.sleep(0)


async def _returns() -> None:
    pass


def _nothing() -> None:
    pass


async def _timed(once: Callable[[], Awaitable[Any]], times: int) -> float:
    """Microseconds each time, on the loop that runs."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(times):
        await once()
    return (loop.time() - began) / times * 1_000_000


def _us(once: Callable[[], Awaitable[Any]], times: int = CALLS) -> float:
    return asyncio.run(_timed(once, times))


async def _bare_timeout() -> None:
    async with asyncio.timeout(LONG_MS / 1000):
        await _yields()


async def _bare_task() -> None:
    await asyncio.ensure_future(_returns())


async def _bare_thread() -> None:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[None] = loop.create_future()
    threading.Thread(target=loop.call_soon_threadsafe, args=(answer.set_result, None), daemon=True).start()
    await answer


async def _bare_process() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)  # noqa: ASYNC222 - it ends at once


def _attempt(isolation: AttemptTimeout, call: Callable[[], Any]) -> Callable[[], Awaitable[Any]]:
    runner = AttemptRunner(isolation)
    return lambda: runner.attempt(call, timeout_ms=LONG_MS)


def _overhead() -> Row:
    """What the runner adds to a call that yields once, on a real loop."""
    supervised = _attempt(AttemptTimeout.COOPERATIVE, _yields)
    ours, floor = by_turns(lambda: _us(supervised), lambda: _us(_bare_timeout))
    what, against = "attempts, a call that yields once", "asyncio.timeout around it"
    return Row(what, against, "us", ours, floor, OVERHEAD_MAX, higher_is_better=False)


def _isolations() -> list[Row]:
    """What setting up, supervising and ending an attempt costs whose call does nothing."""
    cases: list[tuple[AttemptTimeout, Callable[[], Any], Callable[[], Awaitable[None]], str, int]] = [
        (AttemptTimeout.COOPERATIVE, _returns, _bare_task, "a bare task", CALLS),
        (AttemptTimeout.THREAD, _nothing, _bare_thread, "a bare thread that tells the loop", CALLS),
        (AttemptTimeout.PROCESS, _nothing, _bare_process, "fork, exit, wait", FORKS),
    ]
    out: list[Row] = []
    for isolation, call, bare, against, times in cases:
        supervised = _attempt(isolation, call)
        ours, floor = by_turns(
            lambda once=supervised, n=times: _us(once, n),  # type: ignore[misc]
            lambda once=bare, n=times: _us(once, n),  # type: ignore[misc]
        )
        out.append(Row(f"attempts, an empty call, {isolation}", against, "us", ours, floor, higher_is_better=False))
    return out


def rows() -> list[Row]:
    """Runs a second of two workers and of every script, and microseconds an attempt."""
    with AttemptSystem(load_subject(), Contracts()) as system:
        out = _two_workers(system)
    return [*out, _searched(), _overhead(), *_isolations()]
