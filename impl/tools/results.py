"""What comes back for a call: one result, and one error in it where there is no effect or nobody knows."""

from __future__ import annotations

import json
from contextlib import suppress
from enum import StrEnum
from typing import Any

from attrs import asdict, frozen

from impl.protocol import Json


class Status(StrEnum):
    """What a call came to."""

    DONE = "done"
    """This call had the effect."""
    REPLAYED = "replayed"
    """The effect was there already; the first answer comes back."""
    FAILED = "failed"
    """There is no effect, and there will be none under this id."""
    REFUSED = "refused"
    """Nothing was sent that could have had an effect. Where the error says so, the call may be made again."""
    CANCELLED = "cancelled"
    """There is no effect, as the call was cancelled in time."""
    EXPIRED = "expired"
    """There is no effect, as the deadline has passed."""
    UNKNOWN = "unknown"
    """Something was sent, and nobody has heard what became of it: neither done nor failed."""


class Code(StrEnum):
    """Why there is no effect, or why nobody knows."""

    NOT_A_CALL = "not-a-call"
    BAD_ID = "bad-id"
    UNKNOWN_FIELD = "unknown-field"
    UNKNOWN_TOOL = "unknown-tool"
    BAD_ARGUMENTS = "bad-arguments"
    """No JSON, no object, or what has no canonical form."""
    AGAINST_SCHEMA = "against-schema"
    BAD_DEADLINE = "bad-deadline"
    CHANGED_CALL = "changed-call"
    """The id stands for a call with another name or other arguments."""
    UNKNOWN_CALL = "unknown-call"
    """There is nothing to cancel."""
    LEDGER = "ledger"
    """The ledger could not be written or read."""

    NOT_APPROVED = "not-approved"
    DENIED = "denied"
    HELD = "held"
    """Another worker is at work on it, or something else is in its way for now."""
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    TOOL_REFUSED = "tool-refused"
    TOOL_BUSY = "tool-busy"
    ATTEMPTS_SPENT = "attempts-spent"
    ENDED = "ended"
    """It has ended before, and the ledger does not say why."""

    NO_ANSWER = "no-answer"
    TOOL_RAISED = "tool-raised"
    BAD_ANSWER = "bad-answer"
    """The tool acted, and what it answered is not JSON."""


@frozen
class Problem:
    """One error: what is wrong, and what to do. ``path`` is a JSON pointer into the call, empty where none fits."""

    code: Code
    message: str
    remedy: str
    path: str = ""


@frozen
class ToolResult:
    """The one result of a call.

    ``id`` and ``name`` are the call's, None where it has none that can be used. ``key`` and ``digest`` name the
    operation in the ledger: an approver signs for both. ``receipt`` is the canonical JSON of what the tool answered
    first, as the ledger keeps it, so that a replay after a restart has it too.
    """

    id: str | None
    name: str | None
    status: Status
    key: str = ""
    digest: str = ""
    receipt: str = ""
    attempts: int = 0
    """How many attempts the ledger has counted, over all runs."""
    error: Problem | None = None

    @property
    def value(self) -> Json:
        """What the tool answered; None where that is not known."""
        with suppress(ValueError, RecursionError):
            value: Json = json.loads(self.receipt)
            return value
        return None

    def to_json(self) -> dict[str, Any]:
        """All that is known, as JSON; ``value`` is there where there is a receipt."""
        out = {n: v for n, v in asdict(self).items() if n in {"id", "name"} or v not in ("", None)}
        return out | {"value": self.value} if self.receipt else out
