"""Processes that a child has left behind in a session of their own: found through the kernel, and ended.

A child is started in a group of its own, which a kill ends whole. Whatever leaves that group is adopted by this process
when its parent ends, so that it can be seen, told by a mark in its environment, and ended too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from functools import cache
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
MARK = "SURVIVES_CHANNEL"
"""In the environment of each child, and so of whatever it starts."""


@cache
def adopt() -> None:
    """From now on, processes whose parents have ended become this process's children."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_those_of(mark: str) -> list[str]:
    """End every process that a child with this mark has left to us, and what those leave in turn; their names."""
    ended: list[str] = []
    while left := [pid for pid in _children() if _mark_of(pid) == mark]:
        for pid in left:
            ended.append(_name_of(pid))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
    return ended


def _children() -> list[int]:
    """Our children: the kernel lists them where it was built so; elsewhere each process is asked for its parent."""
    tasks = list(Path("/proc/self/task").iterdir())
    try:
        return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    except OSError:
        return [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _parent_of(folder) == os.getpid()]


def _parent_of(folder: Path) -> int:
    with contextlib.suppress(OSError):
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _mark_of(pid: int) -> str:
    wanted = f"{MARK}=".encode()
    with contextlib.suppress(OSError):
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if variable.startswith(wanted):
                return variable[len(wanted) :].decode(errors="replace")
    return ""


def _name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return f"{pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    return str(pid)
