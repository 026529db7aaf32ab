"""Ctrl-C while the command is still being imported: one line, not a traceback out of the middle of an import."""

from __future__ import annotations

import os
import signal
import sys


def watch() -> None:
    """Answer Ctrl-C from now on, if this process is the command; the command itself sees to it later."""
    name = os.path.basename(sys.argv[0] if sys.argv else "")  # noqa: PTH119 - pathlib is not imported yet
    if name == "survives" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _ended)


def _ended(signum: int, frame: object) -> None:
    os.write(2, b"survives: interrupted before anything ran\n")
    os._exit(3)
