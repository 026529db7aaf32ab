"""What others say, made fit to be shown, stored and sent: a subject's words may hold anything."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

LENGTH_MAX = 2_000
_FOREIGN = tuple(
    str(Path(path).resolve()) for name in ("stdlib", "platstdlib") if (path := sysconfig.get_path(name)) is not None
)


def clean(text: str) -> str:
    """The text on one line, in characters that can be printed and encoded; what cannot is escaped, and it has an end."""
    if len(text) > LENGTH_MAX:
        text = f"{text[:LENGTH_MAX]} ... ({len(text):,} characters)"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(value: object) -> str:
    """A value of somebody else's as Python shows it, even if it cannot be shown."""
    try:
        return clean(repr(value))
    except Exception:  # noqa: BLE001 - its own method, which may do anything
        return f"<{type(value).__name__} that cannot be shown>"


def raised(error: BaseException) -> str:
    """An exception in a few words: ``ValueError: boom``."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - its own method, which may do anything
        text = "its message cannot be shown"
    return clean(f"{type(error).__name__}: {text}".removesuffix(": "))


def placed(error: BaseException) -> str:
    """An exception, and the last line of ours or of the subject's that it went through."""
    where, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith(("<", *_FOREIGN)) and "site-packages" not in name:
            where = f" ({clean(name)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return raised(error) + where


__all__ = ["clean", "placed", "raised", "shown"]


def hush() -> None:
    """Nobody reads any more: what is still to be flushed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
