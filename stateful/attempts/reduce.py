"""The shortest plan that still breaks a promise: answers, events and ties are taken out, or made simpler, one by one."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve, frozen

from model.attempts import Said
from stateful.attempts.judge import broken
from stateful.attempts.plan import Plan
from stateful.attempts.system import AttemptSystem

RUNS_MAX = 2_000
SIMPLE = (Said.DONE, Said.SILENT, Said.RESET_BEFORE, Said.TOO_MANY)
"""Answers that are simpler than others."""


@frozen
class Reduced:
    """A plan, what it shows, whether nothing more can be taken out, and how many runs that took."""

    plan: Plan
    detail: str
    minimal: bool
    runs: int


def reduced_plan(system: AttemptSystem, plan: Plan, property_id: str, detail: str) -> Reduced:
    """The plan with whatever is not needed to break the promise taken out."""
    runs = 0
    while True:
        for smaller in _smaller(plan):
            if runs >= RUNS_MAX:
                return Reduced(plan, detail, minimal=False, runs=runs)
            runs += 1
            ran = system.replay(smaller)
            found = next((f for f in broken(ran, system.setup) if f.property_id == property_id), None)
            if found is not None:
                plan, detail = _as_run(smaller, ran.plan), found.detail
                break
        else:
            return Reduced(plan, detail, minimal=True, runs=runs)


def _as_run(asked: Plan, ran: Plan) -> Plan:
    """The plan as it was run: without what was never asked for, and without ties at the end that say nothing."""
    ties = list(ran.ties[: len(asked.ties)])
    while ties and not ties[-1]:
        ties.pop()
    return evolve(asked, answers=asked.answers[: len(ran.answers)], events=ran.events, ties=tuple(ties))


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans that are shorter, or as long and simpler."""
    yield from _shorter(plan)
    yield from _simpler(plan)


def _shorter(plan: Plan) -> Iterator[Plan]:
    if plan.again:
        yield evolve(plan, again=plan.again - 1)
    for n in range(len(plan.events)):
        yield evolve(plan, events=plan.events[:n] + plan.events[n + 1 :])
    for n in range(len(plan.answers)):
        yield evolve(plan, answers=plan.answers[:n] + plan.answers[n + 1 :])
    if plan.max_attempts > 1:
        yield evolve(plan, max_attempts=plan.max_attempts - 1)
    for n, tie in enumerate(plan.ties):
        if tie:
            yield evolve(plan, ties=(*plan.ties[:n], 0, *plan.ties[n + 1 :]))


def _simpler(plan: Plan) -> Iterator[Plan]:
    for n, said in enumerate(plan.answers):
        for simple in SIMPLE[: SIMPLE.index(said) if said in SIMPLE else len(SIMPLE)]:
            yield evolve(plan, answers=(*plan.answers[:n], simple, *plan.answers[n + 1 :]))
    for n, event in enumerate(plan.events):
        if event.turn > 1:
            for turn in (1, event.turn - 1):
                yield evolve(plan, events=(*plan.events[:n], evolve(event, turn=turn), *plan.events[n + 1 :]))
