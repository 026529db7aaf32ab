"""Mistakes in the life of a grant: how it comes, how often it counts, what ends it."""

from __future__ import annotations

from impl.mistakes.registry import mistake
from impl.protocol import Decision, Site
from impl.sqlite import Ledger
from impl.sqlite.rows import Entry
from model.words import Grant


@mistake("M089", "K20", "A grant is not spent by the operation that it was given for.", breaks="valid-approval")
class GrantNotSpent(Ledger):
    """One word opens the gate for as long as it is in time."""

    def _spends(self, entry: Entry) -> bool:
        return False


@mistake(
    "M090",
    "K20",
    "A decision that is handed in twice is carried out twice, whatever became of it in between.",
    breaks="grant-kept",
)
class DecisionCarriedOutTwice(Ledger):
    """The same piece of paper opens what was taken back."""

    def _is_same_decision(self, entry: Entry, decision: Decision) -> bool:
        return False


@mistake(
    "M091",
    "K20",
    "A grant is spent in a transaction of its own, before the attempt that it is spent on is stored.",
    breaks="grant-kept",
)
class SpentBeforeStored(Ledger):
    """A crash in between leaves a grant that was spent on nothing."""

    def _count(self, entry: Entry) -> None:
        self._spend(entry)
        self._execute("COMMIT")
        self._execute(self.BEGIN)
        super()._count(entry)


@mistake(
    "M092",
    "K20",
    "A grant that was taken back still opens the gate.",
    breaks="valid-approval",
)
class GrantSurvivesRevocation(Ledger):
    """Only a denial ends a grant."""

    def _approval_is_open(self, entry: Entry) -> bool:
        return entry.approval_status not in {"", Grant.DENIED}


@mistake("M093", "K20", "A process that starts forgets the decisions that were made before.", breaks="grant-kept")
class DecisionsLostOnRestart(Ledger):
    """Approvers are asked again after each restart, and their grants are gone."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._execute("DELETE FROM approvals")
