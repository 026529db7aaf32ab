"""Seeded mistakes of the SQLite dispatcher: what real implementations got wrong, one small named change each.

They show that the engines see what they are for: each breaks a named promise, and is found by an engine. It may
import ``impl.sqlite`` and must never know the engines, the properties or the model's transition function; nothing
imports it but who asks for a mistake by name.
"""

from impl.mistakes import (  # noqa: F401 - a module that is imported has registered its mistakes
    approvals,
    attempts,
    cancellation,
    claims,
    clocks,
    gate,
    leases,
    outcomes,
    payloads,
    permits,
    power,
    races,
    reaping,
    records,
    running,
    sending,
    storage,
)
from impl.mistakes.left_out import LEFT_OUT
from impl.mistakes.registry import REGISTERED, Mistake, UnknownMistakeError, found
from impl.sqlite import SqliteDispatcher

MISTAKES: dict[str, Mistake] = dict(sorted(REGISTERED.items()))
"""Every seeded mistake by its identifier, in order."""


def seeded(mistake_id: str) -> type[SqliteDispatcher]:
    """The dispatcher with that mistake. Raises UnknownMistakeError."""
    return found(mistake_id, MISTAKES, LEFT_OUT).make()


__all__ = ["LEFT_OUT", "MISTAKES", "Mistake", "UnknownMistakeError", "seeded"]
