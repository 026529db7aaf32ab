"""Sampling: single schedules of programs that are too large for a search, by chance or by a given list.

Every run is one complete schedule from the start. The same seed gives the same runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from stateful.schedules.search import Bounds, Choice, Counts, System

_Picker = Callable[[Sequence[Choice]], Choice]


class ChoiceError(ValueError):
    """A choice that the system does not have where it is to be made."""


def random_runs(system: System, seed: int, runs: int, bounds: Bounds | None = None) -> Counts:
    """Runs in which each choice is as likely as any other, wherever there is one."""
    rng, counts = Random(seed), Counts()  # noqa: S311 - a seed must give the same runs
    for _ in range(runs):
        if _run(system, rng.choice, bounds or Bounds(), counts):
            break
    return counts


def priority_runs(system: System, seed: int, runs: int, depth: int, bounds: Bounds | None = None) -> Counts:
    """Runs in which whoever has the highest priority goes on, and ``depth`` - 1 changes of priority come at random.

    A fault that needs ``depth`` orderings is found in each run with a probability of at least
    1 / (lanes x transitions^(depth - 1)): Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of
    Finding Bugs, 2010. A move of time and a death have a priority of their own, as if they were lanes. The number of
    transitions is taken from the runs so far, the first of which is made by chance.
    """
    rng, counts = Random(seed), Counts()  # noqa: S311 - a seed must give the same runs
    for number in range(runs):
        pick = _by_priority(rng, depth, counts.deepest) if number else rng.choice
        if _run(system, pick, bounds or Bounds(), counts):
            break
    return counts


def _by_priority(rng: Random, depth: int, transitions: int) -> _Picker:
    """Picks for one run: random priorities, changed before random transitions."""
    changes = sorted(rng.choices(range(1, max(transitions, 1) + 1), k=max(depth - 1, 0)))
    priorities: dict[Choice, float] = {}
    picked = 0

    def pick(options: Sequence[Choice]) -> Choice:
        nonlocal picked
        picked += 1
        for option in options:
            priorities.setdefault(_actor(option), rng.random())
        while changes and changes[0] <= picked:
            best = max(options, key=lambda c: priorities[_actor(c)])
            priorities[_actor(best)] = -float(len(changes))
            changes.pop(0)
        return max(options, key=lambda c: priorities[_actor(c)])

    return pick


def _actor(choice: Choice) -> str:
    """Whose priority counts: ``w1 busy`` is w1's, ``kill w1`` its own."""
    return choice.removesuffix(" busy")


def follow(system: System, choices: Iterable[Choice]) -> bool:
    """Make these choices from the start, and end the run there: whether it was complete.

    Raises ChoiceError where a choice cannot be made.
    """
    system.begin()
    for number, choice in enumerate(choices, 1):
        options = system.options()
        # Whether a lane is blocked may not be known until it has been tried.
        if choice.removesuffix(" busy") not in {_actor(c) for c in options} or system.take(choice) is None:
            system.finish(complete=False)
            there = ", ".join(options) or "none: the run is over"
            raise ChoiceError(f"choice {number}, {choice!r}, cannot be made; take one of those there are ({there})")
    complete = not system.options()
    system.finish(complete=complete)
    return complete


def _run(system: System, pick: _Picker, bounds: Bounds, counts: Counts) -> bool:
    """One run from the start; whether the system says stop."""
    system.begin()
    transitions = preemptions = 0
    is_cut = False
    while options := list(system.options()):
        if transitions >= bounds.transitions:
            counts.cut_by_transitions += 1
            is_cut = True
            break
        if bounds.preemptions is not None and preemptions >= bounds.preemptions:
            options = [c for c in options if not system.leaves(c)]
        choice = pick(options)
        costs = bool(system.leaves(choice))
        counts.transitions += 1
        if system.take(choice) is None:
            continue  # nothing has changed but the options
        transitions, preemptions = transitions + 1, preemptions + costs
    counts.nodes += transitions
    counts.deepest = max(counts.deepest, transitions)
    counts.schedules += not is_cut
    return system.finish(complete=not is_cut)
