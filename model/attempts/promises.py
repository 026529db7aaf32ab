"""The promises that a run of attempts can break, by what it came to. The names are those of ``model.properties``."""

from __future__ import annotations

from collections.abc import Iterator

from model.attempts.script import TRAVEL_MS, Event, EventKind, Said
from model.attempts.setup import Setup
from model.attempts.told import Told
from model.words import State

FAILED = frozenset({State.FAILED, State.EXPIRED, State.DENIED})
"""What says that there is no effect, and will be none."""


def breaks(
    told: Told, setup: Setup, answers: tuple[Said, ...], events: tuple[Event, ...]
) -> Iterator[tuple[str, str]]:
    """Each promise that is broken, and what shows it."""
    sends = told.sends_ms
    again = _after_no(answers) if all(event.kind is EventKind.START for event in events) else len(sends)
    if again < len(sends):
        yield "bounded-attempts", f"sent again at {sends[again]} ms after a 400"
    if told.effects > 1:
        yield "one-effect", f"{told.effects} effects of {len(sends)} sends"
    if len(sends) > setup.max_attempts:
        yield "bounded-attempts", f"{len(sends)} sends where {setup.max_attempts} are allowed"
    late = [at for at in sends if at >= setup.deadline_ms]
    if late:
        yield "deadline-kept", f"sent at {late[0]} ms, and the deadline was at {setup.deadline_ms} ms"
    lost = [at for at, granted in told.claims if granted and _is_under_way(at, told, setup, answers, events)]
    if lost:
        yield "lease-kept", f"another worker was granted the key at {lost[0]} ms, and an attempt was under way"
    if told.state is State.COMPLETED and not told.effects:
        yield "true-completion", "the intent is completed and there is no effect"
    if told.state in FAILED and told.effects:
        yield "unknown-kept", f"the intent is {told.state}, and it had its effect"
    if told.state is State.CANCELLED and told.effects:
        yield "cancel-honoured", "the intent is cancelled, and it had its effect"


def _is_under_way(at_ms: int, told: Told, setup: Setup, answers: tuple[Said, ...], events: tuple[Event, ...]) -> bool:
    """Whether an attempt must be under way at an instant, of a worker that nothing has stopped or put to sleep."""
    if any(event.kind not in {EventKind.START, EventKind.CLAIM} for event in events):
        return False
    for sent_ms, said in zip(told.sends_ms, answers, strict=False):
        limit_ms = min(setup.attempt_ms, setup.deadline_ms - sent_ms)
        took_ms = limit_ms if said.is_long else min(limit_ms, TRAVEL_MS)
        if sent_ms <= at_ms < sent_ms + took_ms:
            return True
    return False


def _after_no(answers: tuple[Said, ...]) -> int:
    """Which send would be the first after one that was refused for good, and nothing had an effect before it."""
    for n, said in enumerate(answers):
        if said.acts:
            break
        if said is Said.BAD_REQUEST:
            return n + 1
    return len(answers)
