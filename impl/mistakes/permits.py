"""Mistakes of the limit on what is in hand at once: which permits count, and which come back."""

from __future__ import annotations

from impl.mistakes.registry import mistake
from impl.sqlite import Ledger
from impl.sqlite.rules import Operation


@mistake(
    "M029",
    "K08",
    "The reaper drops a lease, and the permit that was taken with it does not come back.",
    breaks="progress",
    permits=1,
)
class ReapedKeepsPermit(Ledger):
    """What has died is cleared away, and its place stays taken for ever."""

    def _return_permit(self, key: str, operation: Operation) -> None:
        if operation != "reap":
            super()._return_permit(key, operation)


@mistake(
    "M030",
    "K08",
    "A claim counts every permit that has not come back, those of leases that ran out too, its own key's among them.",
    breaks="progress",
    permits=1,
)
class StaleClaimsCount(Ledger):
    """The permit that a takeover would free is the one that it waits for."""

    def _permits_of_others(self, key: str, now_ms: int) -> int:
        count: int = self._look("SELECT count(*) FROM permits")[0]
        return count
