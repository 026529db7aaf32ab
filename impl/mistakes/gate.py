"""Mistakes of the gate: what it compares before it lets an effect through."""

from __future__ import annotations

from typing import Final

from impl.mistakes.registry import mistake
from impl.sqlite import Ledger
from impl.sqlite.rows import Entry

KNOWN_REVISIONS: Final = frozenset({1})
"""The policy revisions that a program of the first day has rules for."""


@mistake(
    "M082", "K20", "The expiry of a grant is looked at when it comes, and not at the gate.", breaks="valid-approval"
)
class ExpiryNotAskedAtGate(Ledger):
    """A grant that ran out while the intent waited still opens the gate."""

    def _approval_is_in_time(self, entry: Entry, now_ms: int) -> bool:
        return True


@mistake("M084", "K20", "A grant is still valid at the very instant of its expiry.", breaks="valid-approval")
class ExpiryIsInclusive(Ledger):
    """One place compares with < and another with <=."""

    def _approval_is_in_time(self, entry: Entry, now_ms: int) -> bool:
        return now_ms <= entry.approval_expiry_ms


@mistake(
    "M085", "K19", "A grant is bound to its key, and not to the digest of what is sent.", breaks="valid-approval"
)
class GrantNotBoundToPayload(Ledger):
    """Whoever approved one payload approved them all."""

    def _approval_fits_payload(self, entry: Entry) -> bool:
        return True


@mistake(
    "M088",
    "K19",
    "An intent without a decision falls back to the only grant that is pending, whichever it is for.",
    breaks="valid-approval",
)
class OnlyPendingGrantIsTaken(Ledger):
    """A grant for one key opens the gate of another."""

    def _gate(self, entry: Entry, now_ms: int) -> str:
        if entry.approval_status:
            return super()._gate(entry, now_ms)
        pending = self._execute("SELECT key FROM approvals WHERE status = 'granted'").fetchall()
        other = self._entry(pending[0][0]) if len(pending) == 1 else None
        return super()._gate(other or entry, now_ms)


@mistake(
    "M094",
    "K18",
    "Whether approvals are asked for is taken from what the process was started with, and not from what was agreed.",
    breaks="valid-approval",
)
class GateModeFromLiveSettings(Ledger):
    """A restart with other settings opens the gate for what was parked behind it."""

    def _gate(self, entry: Entry, now_ms: int) -> str:
        if self.site.live_settings.get("approval") == "advisory":
            return ""
        return super()._gate(entry, now_ms)


@mistake("M095", "K18", "A policy revision that the gate has no rules for disables it.", breaks="valid-approval")
class UnknownPolicyOpensGate(Ledger):
    """A configuration that cannot be understood is treated as none."""

    def _gate(self, entry: Entry, now_ms: int) -> str:
        if entry.revision not in KNOWN_REVISIONS:
            return ""
        return super()._gate(entry, now_ms)
