"""Processes that a child has left behind: found through the kernel, and ended.

A child is started in a session and a group of its own, and a kill ends the group whole. Whatever leaves that group is
adopted by this process when its parent ends, so that it can be seen, told by its session or by a mark in its
environment, and ended too. One that left the session *and* threw its environment away is not found.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from functools import cache
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
MARK = "SURVIVES_CHANNEL"
"""In the environment of each child, and so of whatever it starts."""
EXEC_LOOKS, EXEC_SECONDS = 50, 0.002
CLEAN_LOOKS = 3


def adopt() -> None:
    """From now on, processes whose parents have ended become this process's children."""
    _adopt(os.getpid())  # a fork inherits what is remembered, and not what the kernel was told


@cache
def _adopt(_: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_those_of(mark: str, session: int) -> list[str]:
    """End every process that a child with this mark and session has left to us, and what those leave in turn.

    The names of those that did not die with the child's group.
    """
    ended: list[str] = []
    clean = 0
    while clean < CLEAN_LOOKS:  # who forks and ends while we look leaves a child that was not there when we began
        left = [pid for pid in _children() if _stat(pid)[3] == str(session) or _mark_of(pid) == mark]
        clean = 0 if left else clean + 1
        if clean and ended:
            time.sleep(EXEC_SECONDS)
        for pid in left:
            if _stat(pid)[2] != str(session):
                ended.append(_name_of(pid))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    _take_the_dead()
    return ended


def _take_the_dead() -> None:
    """Wait for adopted processes that have ended: who is in another's session was started by nobody here."""
    for pid in _children():
        state, _, _, session = _stat(pid)[:4]
        if state == "Z" and session not in {str(os.getsid(0)), str(pid)}:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _children() -> list[int]:
    """Our children: the kernel lists them where it was built so; elsewhere each process is asked for its parent."""
    tasks = list(Path("/proc/self/task").iterdir())
    try:
        return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    except OSError:
        return [int(f.name) for f in Path("/proc").glob("[0-9]*") if _stat(f.name)[1] == str(os.getpid())]


def _stat(pid: int | str) -> list[str]:
    """A process's state, parent, group and session, and what else the kernel says of it."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [""] * 4


def _mark_of(pid: int) -> str:
    wanted = f"{MARK}=".encode()
    for variable in _environment_of(pid).split(b"\0"):
        if variable.startswith(wanted):
            return variable[len(wanted) :].decode(errors="replace")
    return ""


def _environment_of(pid: int) -> bytes:
    """Looks again where there is none: in the middle of its exec a process has no environment yet."""
    with contextlib.suppress(OSError):
        for _ in range(EXEC_LOOKS):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            if environment or _stat(pid)[0] in {"Z", "X", ""}:
                return environment
            time.sleep(EXEC_SECONDS)
    return b""


def _name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return f"{pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    return str(pid)
