"""The attempts' cells of the survival matrix: the rule is searched, and the real runner goes through the same."""

from __future__ import annotations

from attrs import evolve, field, frozen

from model.attempts import outcomes
from model.attempts.promises import breaks
from model.attempts.search import Case, Found, found
from model.attempts.setup import Setup
from model.contracts import Contracts
from stateful.attempts.search import every_run
from stateful.attempts.system import AttemptSystem
from stateful.schedules.lanes import UnsupportedByEngine
from stateful.subject import Subject


@frozen
class Enacted:
    """What the runs came to: how many there were, a detail for each promise that broke, and what the rule forbids."""

    runs: int = 0
    broke: dict[str, str] = field(factory=dict)
    forbidden: str = ""
    """A run that the rule does not allow, if there was one."""
    unsupported: str = ""


def searched(contracts: Contracts) -> Found:
    """The rule's half."""
    return found(Setup(contracts=contracts))


def enacted(subject: Subject, contracts: Contracts, *, runs_max: int = 0) -> Enacted:
    """The runner's half: one attempt with one event before any turn, and two without; all of it, or ``runs_max`` runs."""
    runs, broke, forbidden = 0, dict[str, str](), ""
    try:
        with AttemptSystem(subject, contracts) as system:
            for attempts, events in ((1, 1), (2, 0)):
                setup = evolve(system.setup, max_attempts=attempts)
                for number, ran in enumerate(every_run(system, attempts, events, again=0), start=1):
                    runs += 1
                    for property_id, detail in breaks(ran.told, setup, ran.plan.answers, ran.events):
                        broke.setdefault(property_id, detail)
                    if ran.trouble or ran.told not in outcomes(setup, ran.plan.answers, ran.events):
                        forbidden = forbidden or ran.trouble or f"the rule does not allow {ran.told}"
                    if number == runs_max:
                        break
    except UnsupportedByEngine as error:
        return Enacted(unsupported=str(error))
    return Enacted(runs, broke, forbidden)


def labels(case: Case) -> tuple[str, ...]:
    """A case in words, a label a step."""
    answers, events = case
    told = [f"at {e.at_ms} ms: {e.kind}" + (f" until {e.until_ms} ms" if e.until_ms else "") for e in events]
    return (*(f"send, answered: {said}" for said in answers), *told)
