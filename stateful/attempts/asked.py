"""Where a run's answers, events and ties come from: a plan that is played, or a search that chooses."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from model.attempts import Said
from stateful.attempts.choices import Choose
from stateful.attempts.plan import Plan, Planned


@define
class Asked:
    """Where a run's answers, events and ties come from: a plan, or a search."""

    answer: Callable[[int], Said]
    event: Callable[[int, int, list[Planned]], Planned | None]
    """Which event comes at an instant, before its n-th turn, of those that can come."""
    tie: Callable[[int], int]


def asked_by(plan: Plan) -> Asked:
    """The answers, events and ties of a plan."""
    events, ties = list(plan.events), list(plan.ties)

    def event(now_ms: int, turn: int, _possible: list[Planned]) -> Planned | None:
        if events and (turn or not events[0].turn) and (events[0].at_ms, events[0].turn) <= (now_ms, turn):
            return events.pop(0)
        return None

    def tie(count: int) -> int:
        return min(ties.pop(0), count - 1) if ties else 0

    return Asked(lambda n: plan.answers[n] if n < len(plan.answers) else Said.DONE, event, tie)


def asked_by_search(
    choose: Choose,
    events: int,
    answers: tuple[Said, ...],
    first: Said | None = None,
    kinds: tuple[str, ...] = (),
) -> Asked:
    """Everything that can be asked, as a search chooses: at most so many events, of some kinds or of all.

    The first answer is given, or chosen like the others.
    """
    left = [events]

    def answer(n: int) -> Said:
        return first if first is not None and not n else answers[choose(len(answers))]

    def event(_now_ms: int, _turn: int, possible: list[Planned]) -> Planned | None:
        if not left[0]:
            return None
        if kinds:
            possible = [p for p in possible if p.kind in kinds or (p.is_timeout and "timeout" in kinds)]
        chosen = choose(len(possible) + 1)
        if not chosen:
            return None
        left[0] -= 1
        return possible[chosen - 1]

    return Asked(answer, event, choose)
