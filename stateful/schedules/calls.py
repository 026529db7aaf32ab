"""A lane's calls as they run: what each has touched and changed so far, and what of it is told."""

from __future__ import annotations

from typing import Final

from attrs import define, field, frozen

from model.actions import Action, Verb
from model.words import Kind, Outcome, Stores
from stateful.bench import Process

SIGNED: Final = frozenset({Verb.APPROVE, Verb.DENY, Verb.REVOKE, Verb.FORGE, Verb.BUMP_POLICY})
"""Decisions are signed before they are handed in: by what the approver sees then, at the time that it is then."""
NEUTRAL: Final = Action(Verb.ADVANCE, choice="tick")
"""What is said to have been done where only what is stored is in question."""
WORDS_SHOWN: Final = 3
"""So much of a statement names it."""


@define(eq=False)
class CallUnderWay:
    """One call of a lane: what is called, since when, what it has changed, and how it ended."""

    index: int
    action: Action
    token: int = 0
    begin: int = 0
    """The event at which it first touched anything; 0 until then."""
    end: int = 0
    outcome: Outcome | None = None
    authorised: bool = False
    """Whether a send was authorised by it, so that what is left of it is the send."""
    changed: set[str] = field(factory=set)
    times: set[int] = field(factory=set)
    """What the clock said when it was read."""


@frozen
class Said:
    """One thing that happened in a run, for the story. ``lane`` is -1 where time moved, ``call`` -1 between calls."""

    lane: int
    call: int
    action: Action | None
    did: str
    """The boundary that was passed, or before which it died."""
    outcome: Outcome | None
    before: Stores
    after: Stores


def named(at: tuple[str, str]) -> str:
    """A boundary in a few words: ``SELECT ... FROM intents of ledger``."""
    where, what = at
    words = what.split()
    if words[:1] == ["SELECT"] and "FROM" in words[:-1]:
        words = ["SELECT", "...", "FROM", words[words.index("FROM") + 1]]
    elif len(words) > WORDS_SHOWN:
        words = [*words[:WORDS_SHOWN], "..."]
    return f"{' '.join(words)} of {where.removesuffix('.sqlite3')}" if where else ""


def can_call(process: Process, action: Action) -> bool:
    """Whether somebody with this in its head would make the call: nobody acknowledges what it was never told."""
    key, verb = action.key, action.verb
    if action.worker < 0 or verb in {Verb.CLAIM, Verb.REAP_READ}:
        return True
    if verb is Verb.REAP_APPLY:
        return process.overdue is not None
    if verb is Verb.ACKNOWLEDGE:
        return process.answers[key] is not None
    if verb is Verb.CHECKPOINT:
        return bool(process.receipts[key])
    if verb is Verb.DISPATCH:
        answer = process.answers[key]
        return process.tokens[key] > 0 and (
            answer is None or answer.kind is not Kind.ERROR or answer.reason == "transient"
        )
    return process.tokens[key] > 0
