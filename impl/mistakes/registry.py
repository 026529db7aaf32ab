"""What a seeded mistake is, how it is registered, and how it becomes a dispatcher.

A mistake is a class that overrides exactly one method or statement of the ledger, the checkpoint, the runner or the
dispatcher.
Nothing in ``impl.sqlite`` knows of it: a dispatcher is mistaken only if it is built from that class.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from attrs import field, frozen

from impl.runner import OperationRunner
from impl.sqlite import CheckpointFile, Ledger, SqliteDispatcher

Part = TypeVar("Part", bound=type[Ledger] | type[CheckpointFile] | type[OperationRunner] | type[SqliteDispatcher])


class UnknownMistakeError(ValueError):
    """A mistake was asked for that nobody seeded."""


@frozen
class Mistake:
    """One seeded mistake: which, of what kind, and what the code does wrong, in a sentence.

    ``breaks`` is the identifier of the property that it is expected to break, ``make`` builds the mistaken
    dispatcher's class.
    """

    id: str
    kind: str
    sentence: str
    breaks: str
    make: Callable[[], type[SqliteDispatcher]] = field(repr=False)
    shown_by: str = ""
    """What alone shows it: operations that run inside one another (``interleavings``), storage that fails (``faults``),
    a power cut (``power``), or a runner at its awaits (``attempts``). Empty where whole operations do, one after the
    other."""
    permits: int | None = None
    """How many permits there must be for it to show; None where it shows without a limit."""
    under: str = ""
    """The contract's choice without which it makes no difference, such as ``attempt_timeout=thread``; empty for none."""


REGISTERED: dict[str, Mistake] = {}
"""Every mistake by its identifier, in the order in which the modules were loaded."""


def mistake(
    id_: str,
    kind: str,
    sentence: str,
    *,
    breaks: str,
    shown_by: str = "",
    permits: int | None = None,
    under: str = "",
) -> Callable[[Part], Part]:
    """Register the class below as a mistake. Raises ValueError where the identifier is taken."""

    def register(part: Part) -> Part:
        if id_ in REGISTERED:
            raise ValueError(f"mistake {id_} is seeded twice; give {part.__name__} an identifier of its own")
        make = partial(_dispatcher_with, part)
        REGISTERED[id_] = Mistake(id_, kind, sentence, breaks, make, shown_by, permits, under)
        return part

    return register


def _dispatcher_with(part: type) -> type[SqliteDispatcher]:
    """The unchanged dispatcher, but for one of its parts."""
    if issubclass(part, SqliteDispatcher):
        return part
    parts = {Ledger: "ledger_class", CheckpointFile: "checkpoint_class", OperationRunner: "runner_class"}
    attribute = next(attribute for kind, attribute in parts.items() if issubclass(part, kind))
    body = {attribute: part, "__module__": part.__module__, "__doc__": part.__doc__}
    return type(f"{part.__name__}Dispatcher", (SqliteDispatcher,), body)


def found(mistake_id: str, known: Mapping[str, Mistake], left_out: Mapping[str, str]) -> Mistake:
    """The mistake with an identifier. Raises UnknownMistakeError with the value, the reason and the remedy."""
    if mistake_id in known:
        return known[mistake_id]
    if mistake_id in left_out:
        raise UnknownMistakeError(
            f"mistake {mistake_id!r} is left out: {left_out[mistake_id]}; `survives list mistakes` shows what is seeded"
        )
    close = difflib.get_close_matches(mistake_id.upper(), known, n=3)
    remedy = f"did you mean {', '.join(close)}? " if close else ""
    raise UnknownMistakeError(
        f"mistake {mistake_id!r} is not among the {len(known)} that are seeded; {remedy}"
        "`survives list mistakes` shows them"
    )
