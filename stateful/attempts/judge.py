"""What an operation's runs came to, against the promises and against the rule."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from model.attempts import Event, EventKind, Said, Setup, outcomes
from model.contracts import Deadline
from model.properties import ANSWERS, CONFORMS
from model.words import Kind, State
from stateful.attempts.system import Ran
from stateful.judge import Finding

FAILED = frozenset({State.FAILED, State.EXPIRED, State.DENIED})
"""What says that there is no effect, and will be none."""


def broken(ran: Ran, setup: Setup) -> Iterator[Finding]:
    """The promises that a run breaks, those first that have a name; then whether it is one that the rule allows."""
    if ran.trouble:
        yield Finding(ANSWERS.id, ran.trouble)
        return
    setup = evolve(setup, max_attempts=ran.plan.max_attempts)
    yield from _named(ran, setup)
    if ran.told not in outcomes(setup, ran.plan.answers, ran.events):
        yield Finding(CONFORMS.id, f"the rule does not allow it: {spoken(ran)}")


def spoken(ran: Ran) -> str:
    """What came of it, in a line."""
    told = ran.told
    sends = ", ".join(f"{at} ms" for at in told.sends_ms) or "nothing"
    ends = "; then ".join(f"{end} at {at} ms" for end, at in told.ends) or "it never ended"
    return (
        f"sent at {sends}; {told.effects} effect{'' if told.effects == 1 else 's'}; the intent is {told.state} after "
        f"{told.attempts} counted attempts; {told.cleaned} interrupted and cleaned up; {ends}"
    )


def _named(ran: Ran, setup: Setup) -> Iterator[Finding]:
    told, sends = ran.told, ran.told.sends_ms
    if told.effects > 1:
        yield Finding("one-effect", f"{told.effects} effects of {len(sends)} sends")
    if len(sends) > setup.max_attempts:
        yield Finding("bounded-attempts", f"{len(sends)} sends where {setup.max_attempts} are allowed")
    refused = _refused_for_good(ran)
    if refused is not None and len(sends) > refused + 1:
        yield Finding("bounded-attempts", f"sent again at {sends[refused + 1]} ms after a 400")
    if setup.contracts.deadline is Deadline.ABSOLUTE:
        late = [at for at in sends if at >= setup.deadline_ms]
        if late:
            yield Finding("deadline-kept", f"sent at {late[0]} ms, and the deadline was at {setup.deadline_ms} ms")
    if told.state is State.COMPLETED and not told.effects:
        yield Finding("true-completion", "the intent is completed and there is no effect")
    if told.state in FAILED and told.effects:
        yield Finding("unknown-kept", f"the intent is {told.state}, and it had its effect")
    if len(set(ran.receipts)) > 1:
        yield Finding("first-receipt", f"receipts {', '.join(ran.receipts)} for one operation")
    yield from _cancelled(ran)


def _refused_for_good(ran: Ran) -> int | None:
    """Which send was answered "no" for good, and that answer was heard; None where that is not clear."""
    if len(ran.events) > 1 + ran.plan.again:
        return None
    for n, said in enumerate(ran.plan.answers):
        if said.acts:
            return None
        if said is Said.BAD_REQUEST:
            return n
    return None


def _cancelled(ran: Ran) -> Iterator[Finding]:
    told, cancels = ran.told, [e for e in ran.events if e.kind is EventKind.CANCEL]
    if told.state is State.CANCELLED and told.effects:
        yield Finding("cancel-honoured", "the intent is cancelled, and it had its effect")
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
