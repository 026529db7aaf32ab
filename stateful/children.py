"""Real child processes, forked from a small single-threaded process, that die, stop and go on when told.

A child does one piece of work and sends its result up a pipe. It dies by SIGKILL at a boundary, by its own hand, so
that the place is exact; its parent learns of it from the operating system and from nothing else.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
from collections.abc import Callable
from typing import Any, Self

from attrs import frozen

from stateful.boundaries import Gate

CHILD_SECONDS = 10
"""A child that takes longer than this hangs, and SIGALRM ends it."""
_PR_SET_PDEATHSIG = 1


class KillingGate(Gate):
    """A gate at which the process really dies."""

    def die(self) -> None:
        """End this process by SIGKILL: nothing runs after it, no handler, no clean-up."""
        os.kill(os.getpid(), signal.SIGKILL)


class StoppingGate(Gate):
    """A gate at which the process freezes until somebody continues it."""

    def die(self) -> None:
        """Freeze here; go on when continued."""
        os.kill(os.getpid(), signal.SIGSTOP)


@frozen
class Ended:
    """How a child ended: by which signal (0: by itself), and what it sent (None: nothing)."""

    signal: int
    sent: Any


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies, however that dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Child:
    """A forked child that runs ``work`` and sends what it returns. ``wait`` reaps it; so does leaving the context."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._parent_end, child_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._parent_end)
            self._be_child(work, child_end)
        os.close(child_end)
        self._reaped = False

    @staticmethod
    def _be_child(work: Callable[[], Any], child_end: int) -> None:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
            signal.setitimer(signal.ITIMER_REAL, CHILD_SECONDS)
            data = memoryview(pickle.dumps(work()))
            while data:
                data = data[os.write(child_end, data) :]
            status = 0
        finally:
            os._exit(status)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._reaped:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._reaped = True
        os.close(self._parent_end)

    def stopped(self) -> bool:
        """Wait until the child freezes or ends; True if it froze."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return True
        self._status, self._reaped = status, True
        return False

    def go_on(self) -> None:
        """Continue a frozen child."""
        os.kill(self.pid, signal.SIGCONT)

    def wait(self) -> Ended:
        """Wait for the child's end, and take what it sent."""
        chunks = []
        while chunk := os.read(self._parent_end, 1 << 16):
            chunks.append(chunk)
        if not self._reaped:
            _, self._status = os.waitpid(self.pid, 0)
            self._reaped = True
        signalled = os.WTERMSIG(self._status) if os.WIFSIGNALED(self._status) else 0
        data = b"".join(chunks)
        whole = bool(data) and not signalled and os.waitstatus_to_exitcode(self._status) == 0
        return Ended(signalled, pickle.loads(data) if whole else None)  # noqa: S301 - our own child wrote it
