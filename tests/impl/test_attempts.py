"""The attempt runner: three isolations, on a timer that rings when a test says so. Nothing here sleeps."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from impl.attempts import AttemptRunner, CallNotFitError, TimeoutNotPositiveError
from impl.isolation import Late, RaisedInProcessError
from impl.protocol import NoAnswerError
from model.contracts import AttemptTimeout
from model.words import Kind

ROOT = Path(__file__).parents[2]
EVERY = pytest.mark.parametrize("isolation", list(AttemptTimeout))

# A forked child of a process that has other threads: newer interpreters say so, and pytest-xdist has one.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


class Bell:
    """A timer that rings when it is told to; it remembers for how long it was set."""

    def __init__(self) -> None:
        self.set_ms: list[float] = []
        self.waiting = asyncio.Event()
        self._rung = asyncio.Event()

    async def wait(self, timeout_ms: float) -> None:
        self.set_ms.append(timeout_ms)
        self.waiting.set()
        await self._rung.wait()

    def ring(self) -> None:
        self._rung.set()


class RingsOnByte:
    """A timer that rings as soon as a byte has come through a pipe, from whatever process."""

    def __init__(self, read_fd: int) -> None:
        self._read_fd = read_fd

    async def wait(self, timeout_ms: float) -> None:  # how long is up to the writer
        assert os.read(self._read_fd, 1)


class BrokenTimer:
    """A timer that fails."""

    async def wait(self, timeout_ms: float) -> None:
        raise RuntimeError(f"no time for {timeout_ms} ms")


LIMIT_S = 60
"""After this long a test that waits for what never comes fails, and a process that should have been killed ends."""


@pytest.fixture(autouse=True)
def watchdog():
    """A runner that leaves something running must give a red test, not one that never ends."""

    def bark(_number, _frame):
        raise AssertionError(f"still waiting after {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def pipe():
    """A pipe's two ends, closed afterwards where the test has not done so."""
    ends = os.pipe()
    yield ends
    for fd in ends:
        try:
            os.close(fd)
        except OSError:
            continue


def fitting(isolation: AttemptTimeout, plain):
    """``plain`` itself, or as an async call where the isolation runs those."""
    if isolation is not AttemptTimeout.COOPERATIVE:
        return plain

    async def call():
        return plain()

    return call


def run_with_bell(isolation: AttemptTimeout, plain):
    """The attempt and the runner after a call that ends by itself."""

    async def main():
        runner = AttemptRunner(isolation, Bell())
        return await runner.run(fitting(isolation, plain), timeout_ms=50), runner

    return asyncio.run(main())


def read_to_end(fd: int) -> bytes:
    """All that comes through a pipe until nobody is left who could write to it."""
    data = b""
    while chunk := os.read(fd, 4096):
        data += chunk
    return data


# -- answers ------------------------------------------------------------------------------------------------------


@EVERY
def test_an_answer_in_time_is_delivered(isolation) -> None:
    """A call that answers before the bell rings gives OK and its value."""
    attempt, runner = run_with_bell(isolation, lambda: {"room": 7})

    assert (Kind.OK, {"room": 7}) == (attempt.kind, attempt.value)
    assert (1, 0, 0, []) == (runner.started, runner.timed_out, runner.cancelled, runner.late)


@EVERY
def test_the_timer_is_set_in_milliseconds(isolation) -> None:
    """The timer is set once, to the milliseconds that the caller gave."""
    _attempt, runner = run_with_bell(isolation, lambda: None)

    assert [50] == runner.timer.set_ms


@EVERY
def test_silence_is_unknown(isolation) -> None:
    """A call that raises NoAnswerError has an unknown outcome."""

    def silent():
        raise NoAnswerError("the line went dead")

    attempt, _runner = run_with_bell(isolation, silent)

    assert (Kind.UNKNOWN, "the line went dead") == (attempt.kind, attempt.reason)


@EVERY
def test_silence_without_a_word_is_told_by_its_name(isolation) -> None:
    """Where the exception says nothing, the reason is what it is called."""

    def silent():
        raise TimeoutError

    attempt, _runner = run_with_bell(isolation, silent)

    assert (Kind.UNKNOWN, "TimeoutError") == (attempt.kind, attempt.reason)


@EVERY
def test_another_error_is_raised(isolation) -> None:
    """What else a call raises reaches the caller as it is."""

    def wrong():
        raise LookupError("no such room")

    with pytest.raises(LookupError, match="no such room"):
        run_with_bell(isolation, wrong)


@pytest.mark.parametrize("timeout_ms", [0, -1, -0.5, math.nan, math.inf, -math.inf, True, None, "50"])
@EVERY
def test_a_senseless_timeout_is_refused(isolation, timeout_ms) -> None:
    """A timeout that is not a positive, finite number is refused with its value, and nothing is called."""
    calls = []
    runner = AttemptRunner(isolation)

    with pytest.raises(TimeoutNotPositiveError) as caught:
        asyncio.run(runner.run(fitting(isolation, lambda: calls.append(1)), timeout_ms=timeout_ms))

    expected = f"attempt timeout {timeout_ms!r} is not a positive, finite number of milliseconds; give one above 0"
    assert expected == str(caught.value)
    assert ([], 0) == (calls, runner.started)


@EVERY
def test_a_timeout_may_be_less_than_a_millisecond(isolation) -> None:
    """Half a millisecond is a timeout, and the timer is set to it."""
    bell = Bell()

    attempt = asyncio.run(AttemptRunner(isolation, bell).run(fitting(isolation, lambda: 7), timeout_ms=0.5))

    assert (Kind.OK, 7, [0.5]) == (attempt.kind, attempt.value, bell.set_ms)


@EVERY
def test_an_attempt_that_was_interrupted_says_so(isolation, pipe) -> None:
    """Whoever waits is cancelled, and is told that the outcome is unknown and why, before the cancellation goes on."""

    async def hang():
        await asyncio.Event().wait()

    async def main():
        bell = Bell()
        call = hang if isolation is AttemptTimeout.COOPERATIVE else partial(os.read, pipe[0], 1)
        attempt = asyncio.ensure_future(AttemptRunner(isolation, bell).attempt(call, timeout_ms=50))
        await bell.waiting.wait()
        attempt.cancel()
        told = await attempt
        os.write(pipe[1], b"x")  # a thread goes on until somebody lets it
        return told

    told = asyncio.run(main())

    assert (Kind.UNKNOWN, "interrupted", True) == (told.kind, told.reason, told.interrupted)


@EVERY
def test_a_call_of_the_wrong_sort_is_refused(isolation) -> None:
    """An async call in a thread or process, or a plain one in a task, is refused before it is called."""
    other = AttemptTimeout.THREAD if isolation is AttemptTimeout.COOPERATIVE else AttemptTimeout.COOPERATIVE
    calls = []

    found, wanted = ("plain", "async") if isolation is AttemptTimeout.COOPERATIVE else ("async", "plain")
    said = f"is {found}, and {isolation} isolation runs {wanted} calls; change the call or the isolation"
    with pytest.raises(CallNotFitError, match=said):
        asyncio.run(AttemptRunner(isolation).run(fitting(other, lambda: calls.append(1)), timeout_ms=50))

    assert [] == calls


@EVERY
def test_a_broken_timer_is_told(isolation) -> None:
    """A timer that fails is not taken for a timeout."""
    release = threading.Event()
    runner = AttemptRunner(isolation, BrokenTimer())

    async def for_ever():
        await asyncio.Event().wait()

    call = for_ever if isolation is AttemptTimeout.COOPERATIVE else release.wait
    with pytest.raises(RuntimeError, match="no time for 50 ms"):
        asyncio.run(runner.run(call, timeout_ms=50))

    assert 0 == runner.timed_out
    release.set()


def test_the_loop_keeps_time_by_default() -> None:
    """Without a timer of one's own the loop's time is used; a virtual loop gives virtual time."""

    class JumpingLoop(asyncio.SelectorEventLoop):
        """Its time jumps to whatever is scheduled next."""

        now_s = 0.0

        def time(self) -> float:
            return self.now_s

        def _run_once(self) -> None:
            if not self._ready and self._scheduled:
                self.now_s = max(self.now_s, self._scheduled[0]._when)
            super()._run_once()

    async def for_ever():
        await asyncio.Event().wait()

    loop = JumpingLoop()
    attempt = loop.run_until_complete(AttemptRunner().run(for_ever, timeout_ms=3_600_000))
    passed_s = loop.time()
    loop.close()

    assert (Kind.UNKNOWN, 3_600) == (attempt.kind, passed_s)


# -- cooperative --------------------------------------------------------------------------------------------------


def cooperative(call, *, then):
    """Start a cooperative attempt, let ``then(bell, task)`` act once the call waits, and say how it ended."""

    async def main():
        bell, waiting = Bell(), asyncio.Event()
        runner = AttemptRunner(timer=bell)

        async def told():
            return await call(waiting)

        task = asyncio.ensure_future(runner.run(told, timeout_ms=50))
        await waiting.wait()
        await bell.waiting.wait()
        await then(bell, task)
        return (await asyncio.gather(task, return_exceptions=True))[0], runner

    return asyncio.run(main())


async def ring(bell, task) -> None:  # one shape for all that may happen
    """Time is up."""
    bell.ring()


async def cancel(bell, task) -> None:
    """Somebody cancels the attempt."""
    task.cancel()


def test_a_timeout_interrupts_after_clean_up() -> None:
    """A cooperative attempt that takes too long is unknown, and its clean-up has run before that is said."""
    story = []

    async def books(waiting):
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # clean-up may await, too
            story.append("cleaned up")

    attempt, runner = cooperative(books, then=ring)

    assert ["cleaned up"] == story
    assert (Kind.UNKNOWN, "no answer within 50 ms") == (attempt.kind, attempt.reason)
    assert (1, 0, []) == (runner.timed_out, runner.cancelled, runner.late)


def test_a_cancellation_propagates_after_clean_up() -> None:
    """A cancelled attempt raises CancelledError when its clean-up has run, and is counted."""
    story = []

    async def books(waiting):
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            story.append("cleaned up")

    ended, runner = cooperative(books, then=cancel)

    assert ["cleaned up"] == story
    assert asyncio.CancelledError is type(ended)
    assert (0, 1) == (runner.timed_out, runner.cancelled)


@pytest.mark.parametrize("first", [ring, cancel])
def test_a_second_cancellation_cuts_no_clean_up_short(first) -> None:
    """A cancellation that arrives during clean-up waits for its end, and is then raised and counted once."""
    story = []

    async def main():
        cleaning, finish = asyncio.Event(), asyncio.Event()
        bell, waiting = Bell(), asyncio.Event()
        runner = AttemptRunner(timer=bell)

        async def books():
            try:
                waiting.set()
                await asyncio.Event().wait()
            finally:
                cleaning.set()
                await finish.wait()
                story.append("cleaned up")

        task = asyncio.ensure_future(runner.run(books, timeout_ms=50))
        await waiting.wait()
        await first(bell, task)
        await cleaning.wait()
        task.cancel()
        await asyncio.sleep(0)
        assert [] == story
        assert not task.done()
        finish.set()
        return (await asyncio.gather(task, return_exceptions=True))[0], runner

    ended, runner = asyncio.run(main())

    assert ["cleaned up"] == story
    assert asyncio.CancelledError is type(ended)
    assert (0, 1) == (runner.timed_out, runner.cancelled)


def test_what_clean_up_answers_is_evidence() -> None:
    """A call that catches its interruption and answers all the same has answered too late."""

    async def stubborn(waiting):
        try:
            waiting.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "receipt"

    attempt, runner = cooperative(stubborn, then=ring)

    assert Kind.UNKNOWN is attempt.kind
    assert [Late("receipt", attempt=1)] == runner.late


def test_what_clean_up_raises_is_evidence() -> None:
    """A clean-up that fails does not make a failure of an unknown outcome."""

    async def clumsy(waiting):
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            raise LookupError("lost the key")

    attempt, runner = cooperative(clumsy, then=ring)

    assert Kind.UNKNOWN is attempt.kind
    assert [LookupError] == [type(late.error) for late in runner.late]


def test_an_answer_at_the_very_instant_counts() -> None:
    """An answer and the bell in one turn of the loop: the answer is there, so it is delivered."""

    async def main():
        bell, gate = Bell(), asyncio.Event()

        async def books():
            await gate.wait()
            return "receipt"

        task = asyncio.ensure_future(AttemptRunner(timer=bell).run(books, timeout_ms=50))
        await bell.waiting.wait()
        gate.set()
        bell.ring()
        return await task

    assert "receipt" == asyncio.run(main()).value


def test_an_interruption_from_inside_is_unknown() -> None:
    """A call whose own task was cancelled by somebody else has an unknown outcome, and its caller goes on."""

    async def main():
        async def books():
            asyncio.current_task().cancel()
            await asyncio.Event().wait()

        return await AttemptRunner(timer=Bell()).run(books, timeout_ms=50)

    assert Kind.UNKNOWN is asyncio.run(main()).kind


def test_attempts_run_side_by_side() -> None:
    """One runner keeps several attempts apart."""

    async def main():
        runner = AttemptRunner(timer=Bell())

        async def books(room):
            await asyncio.sleep(0)
            return room

        attempts = [runner.run(partial(books, room), timeout_ms=50) for room in range(5)]
        return await asyncio.gather(*attempts), runner

    attempts, runner = asyncio.run(main())

    assert list(range(5)) == [attempt.value for attempt in attempts]
    assert 5 == runner.started


# -- thread -------------------------------------------------------------------------------------------------------


def test_a_thread_lives_on_and_its_answer_is_evidence() -> None:
    """The caller stops waiting; what the thread brings later is kept and not delivered."""

    async def main():
        bell, release = Bell(), threading.Event()
        runner = AttemptRunner(AttemptTimeout.THREAD, bell)

        def books():
            release.wait()
            return "receipt"

        bell.ring()
        attempt = await runner.run(books, timeout_ms=50)
        (thread,) = [run.thread for run in runner.lingering]
        assert [] == runner.late
        release.set()
        thread.join()
        await asyncio.sleep(0)
        return attempt, runner

    attempt, runner = asyncio.run(main())

    assert (Kind.UNKNOWN, None) == (attempt.kind, attempt.value)
    assert [Late("receipt", attempt=1)] == runner.late
    assert [] == runner.lingering
    assert 1 == runner.timed_out


def test_a_thread_may_outlive_the_loop() -> None:
    """What a thread brings after the loop has been closed is kept all the same."""
    release = threading.Event()

    async def main():
        bell = Bell()
        runner = AttemptRunner(AttemptTimeout.THREAD, bell)
        bell.ring()
        await runner.run(release.wait, timeout_ms=50)
        return runner

    runner = asyncio.run(main())
    (thread,) = [run.thread for run in runner.lingering]
    release.set()
    thread.join()

    assert [Late(value=True, attempt=1)] == runner.late


def test_a_cancelled_thread_is_left_alone() -> None:
    """A cancellation of a thread's attempt is raised and counted at once; its error comes later, as evidence."""

    async def main():
        bell, release = Bell(), threading.Event()
        runner = AttemptRunner(AttemptTimeout.THREAD, bell)

        def books():
            release.wait()
            raise LookupError("no such room")

        task = asyncio.ensure_future(runner.run(books, timeout_ms=50))
        await bell.waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (thread,) = [run.thread for run in runner.lingering]
        release.set()
        thread.join()
        await asyncio.sleep(0)
        return runner

    runner = asyncio.run(main())

    assert (0, 1) == (runner.timed_out, runner.cancelled)
    assert [LookupError] == [type(late.error) for late in runner.late]


# -- process ------------------------------------------------------------------------------------------------------


def blocked_in_process(pipe, work):
    """Run ``work(write_fd)`` in a process, ring at its first byte, and read all that it ever wrote after that.

    The reading ends when nobody is left who could write: no process of the attempt's is alive then.
    """
    read_fd, write_fd = pipe

    async def main():
        runner = AttemptRunner(AttemptTimeout.PROCESS, RingsOnByte(read_fd))
        return await runner.run(lambda: work(write_fd), timeout_ms=50), runner

    attempt, runner = asyncio.run(main())
    os.close(write_fd)
    return attempt, runner, read_to_end(read_fd)


def block_for_ever() -> None:
    """Block in a system call that nothing but a signal ends; should nobody send one, the alarm does."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(2 * LIMIT_S)
    os.read(os.pipe()[0], 1)


def test_a_blocked_process_is_killed(pipe) -> None:
    """Blocking work that never yields is ended by SIGKILL: unknown, with no clean-up and nothing left running."""

    def books(write_fd):
        try:
            os.write(write_fd, b"s")
            block_for_ever()
        finally:
            os.write(write_fd, b"cleaned up")

    attempt, runner, rest = blocked_in_process(pipe, books)

    assert (Kind.UNKNOWN, "no answer within 50 ms") == (attempt.kind, attempt.reason)
    assert b"" == rest
    assert (1, []) == (runner.timed_out, runner.late)


def test_a_process_that_ignores_signals_is_killed(pipe) -> None:
    """Work that ignores every polite signal is ended all the same."""

    def books(write_fd):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.write(write_fd, b"s")
        block_for_ever()

    attempt, _runner, rest = blocked_in_process(pipe, books)

    assert (Kind.UNKNOWN, b"") == (attempt.kind, rest)


def test_what_a_process_started_is_killed_with_it(pipe) -> None:
    """A process that an attempt forked does not outlive it."""

    def books(write_fd):
        if os.fork() == 0:
            os.write(write_fd, b"s")
        block_for_ever()

    attempt, _runner, rest = blocked_in_process(pipe, books)

    assert (Kind.UNKNOWN, b"") == (attempt.kind, rest)


def test_no_zombie_is_left(pipe) -> None:
    """After an answer, a timeout and a death of its own, no child is left to wait for."""
    pids_r, pids_w = pipe

    def tells_pid(then):
        def call():
            os.write(pids_w, os.getpid().to_bytes(8, "little"))
            then()

        return call

    for then in (lambda: None, lambda: os._exit(3)):
        run_with_bell(AttemptTimeout.PROCESS, tells_pid(then))
    os.close(pids_w)
    data = read_to_end(pids_r)
    pids = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]

    assert 2 == len(pids)
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_a_process_that_ends_without_an_answer_is_unknown() -> None:
    """A process that dies of itself may or may not have sent."""
    attempt, runner = run_with_bell(AttemptTimeout.PROCESS, lambda: os._exit(3))

    assert Kind.UNKNOWN is attempt.kind
    assert "ended without an answer" in attempt.reason
    assert 0 == runner.timed_out


def test_a_large_answer_comes_whole() -> None:
    """An answer that is larger than a pipe's buffer arrives in one piece."""
    attempt, _runner = run_with_bell(AttemptTimeout.PROCESS, lambda: b"x" * 1_000_000)

    assert b"x" * 1_000_000 == attempt.value


def test_an_answer_that_cannot_leave_is_unknown() -> None:
    """The call may have acted, and its answer cannot be brought back: unknown, and the reason is told."""

    def stream():
        return (number for number in range(3))

    attempt, _runner = run_with_bell(AttemptTimeout.PROCESS, stream)

    assert Kind.UNKNOWN is attempt.kind
    assert "the call answered a generator, which cannot be brought out of its process" == attempt.reason


def test_an_error_that_cannot_leave_is_told_by_its_text() -> None:
    """An exception that cannot be brought back is raised by another name, with its own in the message."""

    class PickyError(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one} and {two}")

    def picky():
        raise PickyError("salt", "pepper")

    with pytest.raises(RaisedInProcessError, match="PickyError: salt and pepper"):
        run_with_bell(AttemptTimeout.PROCESS, picky)


def test_a_cancelled_process_is_killed(pipe) -> None:
    """A cancellation ends the process before it is raised, and is counted."""
    read_fd, write_fd = pipe

    def books():
        os.write(write_fd, b"s")
        block_for_ever()

    async def main():
        runner = AttemptRunner(AttemptTimeout.PROCESS, Bell())
        task = asyncio.ensure_future(runner.run(books, timeout_ms=50))
        await asyncio.sleep(0)
        assert os.read(read_fd, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return runner

    runner = asyncio.run(main())
    os.close(write_fd)

    assert b"" == read_to_end(read_fd)
    assert (0, 1) == (runner.timed_out, runner.cancelled)


def test_a_process_keeps_its_signals_to_itself() -> None:
    """A signal that the process gets is not heard by the loop that waits for it."""
    heard = []

    async def main():
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.append, "SIGUSR1")
        runner = AttemptRunner(AttemptTimeout.PROCESS, Bell())
        await runner.run(lambda: os.kill(os.getpid(), signal.SIGUSR1), timeout_ms=50)
        await asyncio.sleep(0)
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)

    asyncio.run(main())

    assert [] == heard


def test_no_descriptor_is_left() -> None:
    """However a process's attempt ends, its pipe is closed."""
    before = sorted(Path("/proc/self/fd").iterdir())
    for call in (lambda: 1, lambda: os._exit(1), threading.Lock):
        run_with_bell(AttemptTimeout.PROCESS, call)

    assert before == sorted(Path("/proc/self/fd").iterdir())


ORPHAN = """
import asyncio, os, signal, sys
from impl.attempts import AttemptRunner
from model.contracts import AttemptTimeout

def books():
    signal.alarm(120)
    os.write(int(sys.argv[1]), b"s")
    os.read(os.pipe()[0], 1)

asyncio.run(AttemptRunner(AttemptTimeout.PROCESS).run(books, timeout_ms=600_000))
"""


def test_no_orphan_is_left(pipe) -> None:
    """When the process that runs the runner is killed, the attempt's process goes with it."""
    read_fd, write_fd = pipe
    child = subprocess.Popen([sys.executable, "-c", ORPHAN, str(write_fd)], cwd=ROOT, pass_fds=[write_fd])
    os.close(write_fd)
    assert b"s" == os.read(read_fd, 1)

    child.kill()
    child.wait()

    assert b"" == read_to_end(read_fd)
