"""The virtual loop: its clock, its turns, and how far it is asyncio's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import itertools
import math
import random
import socket
import time

import pytest

from stateful.attempts.choices import Choices
from stateful.virtual import Frozen, TooManyTurnsError, VirtualLoop
from stateful.virtual import loop as virtual_loop


class JumpingLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop on a clock that jumps: what is measured against."""

    now_s = 0.0

    def time(self):
        return self.now_s

    def _run_once(self):
        while self._scheduled and self._scheduled[0].cancelled():
            heapq.heappop(self._scheduled)._scheduled = False
            self._timer_cancelled_count -= 1
        if not self._ready and self._scheduled:
            self.now_s = max(self.now_s, self._scheduled[0].when())
        super()._run_once()


def on_stock(coroutine):
    """What a coroutine returns on asyncio's own loop."""
    loop = JumpingLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def now_ms():
    return round(asyncio.get_running_loop().time() * 1000)


async def for_ever():
    await asyncio.get_running_loop().create_future()


# -- the clock ----------------------------------------------------------------------------------------------------


def test_the_clock_jumps_to_the_next_timer():
    """A day passes at once, and each sleeper wakes at its own instant."""

    async def sleeps(hours):
        await asyncio.sleep(hours * 3600)
        return now_ms() // 3_600_000

    async def main():
        return await asyncio.gather(sleeps(24), sleeps(1), sleeps(7))

    loop = VirtualLoop()

    assert [24, 1, 7] == loop.run_until_complete(main())
    assert 24 * 3_600_000 == loop.now_ms


def test_nothing_real_is_used(monkeypatch):
    """No socket is made, nobody sleeps and nobody waits for a selector."""

    def never(*_args, **_kwargs):
        raise AssertionError("that is real")

    monkeypatch.setattr(socket, "socketpair", never)
    monkeypatch.setattr(socket, "socket", never)
    monkeypatch.setattr(time, "sleep", never)
    monkeypatch.setattr(time, "monotonic", never)
    monkeypatch.setattr("selectors.DefaultSelector", never)
    monkeypatch.setattr("threading.Thread.start", never)

    async def main():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3600):
                await for_ever()
        return now_ms()

    assert 3_600_000 == VirtualLoop().run_until_complete(main())


def test_time_is_whole_microseconds():
    """A third of a second, three times, is what can be counted and no float's error."""

    async def main():
        for _ in range(3):
            await asyncio.sleep(1 / 3)

    loop = VirtualLoop()
    loop.run_until_complete(main())

    assert 999_999 == loop.now_us


def test_a_cancelled_timer_moves_no_clock():
    """What was to ring and was cancelled does not let time pass."""

    async def main():
        async with asyncio.timeout(50):
            await asyncio.sleep(1)
        await asyncio.sleep(100)

    loop = VirtualLoop()
    loop.run_until_complete(main())

    assert 101_000 == loop.now_ms


def test_an_infinite_wait_is_no_timer():
    """A sleep without an end is one, as on asyncio's own loop, and a timeout ends it."""

    async def main():
        async with asyncio.timeout(2):
            await asyncio.sleep(math.inf)

    loop = VirtualLoop()
    with pytest.raises(TimeoutError):
        loop.run_until_complete(main())

    assert 2_000 == loop.now_ms


def test_a_stall_lets_time_pass_and_timers_ring_late():
    """Who sleeps through its timer wakes after the stall; what is not due then rings at its instant."""
    woke = []

    async def sleeps(ms):
        await asyncio.sleep(ms / 1000)
        woke.append((ms, now_ms()))

    async def main():
        await asyncio.gather(*map(sleeps, (5, 10, 40)))

    loop = VirtualLoop()
    loop.at_turn = lambda turn: loop.stall(30_000) if turn == 5 else None
    loop.run_until_complete(main())

    assert [(5, 30), (10, 30), (40, 40)] == woke


def test_time_never_goes_back():
    """A stall until an instant that has passed is none."""
    loop = VirtualLoop()
    loop.stall(7_000)
    loop.stall(3_000)

    assert (7, 0.007) == (loop.now_ms, loop.time())


# -- equal timers -------------------------------------------------------------------------------------------------


def woken(tie):
    """The order in which three wake who sleep until the same instant, one of them set long before."""
    order = []

    async def sleeps(name, *waits_ms):
        for ms in waits_ms:
            await asyncio.sleep(ms / 1000)
        order.append(name)

    async def main():
        await asyncio.gather(sleeps("a", 10), sleeps("b", 4, 6), sleeps("c", 9, 1))

    VirtualLoop(tie=tie).run_until_complete(main())
    return "".join(order)


def test_equal_timers_come_in_every_order():
    """A search over the ties finds all six orders of three, each once."""
    choices, found = Choices(), []
    while not found or choices.advance():
        found.append(woken(choices))

    assert sorted(map("".join, itertools.permutations("abc"))) == sorted(found)


def test_equal_timers_come_as_they_were_set():
    """Nobody who chooses: first set, first rung. That is the choice of 0, too."""
    assert ("abc", "abc") == (woken(None), woken(lambda _count: 0))


def test_a_tie_is_asked_with_how_many_are_left():
    """Of three the first is chosen, then of two; one timer alone is no tie, nor is a cancelled one."""
    asked = []

    def tie(count):
        asked.append(count)
        return count - 1

    async def main():
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, lambda: None).cancel()
        await asyncio.sleep(0.01)

    assert "cba" == woken(tie)
    VirtualLoop(tie=tie).run_until_complete(main())

    assert [3, 2] == asked


# -- turns --------------------------------------------------------------------------------------------------------


async def three_steps(story):
    """A task in a task, with clean-up that takes time."""

    async def inner():
        try:
            for n in range(3):
                story.append(f"step {n}")
                await asyncio.sleep(0.01)
        finally:
            story.append("cleans up")
            await asyncio.sleep(0.005)
            story.append("clean")

    await asyncio.create_task(inner())


def test_every_turn_is_announced():
    """``at_turn`` is called before each turn with its number, from 1, and nothing of it has run then."""
    story = []
    loop = VirtualLoop(at_turn=story.append)
    loop.run_until_complete(three_steps(story))

    assert [1, 2, "step 0"] == story[:3]
    assert list(range(1, loop.turns + 1)) == [one for one in story if isinstance(one, int)]


@pytest.mark.parametrize("n", range(3, 12))
def test_a_task_is_cancelled_at_any_turn(n):
    """Whatever the turn before which a task is cancelled, it ends as cancelled, and its clean-up runs to its end."""
    story, loop = [], VirtualLoop()

    async def polls():
        try:
            while True:  # noqa: ASYNC110 - it waits for nothing else
                await asyncio.sleep(0.01)
        finally:
            await asyncio.sleep(0.005)
            story.append("clean")

    async def main():
        task = asyncio.create_task(polls())
        loop.at_turn = lambda turn: task.cancel() if turn == n else None
        await asyncio.wait({task})
        return task.cancelled()

    assert (True, ["clean"]) == (loop.run_until_complete(main()), story)


def test_what_is_frozen_runs_no_line():
    """Whatever the turn: after it nothing runs, whoever collects garbage, until the dead are buried."""
    for n in itertools.count(1):
        story, loop = [], VirtualLoop()
        loop.at_turn = lambda turn, n=n, loop=loop: loop.freeze() if turn == n else None
        try:
            loop.run_until_complete(three_steps(story))
        except Frozen:
            frozen = list(story)
        else:
            break
        loop.at_turn = None
        gc.collect()
        loop.run_until_complete(asyncio.sleep(1))
        assert frozen == story
        loop.bury()
        assert ("cleans up" in story) is bool(frozen)
        assert [] == loop.errors

    assert n > 8


@pytest.mark.parametrize("how", ["task", "callback"])
def test_the_dead_do_not_wake(how):
    """What was frozen does not run when that comes which it waited for, nor does what it had asked to be called."""
    story, loop = [], VirtualLoop()
    shared = loop.create_future()

    async def dies():
        story.append("waits")
        if how == "callback":
            shared.add_done_callback(lambda _shared: story.append("called"))
            await for_ever()
        await shared
        story.append("woke")

    async def lives():
        waits = asyncio.create_task(asyncio.wait_for(asyncio.shield(shared), 1))
        await asyncio.sleep(0)
        shared.set_result("came")
        return await waits

    async def both():
        await asyncio.gather(dies(), asyncio.sleep(1))

    loop.at_turn = lambda _turn: loop.freeze() if story else None
    with pytest.raises(Frozen):
        loop.run_until_complete(both())
    loop.at_turn = None

    assert ("came", ["waits"]) == (loop.run_until_complete(lives()), story)
    loop.bury()


def test_a_task_from_outside_dies_with_the_others():
    """A task that was made between two turns is frozen as those are that were made in one."""
    story, loop = [], VirtualLoop()
    shared = loop.create_future()

    async def waits():
        story.append("waits")
        await shared
        story.append("woke")

    def at_turn(turn):
        if turn == 1:
            loop.create_task(waits())
        elif story:
            loop.freeze()

    loop.at_turn = at_turn
    with pytest.raises(Frozen):
        loop.run_until_complete(asyncio.sleep(1))
    loop.at_turn = None
    shared.set_result(None)
    loop.run_until_complete(asyncio.sleep(1))

    assert ["waits"] == story
    loop.bury()


def test_what_the_dead_raise_is_nobodys():
    """A burial goes on whatever the clean-up of the dead raises."""
    story, loop = [], VirtualLoop()

    async def dies(error):
        try:
            await for_ever()
        finally:
            story.append(type(error).__name__)
            raise error

    async def main():
        errors = LookupError(), asyncio.CancelledError()
        await asyncio.gather(*map(dies, errors), asyncio.sleep(1))

    loop.at_turn = lambda turn: loop.freeze() if turn == 5 else None
    with pytest.raises(Frozen):
        loop.run_until_complete(main())
    loop.bury()

    assert ["LookupError", "CancelledError"] == story


def test_a_loop_begins_anew():
    """After ``reset`` it is time 0, and nothing of the last run runs into the next one."""
    story, loop = [], VirtualLoop()

    async def leaves():
        asyncio.create_task(three_steps(story))  # noqa: RUF006 - nobody holds it
        asyncio.get_running_loop().call_later(0.02, story.append, "rung")
        await asyncio.sleep(0.015)

    loop.run_until_complete(leaves())
    loop.reset()
    buried = list(story)
    loop.run_until_complete(asyncio.sleep(1))

    assert ["step 0", "step 1", "cleans up"] == buried == story
    assert (1_000, []) == (loop.now_ms, loop.errors)


def test_what_is_under_way_goes_on_with_the_next_run():
    """Without ``reset`` time goes on, and so does what was begun."""
    story, loop = [], VirtualLoop()

    async def leaves():
        asyncio.create_task(three_steps(story))  # noqa: RUF006 - the loop holds it
        await asyncio.sleep(0.015)

    loop.run_until_complete(leaves())
    loop.run_until_complete(asyncio.sleep(1))

    assert ("clean", 1_015) == (story[-1], loop.now_ms)


# -- what never ends ----------------------------------------------------------------------------------------------


def test_an_endless_run_is_told(monkeypatch):
    """A run that does not end is ended after so many turns, and the message says how far it came."""
    monkeypatch.setattr(virtual_loop, "TURNS_MAX", 1_000)

    async def main():
        while True:  # noqa: ASYNC110 - that it polls is the point
            await asyncio.sleep(0.001)

    loop = VirtualLoop()
    with pytest.raises(TooManyTurnsError, match="it has not ended after 1,000 turns, 500 ms"):
        loop.run_until_complete(main())
    loop.bury()


def test_a_wait_for_what_never_comes_is_told():
    """Where nobody can go on the message says when that was, and what to do; the loop may be used again."""
    loop = VirtualLoop()

    async def main():
        await asyncio.sleep(3)
        await for_ever()

    with pytest.raises(RuntimeError) as caught:
        loop.run_until_complete(main())
    loop.reset()

    expected = (
        "everybody waits at 3,000 ms, and no timer is set: this would never end; "
        "let somebody answer, or wait with a timeout"
    )
    assert expected == str(caught.value)
    assert loop.run_until_complete(asyncio.sleep(0, "again")) == "again"


def test_no_loop_runs_in_another():
    """A loop that is started where one runs says so, and leaves that one as it is."""

    async def main():
        with pytest.raises(RuntimeError, match="await the coroutine there"):
            VirtualLoop().run_until_complete(None)
        return asyncio.get_running_loop()

    loop = VirtualLoop()

    assert loop is loop.run_until_complete(main())


def test_what_nobody_heard_is_kept():
    """What a callback raises ends nothing and is kept."""
    loop = VirtualLoop()
    loop.call_soon(lambda: 1 / 0)
    loop.run_until_complete(asyncio.sleep(1))

    assert [ZeroDivisionError] == [type(one["exception"]) for one in loop.errors]


# -- asyncio's own ------------------------------------------------------------------------------------------------


async def timeouts(log):
    """A timeout that rings, one that does not, and one inside another."""
    for limit, wait in ((0.02, 0.03), (0.03, 0.02), (0, 0.01)):
        try:
            async with asyncio.timeout(limit):
                await asyncio.sleep(wait)
                log(f"within {limit}")
        except TimeoutError:
            log(f"not within {limit}")
    try:
        async with asyncio.timeout(0.05), asyncio.timeout(0.03):
            await for_ever()
    except TimeoutError:
        log("the inner one")


async def wait_for(log):
    """A wait that is too long, with clean-up that takes longer still."""

    async def slow():
        try:
            await asyncio.sleep(9)
        finally:
            await asyncio.sleep(0.25)
            log("cleaned up")

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(slow(), 0.5)
    log(await asyncio.wait_for(asyncio.sleep(0.125, "slept"), 0.5))


async def gather(log):
    """Results in their order, an error among them, and the others that go on."""

    async def works(n):
        await asyncio.sleep(1 / n)
        log(n)
        return 1 // (n - 4)

    log(str(await asyncio.gather(*map(works, (2, 4, 8)), return_exceptions=True)))
    try:
        await asyncio.gather(*map(works, (2, 4, 8)))
    except ZeroDivisionError:
        log("broke")
    await asyncio.sleep(3)


async def task_group(log):
    """One that fails ends the others."""

    async def works(n):
        try:
            await asyncio.sleep(n)
            if n == 2:
                raise LookupError(n)
        except asyncio.CancelledError:
            log(f"{n} was cancelled")
            raise
        log(f"{n} is done")

    try:
        async with asyncio.TaskGroup() as group:
            for n in range(4):
                group.create_task(works(n), name=str(n))
    except* LookupError as errors:
        log(str(errors.exceptions))


async def queue(log):
    """Two producers, a consumer, and a queue that is full now and then."""
    things = asyncio.Queue(maxsize=2)

    async def makes(name, every):
        for n in range(4):
            await things.put(f"{name}{n}")
            log(f"put {name}{n}")
            await asyncio.sleep(every)

    async def takes():
        while True:
            log(await things.get())
            await asyncio.sleep(0.375)
            things.task_done()

    taker = asyncio.create_task(takes())
    await asyncio.gather(makes("a", 0.0625), makes("b", 0.25))
    await things.join()
    taker.cancel()
    log(str(await asyncio.gather(taker, return_exceptions=True)))


async def lock_and_event(log):
    """Four who want one lock after an event, one of whom gives up."""
    lock, begin = asyncio.Lock(), asyncio.Event()

    async def wants(n):
        await begin.wait()
        try:
            async with asyncio.timeout(1 - n / 16), lock:
                await asyncio.sleep(0.375)
                log(f"{n} had it")
        except TimeoutError:
            log(f"{n} gave up")

    async with asyncio.TaskGroup() as group:
        for n in range(4):
            group.create_task(wants(n))
        await asyncio.sleep(1)
        begin.set()


async def semaphore_and_condition(log):
    """Two at a time, and a condition that all wait for."""
    two, condition = asyncio.Semaphore(2), asyncio.Condition()

    async def works(n):
        async with two:
            await asyncio.sleep(2**-n)
        async with condition:
            log(n)
            condition.notify_all()
            await asyncio.wait_for(condition.wait(), 4)
            log(f"{n} was told")

    log(str(await asyncio.gather(*map(works, range(4)), return_exceptions=True)))


async def callbacks(log):
    """What is called now comes before what is called in no time at all."""
    loop = asyncio.get_running_loop()
    loop.call_later(0, log, "later")
    loop.call_soon(log, "soon")
    loop.call_soon(loop.call_soon, log, "sooner or later")
    loop.call_at(loop.time() - 1, log, "too late")
    loop.call_later(0.5, log, "never").cancel()
    await asyncio.sleep(1)


async def generators(log):
    """An async generator that is left in the middle is closed, and its clean-up may await."""

    async def counts():
        try:
            for n in itertools.count():
                yield n
                await asyncio.sleep(0.5)
        finally:
            await asyncio.sleep(0.25)
            log("closed")

    async for n in counts():
        log(n)
        if n == 2:
            break
    await asyncio.sleep(1)


def logged(run, program):
    """What a program logs, each with its instant."""
    out = []

    async def main():
        await program(lambda line: out.append((now_ms(), line)))

    run(main())
    return out


PROGRAMS = (
    timeouts,
    wait_for,
    gather,
    task_group,
    queue,
    lock_and_event,
    semaphore_and_condition,
    callbacks,
    generators,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_it_is_asyncios_own(program):
    """The helpers of asyncio do the same at the same instants as on its own loop with a clock that jumps."""
    loop = VirtualLoop()
    expected = logged(on_stock, program)

    assert expected == logged(loop.run_until_complete, program)
    assert ([], True) == (loop.errors, len(expected) > 1)


def generated(seed):  # noqa: C901 - one branch a kind of step
    """A program of a few tasks that wait, wake, lock, fail and cancel each other. No two timers are equal."""
    rng = random.Random(seed)  # noqa: S311 - a seed gives the same program
    delays = [2**k / 64 for k in range(11)]
    rng.shuffle(delays)
    delays.insert(6, 0)

    async def program(log):
        events = [asyncio.Event() for _ in range(2)]
        lock, tasks = asyncio.Lock(), []

        async def step(name):
            match rng.randrange(8):
                case 0 | 1 if delays:
                    await asyncio.sleep(delays.pop())
                case 2:
                    rng.choice(events).set()
                case 3 if delays:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(delays.pop()):
                            await rng.choice(events).wait()
                case 4:
                    async with lock:
                        await asyncio.sleep(0)
                case 5:
                    rng.choice(tasks).cancel()
                    await asyncio.sleep(0)
                case 6 if delays:
                    asyncio.get_running_loop().call_later(delays.pop(), log, f"{name} rang")
                case _:
                    asyncio.get_running_loop().call_soon(log, f"{name} was called")

        async def works(name):
            try:
                for n in range(6):
                    await step(name)
                    log(f"{name}{n}")
            finally:
                log(f"{name} ends")

        tasks += [asyncio.create_task(works(name)) for name in "abc"]
        log(str([type(one) for one in await asyncio.gather(*tasks, return_exceptions=True)]))
        await asyncio.sleep(100)

    return program


def test_generated_programs_are_the_same():
    """Three hundred generated programs log the same, in the same order, on both loops."""
    different = [
        seed
        for seed in range(300)
        if logged(on_stock, generated(seed)) != logged(VirtualLoop().run_until_complete, generated(seed))
    ]

    assert [] == different


def turns_of(program):
    """Each turn of a program: its number, its instant, and how much had been logged by then."""
    log, turns, loop = [], [], VirtualLoop()
    loop.at_turn = lambda turn: turns.append((turn, loop.now_us, len(log)))
    loop.run_until_complete(program(log.append))
    return turns


def test_two_runs_are_equal_turn_by_turn():
    """The same program takes the same turns at the same instants, whichever ran before it."""
    programs = [*PROGRAMS, *map(generated, range(20))]
    first = [turns_of(program) for program in PROGRAMS] + [turns_of(generated(seed)) for seed in range(20)]
    second = [turns_of(program) for program in PROGRAMS] + [turns_of(generated(seed)) for seed in range(20)]

    assert len(programs) == len(first)
    assert first == second
    assert len(programs) - 3 <= len({str(turns) for turns in first})
