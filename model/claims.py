"""What the maker of a system may claim, and how a claim is judged: by what happened at the sink, and by nothing else.

The promises of ``model.properties`` are about a dispatcher whose rows an oracle can read. Of somebody else's system only
two things are sure: what its sink saw, and what its callers were told. A claim is judged on those. Nothing that is not
claimed is judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from attrs import frozen


class Ability(StrEnum):
    """What an adapter of a called system can do besides ``start``. Orders that need more are not run on it."""

    RECOVER = "recover"
    """Bring on what an earlier process left."""
    OBSERVE = "observe"
    """Say what the system holds of a key."""
    DECIDE = "decide"
    """Take an approver's word."""
    CANCEL = "cancel"
    RECONCILE = "reconcile"
    """Take an operator's word about an outcome that is unknown."""
    ADVANCE = "advance"
    """Set the clock."""
    EFFECT_ID = "effect-id"
    """Give each effect an id that a sink can deduplicate by."""
    TWO_PROCESSES = "two-processes"
    """Share one store among processes."""
    LEASE = "lease"
    """Have a lease that runs out, on a clock that can be set or in real time."""


@frozen
class Claim:
    """One thing that may be claimed. ``sentence`` says it; ``choices`` are the ways to claim it, if there are several."""

    id: str
    sentence: str
    judged_by: str
    choices: tuple[str, ...] = ()
    has_limit: bool = False
    needs: frozenset[Ability] = frozenset()


CLAIMS: dict[str, Claim] = {}
"""Every claim by its identifier, in the order of the table's columns."""


def _claim(
    id_: str, sentence: str, judged_by: str, *needs: Ability, choices: tuple[str, ...] = (), has_limit: bool = False
) -> None:
    CLAIMS[id_] = Claim(id_, sentence, judged_by, choices, has_limit, frozenset(needs))


_claim(
    "at-most-once",
    "A call has at most one effect.",
    "a sink that counts sees one send of a key at the most, whatever died, was repeated, or ran at once",
)
_claim(
    "effect-kept",
    "What was accepted has its effect in the end.",
    "a sink that counts has seen a send of every accepted key, once everything has come to rest",
)
_claim(
    "stable-id",
    "Every send of a call carries the same id, and no other call's.",
    "the ids that the sends of a key come with are one, and those of two keys differ",
    Ability.EFFECT_ID,
)
_claim(
    "exactly-once-deduplicated",
    "At a sink that deduplicates by that id, a call has exactly one effect.",
    "of an accepted key a sink that deduplicates has exactly one effect, once everything has come to rest",
    Ability.EFFECT_ID,
)
_claim(
    "in-doubt",
    "Where it cannot know whether the effect happened, it says so and does not send again.",
    "after a death between a send and its record there is no second send, and the call is told neither done nor failed",
)
_claim(
    "first-result",
    "A repeated call returns the first result, without a send.",
    "once a call was told done, each repetition is told done with an equal result, and nothing more is sent",
)
_claim(
    "true-completion",
    "What is reported as done has its effect.",
    "whenever a call is told done, the sink has seen its send",
)
_claim(
    "changed-payload",
    "A known key with another payload is treated as claimed.",
    "refused: told so, nothing sent; replayed: told the first result, nothing sent; part-of-key: it is another call",
    choices=("refused", "replayed", "part-of-key"),
)
_claim(
    "one-at-a-time",
    "Two workers that are given the same call at once send it once.",
    "while one worker is inside the effect, another that is given the same call does not get there",
    Ability.TWO_PROCESSES,
)
_claim(
    "late-owner",
    "An owner that was overtaken can no longer record its result.",
    "a worker is frozen inside the effect, its lease runs out, another finishes; the first result then stands",
    Ability.TWO_PROCESSES,
    Ability.LEASE,
)
_claim(
    "approval-needed",
    "Nothing is sent before it is approved, and nothing that was denied.",
    "no send before a grant, none after a denial, before and after a restart",
    Ability.DECIDE,
)
_claim(
    "approval-payload",
    "A grant opens the gate for the payload that was shown, and for no other.",
    "a grant for another payload sends nothing",
    Ability.DECIDE,
)
_claim(
    "approval-expires",
    "A grant that comes too late, or is used too late, sends nothing.",
    "no send after the expiry",
    Ability.DECIDE,
    Ability.ADVANCE,
)
_claim(
    "approval-once",
    "One grant is used once, and two at the same time are one.",
    "two grants of one call, one after the other and at once, send once",
    Ability.DECIDE,
)
_claim(
    "retry-budget",
    "A call is attempted at most so many times, deaths included.",
    "the effect is entered at most that often, however often its process is killed inside it",
    has_limit=True,
)
_claim(
    "cancel-honoured",
    "After a cancellation was acknowledged nothing is sent.",
    "no send of a key after its cancellation was told done",
    Ability.CANCEL,
)
_claim(
    "progress",
    "Every accepted call comes to an end.",
    "alone: by recovery and repetition; operator: what is unknown may wait for one, who ends it by `reconcile`",
    choices=("alone", "operator"),
)


EXCLUDED = ("pause", "ended")
"""What a claim may leave out: ``pause``, a process that stands still and goes on later; ``ended``, a call that has ended
before another payload comes, which then is another call."""


class ClaimError(ValueError):
    """A claim is none: the message says which, why, and what to do."""


@frozen
class Claimed:
    """A claim as somebody makes it: in our own words, and where its documentation says so."""

    claim: Claim
    says: str = ""
    where: str = ""
    choice: str = ""
    limit: int = 0
    excludes: tuple[str, ...] = ()
    """What the project excludes, out of EXCLUDED."""

    @property
    def id(self) -> str:
        """The claim's identifier."""
        return self.claim.id


def claimed_from(raw: object) -> Claimed:
    """A claim from JSON. Raises ClaimError."""
    if not isinstance(raw, dict) or not isinstance(raw.get("id"), str):
        raise ClaimError(f'{raw!r} is no claim: it is an object with an "id" out of {", ".join(CLAIMS)}')
    claim = CLAIMS.get(raw["id"])
    if claim is None:
        raise ClaimError(f"there is no claim {raw['id']!r}; the claims are {', '.join(CLAIMS)}")
    strangers = sorted(set(raw) - {"id", "says", "where", "choice", "limit", "excludes"})
    if strangers:
        raise ClaimError(f"claim {claim.id!r} has no {', '.join(map(repr, strangers))}")
    choice, limit = raw.get("choice", ""), raw.get("limit", 0)
    if claim.choices and choice not in claim.choices:
        raise ClaimError(
            f"claim {claim.id!r} is made with choice {choice!r}; it is one of {', '.join(claim.choices)}"
        )
    if not claim.choices and choice:
        raise ClaimError(f"claim {claim.id!r} has no choices, and is made with {choice!r}")
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0 or bool(limit) != claim.has_limit:
        wanted = "a number from 1" if claim.has_limit else "none"
        raise ClaimError(f"claim {claim.id!r} is made with limit {limit!r}; its limit is {wanted}")
    excludes = raw.get("excludes", [])
    if not isinstance(excludes, list) or not set(excludes) <= set(EXCLUDED):
        raise ClaimError(f"claim {claim.id!r} excludes {excludes!r}; what can be excluded is {', '.join(EXCLUDED)}")
    return Claimed(claim, str(raw.get("says", "")), str(raw.get("where", "")), choice, limit, tuple(excludes))


def all_claimed(raw: Iterable[object]) -> tuple[Claimed, ...]:
    """Claims from JSON, in the table's order. Raises ClaimError also for one that is made twice."""
    made = [claimed_from(one) for one in raw]
    ids = [one.id for one in made]
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice:
        raise ClaimError(f"claimed twice: {', '.join(twice)}; leave one of them")
    return tuple(sorted(made, key=lambda one: list(CLAIMS).index(one.id)))
