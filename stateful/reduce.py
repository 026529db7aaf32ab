"""The reducer: from an order that breaks a promise to a one-minimal one that breaks the same promise.

It works on labelled steps, not on the bytes behind them: it takes out runs, then single steps, then makes what is left
simpler, each time running the candidate for real, until no single removal and no single simplification keeps the
promise broken. Then it leaps: ``rewrites`` gives orders that no single removal leads to, and where one of them breaks
the promise in fewer steps, or can be reduced to fewer, the reduction goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from attrs import evolve, frozen

from model.actions import ALPHABET, Action, Step, Verb
from model.words import PAYLOADS, Reply
from stateful import rewrites
from stateful.order import Rig

Order = tuple[Step, ...]
_INSTANTS = ("lease", "approval", "deadline")
RUNS_MAX = 3_000
"""No order has been seen to need half of it; the bound keeps a subject that changes its mind from looping."""

LONG = 7
"""From so many steps on, steps are moved as well: a shorter order has not been seen to need it."""


@frozen
class Reduced:
    """A one-minimal order, what it shows, and how many runs it took to get there.

    ``minimal`` is False if the bound on runs ended the reduction, or if the order did not fail again when repeated.
    """

    steps: Order
    detail: str
    runs: int
    minimal: bool


class Reducer:
    """Reduces orders on one rig. Without ``leaps`` it stops at the first one-minimal order, in a third of the runs."""

    def __init__(self, rig: Rig, property_id: str, runs_max: int = RUNS_MAX, *, leaps: bool = True) -> None:
        self._rig = rig
        self._leaps = leaps
        self._property_id = property_id
        self._runs_max = runs_max
        self._tried: dict[Order, Order | None] = {}
        self.runs = 0
        self.detail = ""

    def reduce(self, steps: Order) -> Reduced:
        """The smallest order that can be reached from ``steps``."""
        best = self._breaks(steps)
        if best is None:
            return Reduced(steps, "the order did not fail again when it was repeated", self.runs, minimal=False)
        best = self._one_minimal(best)
        while self._leaps and (found := self._leap(best)) is not None and self.runs < self._runs_max:
            best = self._one_minimal(found)
        self._breaks(best, again=True)
        return Reduced(best, self.detail, self.runs, minimal=self.runs < self._runs_max)

    def _breaks(self, steps: Order, *, again: bool = False) -> Order | None:
        """The steps of the candidate that were executed until the promise broke, or None if it held."""
        if steps in self._tried and not again:
            return self._tried[steps]
        if self.runs >= self._runs_max and not again:
            return None
        self.runs += 1
        ran = self._rig.run(steps, until=self._property_id)
        found: Order | None = None
        if ran.finding is not None and ran.finding.property_id == self._property_id:
            self.detail = ran.finding.detail
            found = ran.steps[: ran.own]
        self._tried[steps] = found
        return found

    def _one_minimal(self, steps: Order) -> Order:
        while True:
            before = steps
            steps = self._simpler(self._shorter(steps))
            if steps == before or self.runs >= self._runs_max:
                return steps

    def _leap(self, best: Order) -> Order | None:
        """A shorter order that no single removal leads to, if a rewrite leads there."""
        for candidate in chain(rewrites.merged(best), rewrites.sent_at_once(best), rewrites.answered_alike(best)):
            found = self._breaks(candidate)
            if found is not None and len(found := self._shorter(found)) < len(best):
                return found
        model = self._rig.model
        one_for = (rewrites.one_for_many(model, best), rewrites.another_end(model, best))
        for candidate in chain(rewrites.without_two(best), *one_for):
            found = self._breaks(candidate)
            if found is not None and len(found) < len(best):
                return found
        return self._hoisted(best) if len(best) >= LONG else None

    def _hoisted(self, best: Order) -> Order | None:
        """A shorter order that is left when a step comes as soon as it may."""
        for further in rewrites.hoisted(best):
            found = next((f for candidate in further if (f := self._breaks(candidate)) is not None), None)
            if found is not None and len(found := self._shorter(found)) < len(best):
                return found
        return None

    def _shorter(self, steps: Order) -> Order:
        """Take out runs of half the length, a quarter, ... and single steps, until none can go."""
        size = max(1, len(steps) // 2)
        while True:
            start, removed = 0, False
            while start < len(steps):
                found = self._breaks(steps[:start] + steps[start + size :])
                if found is not None and len(found) < len(steps):
                    steps, removed = found, True
                else:
                    start += size
            if size > 1:
                size //= 2
            elif not removed:
                return steps

    def _simpler(self, steps: Order) -> Order:
        for candidate in (*self._renamed(steps), *self._other_payload(steps)):
            found = self._breaks(candidate)
            if found is not None and len(found) <= len(steps):
                steps = found
        for index in range(len(steps)):
            if index >= len(steps):
                break
            for simpler in self._alternatives(steps[index]):
                found = self._breaks((*steps[:index], simpler, *steps[index + 1 :]))
                if found is not None and len(found) <= len(steps):
                    steps = found
                    break
        return steps

    def _renamed(self, steps: Order) -> Iterator[Order]:
        """The same order with workers or keys exchanged, so that the first to appear is the first by name."""
        for attribute in ("worker", "key"):
            first = next((n for s in steps if (n := getattr(s.action, attribute)) >= 0), 0)
            if first > 0:
                swap = {first: 0, 0: first}
                yield tuple(
                    evolve(s, action=self._interned(s, {attribute: swap.get(n, n)}))
                    for s in steps
                    for n in (getattr(s.action, attribute),)
                )

    def _other_payload(self, steps: Order) -> Iterator[Order]:
        """The same order with the two payloads exchanged, if the first that is submitted is not the first by name."""
        first = next((s.action.choice for s in steps if s.action.verb is Verb.SUBMIT), PAYLOADS[0])
        if first == PAYLOADS[1]:
            swap = dict(zip(PAYLOADS, reversed(PAYLOADS), strict=True))
            yield tuple(
                evolve(s, action=evolve(s.action, choice=swap.get(s.action.choice, s.action.choice))) for s in steps
            )

    def _interned(self, step: Step, changes: dict[str, Any]) -> Action:
        return self._rig.model.alphabet.by_label[evolve(step.action, **changes).label]

    def _alternatives(self, step: Step) -> Iterator[Step]:
        """Simpler steps to put in its place, the simplest first."""
        action = step.action
        if step.kill_at:
            yield Step(action)
            yield from rewrites.dies_before(step)
            yield from (Step(action, n) for n in range(1, step.kill_at))
        if action.verb is Verb.STALL:  # a wake after it then makes no sense, and goes by itself
            yield Step(evolve(action, verb=Verb.DISPATCH, choice=str(Reply.DONE)))
        if action.verb is Verb.RELEASE:  # it gives back what time takes away
            yield Step(Action(Verb.ADVANCE, -1, action.key, "lease"))
        if action.verb is Verb.ADVANCE:
            yield from _other_times(action)
            return
        choices = ALPHABET[action.verb].choices
        if action.choice in choices:
            for choice in choices[: choices.index(action.choice)]:
                yield Step(evolve(action, choice=choice), step.kill_at)


def _other_times(action: Action) -> Iterator[Step]:
    """The plain instant instead of the tick beside it, one that is named before it, or the first key's."""
    plain = action.choice.removesuffix("-1").removesuffix("+1")
    if plain not in _INSTANTS:
        return
    for choice in _INSTANTS[: _INSTANTS.index(plain) + 1]:
        for key in range(action.key + 1):
            other = evolve(action, choice=choice, key=key)
            if other == action:
                return
            yield Step(other)
