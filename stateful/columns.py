"""The rows and columns of the survival matrix: contract choices, and kinds of failure with their bounds."""

from __future__ import annotations

from attrs import frozen

from model.actions import Verb
from model.contracts import CHOICES, Contracts, Limits, contracts_from
from model.search import ModelBounds
from model.search.power import LAG
from model.words import Reply

LIMITS = Limits(lease_ms=1, other_lease_ms=2, approval_ms=1, deadline_ms=2, max_attempts=2)
"""In ticks: enough to have each expiry come before, with and after each other one."""
NO_FAILURE, RETRY, CLOCK, KILL = "no failure", "retry", "clock", "kill"
POWER_CUT, STORAGE_FAULT, AWAIT = "power cut", "storage fault", "at an await"
_TIMED = (NO_FAILURE, CLOCK)
_BASE = frozenset({Verb.SUBMIT, Verb.APPROVE, Verb.CLAIM, Verb.DISPATCH, Verb.ACKNOWLEDGE, Verb.CHECKPOINT})
_RECOVERY = frozenset({Verb.ADVANCE, Verb.RECONCILE, Verb.REAP_READ, Verb.REAP_APPLY})
_STALL = frozenset({Verb.STALL, Verb.WAKE})
EXECUTED_ELSEWHERE = frozenset({"durability", "attempt_timeout"})
"""Contracts that a kill does not tell apart: only a power cut shows the one, only an await the other."""


def not_applicable(row: str, column: Column) -> str:
    """Why a column says nothing about a row; "" if it does."""
    match row.partition("=")[0]:
        case "durability" if not column.cuts:
            return "only a power cut can show it"
        case "attempt_timeout" if not column.awaits:
            return "only an await can show it"
    return ""


@frozen
class Column:
    """A kind of failure: what may happen beside a well-behaved client, approver and worker.

    ``repeats``: a worker sends again although it has an answer. ``blind``: a worker dispatches without any grant.
    """

    name: str
    says: str
    verbs: frozenset[Verb] = frozenset()
    replies: frozenset[Reply] = frozenset({Reply.DONE})
    kills: int = 0
    policy_bumps: int = 0
    payload_changes: bool = False
    repeats: bool = False
    blind: bool = False
    grants: int = 2
    beyond: tuple[str, ...] = (NO_FAILURE,)
    """The columns that have less in them: what breaks there is not told again here."""
    cuts: int = 0
    """How often the power fails."""
    faults: int = 0
    """How many operations end in the middle because storage failed."""
    awaits: bool = False
    """Whether it is one operation's attempts in time, and not whole operations in any order."""

    def bounds(self, limits: Limits = LIMITS) -> ModelBounds:
        """The column as bounds of a search, for two workers and one key that is granted at most twice."""
        return ModelBounds(
            workers=2,
            keys=1,
            kills=self.kills,
            policy_bumps=self.policy_bumps,
            grants=self.grants,
            payload_changes=self.payload_changes,
            verbs=_BASE | self.verbs,
            replies=self.replies,
            limits=limits,
            repeats=self.repeats,
            blind=self.blind,
        )


COLUMNS: dict[str, Column] = {
    column.name: column
    for column in (
        Column(NO_FAILURE, "two workers, and nothing goes wrong", beyond=()),
        Column(
            RETRY,
            "a worker sends again, and the sink fails for a while or for good",
            replies=frozenset({Reply.DONE, Reply.TRANSIENT, Reply.PERMANENT}),
            repeats=True,
        ),
        Column(
            CLOCK,
            "time runs past every expiry and deadline, and wall clocks jump, while one worker goes on",
            frozenset({Verb.ADVANCE, Verb.JUMP_WALL}),
            grants=1,
        ),
        Column(
            KILL,
            "a worker dies at any stage of any operation, twice",
            _RECOVERY | {Verb.RESTART},
            kills=2,
            beyond=_TIMED,
        ),
        Column(
            "lease expiry",
            "a worker stalls before its send while its lease runs out",
            _RECOVERY | _STALL | {Verb.RENEW, Verb.RELEASE},
            beyond=_TIMED,
        ),
        Column("payload change", "another payload comes under the same key", payload_changes=True),
        Column(
            "approval change",
            "approvals are missing, denied, revoked, forged, handed in again, expired or of an older policy",
            frozenset({Verb.DENY, Verb.REVOKE, Verb.FORGE, Verb.BUMP_POLICY, Verb.ADVANCE}),
            policy_bumps=1,
            blind=True,
            grants=1,
        ),
        Column("cancellation", "a client cancels at any time", _STALL | {Verb.CANCEL, Verb.RECONCILE}),
        Column(
            "silent sink",
            "the request or its answer is lost",
            frozenset({Verb.RECONCILE}),
            replies=frozenset({Reply.DONE, Reply.SILENT, Reply.LOST}),
            repeats=True,
        ),
        Column(
            "restart with other settings",
            "a worker dies and comes back with another lease time and an open gate in its settings",
            _RECOVERY | {Verb.KILL, Verb.RESTART},
            kills=1,
            beyond=_TIMED,
        ),
        Column(
            POWER_CUT,
            f"the power fails at any stage of any operation, twice; a database whose durability does not keep what was "
            f"acknowledged loses up to {LAG} of its last transactions",
            _RECOVERY | {Verb.RESTART},
            cuts=2,
            beyond=(*_TIMED, KILL),
        ),
        Column(
            STORAGE_FAULT,
            "storage fails at any stage of one operation, which ends there with an open answer, and nobody dies",
            _RECOVERY,
            repeats=True,
            faults=1,
            beyond=(*_TIMED, RETRY, KILL),
        ),
        Column(
            AWAIT,
            "one operation in time: its sink is slow, silent or late, breaks or refuses, and between two awaits it is "
            "cancelled, interrupted, killed, claimed by another worker, or stalls past an attempt's end or the deadline; "
            "n counts scripts of answers, each with at most one event",
            awaits=True,
            beyond=(),
        ),
    )
}


def rows() -> dict[str, Contracts]:
    """The default contracts, and each weaker choice alone."""
    out = {"default": Contracts()}
    for name, choices in CHOICES.items():
        for choice in choices[1:]:
            out[f"{name}={choice}"] = contracts_from({name: choice})
    return out
