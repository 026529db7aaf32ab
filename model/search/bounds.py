"""How much of the model is searched."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from model.actions import HIGHEST_REVISION, Verb
from model.contracts import Limits
from model.search.normal import TICK_LIMITS
from model.words import Reply

_TIMES = ("lease_ms", "other_lease_ms", "approval_ms", "deadline_ms")


def _verbs(verbs: Iterable[Verb]) -> frozenset[Verb]:
    return frozenset(verbs)


def _replies(replies: Iterable[Reply]) -> frozenset[Reply]:
    return frozenset(replies)


@frozen
class ModelBounds:
    """How much of the model is searched.

    ``kills`` counts deaths of workers, ``policy_bumps`` policy changes, ``grants`` claims of each key that are
    granted. Without ``payload_changes`` nobody submits or approves a second payload. Only ``verbs`` are done, and the
    sink only gives ``replies``. Times are in ticks and go by ``limits``.
    Without ``repeats`` a worker does not send again what it has an answer for; without ``blind`` nobody dispatches
    before there is a grant.
    Raises ValueError for bounds that are negative or contradict each other.
    """

    workers: int = 2
    keys: int = 1
    kills: int = 2
    policy_bumps: int = 1
    grants: int = 2
    payload_changes: bool = True
    repeats: bool = True
    blind: bool = True
    verbs: frozenset[Verb] = field(default=frozenset(Verb) - {Verb.POWER_CUT}, converter=_verbs)
    replies: frozenset[Reply] = field(default=frozenset(Reply), converter=_replies)
    limits: Limits = TICK_LIMITS

    def __attrs_post_init__(self) -> None:
        for name in ("workers", "keys", "kills", "policy_bumps", "grants"):
            value = getattr(self, name)
            least = 1 if name in {"workers", "keys"} else 0
            if value < least:
                raise ValueError(
                    f"{name}={value} is too few: nothing can be counted below {least}; give {least} or more"
                )
        if self.policy_bumps > HIGHEST_REVISION - 1:
            raise ValueError(
                f"policy_bumps={self.policy_bumps} is too many: the alphabet ends at revision {HIGHEST_REVISION}; "
                f"give {HIGHEST_REVISION - 1} or fewer"
            )
        for name in _TIMES:
            value = getattr(self.limits, name)
            if value < 1:
                raise ValueError(f"limits.{name}={value} has run out before it begins; give 1 tick or more")
        if self.limits.permits is not None:
            raise ValueError(
                f"limits.permits={self.limits.permits} ties keys together that are searched each by itself; give None, "
                "and leave permits to the engines that run orders"
            )
        if self.verbs & {Verb.DISPATCH, Verb.WAKE} and not self.replies:
            raise ValueError(
                "replies=() leaves a dispatch without an answer; give a reply, or take dispatch out of verbs"
            )
        if Verb.WAKE not in self.verbs and Verb.STALL in self.verbs:
            raise ValueError("verbs has stall without wake: a frozen worker could never go on; give both or neither")
