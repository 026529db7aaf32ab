"""The search: every schedule of a system of lanes within a bound, depth first, each run from the start.

Sleep sets leave out schedules that differ from one already run only in the order of transitions that commute. They
lose no outcome, no crash state and no state; a bound on preemptions could, since the schedule that stands for another
may be beyond it. A transition is therefore put to sleep only if nothing after it was cut off.

The generic part knows nothing of dispatchers: see ``System``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from attrs import define, field, frozen

from stateful.schedules.footprint import Footprint, commute

Choice = str
"""What happens next: ``w1`` takes a transition; ``w1 busy``; ``kill w1``; ``time``. Names are the system's."""


class System(Protocol):
    """What is scheduled. It must do the same whenever the same choices are made from the start."""

    def begin(self) -> None:
        """Start a run: every lane stands before its first boundary."""

    def options(self) -> Sequence[Choice]:
        """The choices there are now, the one that goes on with the lane that ran last first; none at the end.

        A blocked lane is no choice; where all that are left are blocked, ``x busy`` is one for each.
        """

    def take(self, choice: Choice, *, again: bool = False) -> Footprint | None:
        """Make a choice. None if the lane turned out to be blocked: nothing has changed but the options.

        ``again`` says that an earlier run has made the same choices up to here.
        """

    def leaves(self, choice: Choice) -> Choice:
        """The lane that the choice leaves although it could have gone on, as far as is known; empty if none."""

    def finish(self, *, complete: bool) -> bool:
        """End a run: judge it if it is complete. True if the search should stop."""


class ChangedMindError(Exception):
    """The same choices did not lead to the same transition: what is run is no function of its schedule."""

    def __init__(self, choice: Choice) -> None:
        super().__init__(f"it does not do the same again: after the same choices, {choice!r} was another transition")


@frozen
class Bounds:
    """How far a search goes. ``preemptions`` None: no bound on them."""

    preemptions: int | None = None
    transitions: int = 600
    """In one schedule: a program that never ends is cut here."""
    schedules: int | None = None
    """Complete ones and those that were cut."""
    reduce: bool = True


@define
class Counts:
    """What a search has done."""

    schedules: int = 0
    """Complete ones, each judged."""
    redundant: int = 0
    """Left when it was clear that they would only repeat others."""
    nodes: int = 0
    transitions: int = 0
    deepest: int = 0
    cut_by_preemptions: int = 0
    cut_by_transitions: int = 0
    exhausted: bool = False


@define
class Node:
    """One place in the tree of schedules: what was tried there, and what sleeps."""

    sleep: dict[Choice, Footprint]
    left: list[Choice]
    preemptions: int
    choice: Choice = ""
    taken: Footprint | None = None
    done: dict[Choice, Footprint] = field(factory=dict)
    blocked: set[Choice] = field(factory=set)
    cut: bool = False
    """Whether something below it was cut off by a bound."""


class Search:
    """Runs a system under every schedule within its bounds, one after the other."""

    def __init__(self, system: System, bounds: Bounds) -> None:
        self._system = system
        self._bounds = bounds
        self.counts = Counts()
        self.path: list[Node] = []

    def run(self) -> Counts:
        """Search until everything within the bounds is done, or the system says stop."""
        for _ in self.runs():
            pass
        return self.counts

    def runs(self) -> Iterator[bool]:
        """One run after the other; whether it was complete."""
        counts, bounds = self.counts, self._bounds
        while True:
            cut = counts.cut_by_transitions
            complete = self._run_once()
            counts.schedules += complete
            counts.redundant += not complete and cut == counts.cut_by_transitions
            counts.deepest = max(counts.deepest, len(self.path))
            stop = self._system.finish(complete=complete)
            yield complete
            runs = counts.schedules + counts.cut_by_transitions
            if stop or (bounds.schedules is not None and runs >= bounds.schedules):
                counts.exhausted = not self._back() and not stop and not counts.cut_by_transitions
                return
            if not self._back():
                counts.exhausted = not counts.cut_by_transitions
                return

    # -- one run ----------------------------------------------------------------------------------------------

    def _run_once(self) -> bool:
        """Repeat the path, then go on to the end. False if all that could follow is asleep, or beyond a bound.

        A run that is cut off is not complete: calls that have not answered must not be judged as if they never would.
        """
        system, counts, path = self._system, self.counts, self.path
        system.begin()
        for node in path[:-1]:
            counts.transitions += 1
            if system.take(node.choice, again=True) != node.taken:
                raise ChangedMindError(node.choice)
        if path and not self._choose(path[-1]):
            return False
        while options := system.options():
            if len(path) >= self._bounds.transitions:
                counts.cut_by_transitions += 1
                self._mark_cut()
                return False
            path.append(self._node(options))
            if not self._choose(path[-1]):
                return False
        return True

    def _node(self, options: Sequence[Choice]) -> Node:
        self.counts.nodes += 1
        if not self.path:
            return Node({}, list(options), 0)
        last = self.path[-1]
        assert last.taken is not None
        sleep: dict[Choice, Footprint] = {}
        if self._bounds.reduce:
            asleep = {**last.sleep, **last.done}
            sleep = {c: f for c, f in asleep.items() if _lane(c) != _lane(last.choice) and commute(f, last.taken)}
        return Node(sleep, list(options), last.preemptions)

    def _choose(self, node: Node) -> bool:
        """Take the first choice at a node that is neither asleep, nor blocked, nor beyond the bound."""
        system, bound = self._system, self._bounds.preemptions
        base = self.path[-2].preemptions if len(self.path) > 1 else 0
        while node.left:
            choice = node.left.pop(0)
            if choice in node.sleep:
                continue
            left = system.leaves(choice)
            costs = bool(left) and left not in node.blocked
            if bound is not None and base + costs > bound:
                self.counts.cut_by_preemptions += 1
                self._mark_cut()
                continue
            self.counts.transitions += 1
            taken = system.take(choice)
            if taken is None:
                node.blocked.add(choice)
                node.left += [c for c in system.options() if c.endswith(" busy") and c not in node.left]
                continue
            node.choice, node.taken, node.preemptions = choice, taken, base + costs
            node.cut = False
            return True
        return False

    def _mark_cut(self) -> None:
        for node in self.path:
            node.cut = True

    def _back(self) -> bool:
        """Leave the choice that was taken last, and go to the next one there is; False if there is none."""
        path = self.path
        while path:
            node = path[-1]
            if node.taken is not None and node.choice and not node.cut:
                node.done[node.choice] = node.taken
            node.choice, node.taken = "", None
            if any(c not in node.sleep for c in node.left):
                return True
            path.pop()
        return False


def _lane(choice: Choice) -> str:
    """Whose choice it is: ``kill w1`` and ``w1 busy`` are w1's."""
    return choice.removeprefix("kill ").removesuffix(" busy")
