"""What an operation's runs came to, against the promises and against the rule."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import astuple, evolve

from model.attempts import Event, EventKind, Setup, Told, outcomes
from model.attempts.promises import breaks
from model.properties import ANSWERS, CONFORMS
from model.words import Kind, State
from stateful.attempts.ran import Ran
from stateful.judge import Finding


def broken(ran: Ran, setup: Setup) -> Iterator[Finding]:
    """The promises that a run breaks, those first that have a name; then whether it is one that the rule allows."""
    if ran.trouble:
        yield Finding(ANSWERS.id, ran.trouble)
        return
    setup = evolve(setup, max_attempts=ran.plan.max_attempts)
    yield from _named(ran, setup)
    allowed = outcomes(setup, ran.plan.answers, ran.events)
    if ran.told not in allowed:
        yield Finding(CONFORMS.id, f"the rule does not allow it: {spoken(ran.told)}{_closest(ran.told, allowed)}")


def _closest(told: Told, allowed: frozenset[Told]) -> str:
    """What the rule allows that is most like it; empty where it allows nothing, for more was sent than was answered."""
    if not allowed:
        return ". It allows nothing with as few sends"
    mine = astuple(told, recurse=False)

    def likeness(other: Told) -> tuple[int, str]:
        return sum(a == b for a, b in zip(mine, astuple(other, recurse=False), strict=True)), str(other)

    return f". Allowed, and closest to it: {spoken(max(allowed, key=likeness))}"


def spoken(told: Told) -> str:
    """What came of it, in a line."""
    sends = ", ".join(f"{at} ms" for at in told.sends_ms) or "nothing"
    ends = "; then ".join(f"{end} at {at} ms" for end, at in told.ends) or "it never ended"
    return (
        f"sent at {sends}; {told.effects} effect{'' if told.effects == 1 else 's'}; the intent is {told.state} after "
        f"{told.attempts} counted attempts; {told.cleaned} interrupted and cleaned up; {ends}"
    )


def _named(ran: Ran, setup: Setup) -> Iterator[Finding]:
    for property_id, detail in breaks(ran.told, setup, ran.plan.answers, ran.events):
        yield Finding(property_id, detail)
    if len(set(ran.receipts)) > 1:
        yield Finding("first-receipt", f"receipts {', '.join(ran.receipts)} for one operation")
    yield from _cancelled(ran)


def _cancelled(ran: Ran) -> Iterator[Finding]:
    told, cancels = ran.told, [e for e in ran.events if e.kind is EventKind.CANCEL]
    if any(kind in {Kind.OK, Kind.REPLAYED} for kind in ran.cancelled) and not told.effects:
        yield Finding("cancel-honoured", "whoever cancelled was told of an effect, and there is none")
    if Kind.ERROR in ran.cancelled and told.effects:
        yield Finding("cancel-honoured", "whoever cancelled was told that there is no effect, and there is one")
    if cancels and ran.cancelled and told.state is not State.COMPLETED:
        after = [at for at in told.sends_ms if at > _heard(cancels[0], ran)]
        if after:
            yield Finding("cancel-honoured", f"sent at {after[0]} ms, and cancelled at {cancels[0].at_ms} ms")


def _heard(cancel: Event, ran: Ran) -> int:
    """When a cancellation was heard: a stall comes between."""
    stalls = [e.until_ms for e in ran.events if e.kind is EventKind.STALL and e.at_ms <= cancel.at_ms <= e.until_ms]
    return max([cancel.at_ms, *stalls])
