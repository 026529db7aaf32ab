"""What became of an operation."""

from __future__ import annotations

from attrs import frozen

from impl.protocol import Answer
from model.words import Kind, State


@frozen
class Standing:
    """Where an intent stands in the ledger."""

    state: State
    receipt: str = ""
    attempts: int = 0
    deadline_ms: int | None = None
    """None where no deadline binds."""


@frozen
class Ending:
    """The one result of a run.

    OK: this run had the effect. REPLAYED: it was there already. ERROR: there is none, and the intent has ended.
    REFUSED: nothing can be sent now, and the intent may live on. UNKNOWN: something was sent and nobody has heard what
    became of it; it must not be repeated under another key.
    """

    kind: Kind
    state: State | None = None
    """Where the intent stands; None if there is none."""
    reason: str = ""
    receipt: str = ""
    sent: int = 0
    """How often this run has sent."""

    @property
    def answer(self) -> Answer:
        """The same, as the answer of a dispatch."""
        return Answer(self.kind, self.reason, receipt=self.receipt)
