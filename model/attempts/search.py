"""All that the rule allows within bounds: every script, and one event at any instant that tells it from another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from attrs import evolve, field, frozen

from model.attempts.automaton import outcomes
from model.attempts.promises import breaks
from model.attempts.script import Event, EventKind, Said
from model.attempts.setup import Setup

Case = tuple[tuple[Said, ...], tuple[Event, ...]]
_START = Event(EventKind.START, 0)


@frozen
class Found:
    """How many cases there are, how many outcomes they have, and the shortest case that breaks each promise."""

    cases: int
    outcomes: int
    broken: dict[str, Case] = field(factory=dict)


def found(setup: Setup) -> Found:
    """Every script of one answer with one event, and every script of two without any."""
    cases, seen = 0, 0
    broken: dict[str, Case] = {}
    for attempts, (answers, events) in _cases(setup):
        cases += 1
        bound = evolve(setup, max_attempts=attempts)
        for told in outcomes(bound, answers, events):
            seen += 1
            for property_id, _detail in breaks(told, bound, answers, events):
                came = tuple(event for event in events if event.kind is not EventKind.START)
                broken.setdefault(property_id, (answers[: len(told.sends_ms)], came[:1]))
    return Found(cases, seen, broken)


def _cases(setup: Setup) -> Iterator[tuple[int, Case]]:
    late_ms = setup.deadline_ms
    for said in Said:
        yield 1, ((said,), (_START,))
        yield 1, ((said,), (Event(EventKind.STALL, 0, late_ms), Event(EventKind.START, late_ms)))
    for said, event in product(Said, _events(setup)):
        # What has no answer is done: a run that sends more often than it should has something to be told.
        yield 1, ((said, Said.DONE), (_START, *event))
    for answers in product(Said, repeat=2):
        yield 2, (answers, (_START,))


def _events(setup: Setup) -> Iterator[tuple[Event, ...]]:
    """One event at an instant, and whoever takes over after it: once the worker has ended, grace included."""
    deadline, attempt = setup.deadline_ms, setup.attempt_ms
    instants = sorted({*range(attempt + setup.grace_ms + 1), deadline - 1, deadline})
    for at_ms in instants:
        yield (Event(EventKind.CANCEL, at_ms),)
        yield (Event(EventKind.CLAIM, at_ms),)
        yield Event(EventKind.INTERRUPT, at_ms), Event(EventKind.START, at_ms + setup.grace_ms + 1)
        yield Event(EventKind.KILL, at_ms), Event(EventKind.START, at_ms + setup.lease_ms)
        for until_ms in (attempt, deadline - 1, deadline):
            if until_ms > at_ms:
                yield (Event(EventKind.STALL, at_ms, until_ms),)
