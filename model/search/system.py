"""What a search walks over: a transition system with hashable states, its bounds, and what a search found.

A system is a pure function of its states: the same state always gives the same successors, in the same order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Generic, TypeVar

from attrs import field, frozen

S = TypeVar("S", bound=Hashable)


@frozen
class Edge(Generic[S]):
    """A labelled transition.

    ``breaks`` is the id of the property that it breaks, "" if none; ``also_breaks`` holds the further ones, in the
    order in which they are reported. ``shows`` are the ids of the witnesses that it is.
    """

    label: str
    target: S
    breaks: str = ""
    also_breaks: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()

    @property
    def broken(self) -> tuple[str, ...]:
        """Every property that this transition breaks."""
        return (self.breaks, *self.also_breaks) if self.breaks else ()


class System(ABC, Generic[S]):
    """A transition system. ``successors`` is the fast path, ``edges`` the one with labels."""

    @property
    @abstractmethod
    def initial(self) -> S:
        """The state in which everything starts."""

    @abstractmethod
    def successors(self, state: S) -> Sequence[S]:
        """The states that one transition leads to; may repeat a state or contain ``state`` itself."""

    @abstractmethod
    def edges(self, state: S) -> Sequence[Edge[S]]:
        """The labelled transitions: at least one to each of ``successors`` other than ``state``."""

    def bad(self, state: S) -> str:
        """The id of a property that ``state`` or a transition out of it breaks, the state's first; "" if none. Cheap."""
        return ""

    def broken(self, state: S) -> tuple[Sequence[str], Sequence[str]]:
        """What ``state`` breaks by itself, and what the transitions out of it break. Asked only where it is bad."""
        by_transitions = [id_ for edge in self.edges(state) for id_ in edge.broken]
        id_ = self.bad(state)
        return [id_] if id_ and id_ not in by_transitions else [], by_transitions

    def shows(self, state: S) -> Sequence[str]:
        """The ids of the witnesses among the transitions out of ``state``. Cheap."""
        return ()

    def spell(self, path: Sequence[S], last: Callable[[Edge[S]], bool] | None = None) -> tuple[str, ...]:
        """The labels along ``path``, and of the first transition out of its end that ``last`` accepts, if any.

        Raises ValueError where two neighbours of ``path`` are not joined by a transition.
        """
        labels = [self._joined(here, there) for here, there in pairwise(path)]
        if last is not None:
            labels += [edge.label for edge in self.edges(path[-1]) if last(edge)][:1]
        return tuple(labels)

    def _joined(self, here: S, there: S) -> str:
        for edge in self.edges(here):
            if edge.target == there:
                return edge.label
        raise ValueError(
            f"no transition joins {here!r} to {there!r}: edges() lacks a target that successors() has; "
            "give each successor an edge"
        )


@frozen
class Progress:
    """How far a search has come: states seen, transitions taken, depth in steps, states that wait."""

    states: int
    transitions: int
    depth: int
    frontier: int


def _not_negative(instance: object, attribute: object, value: int | None) -> None:
    if value is not None and value < 0:
        name = getattr(attribute, "name", "bound")
        raise ValueError(
            f"{name}={value} is negative: a bound counts up from 0; give 0 or more, or None for no bound"
        )


def _goes_on(progress: Progress) -> str:
    return ""


@frozen
class Bounds:
    """What ends a search early; None is no bound.

    ``depth`` counts steps, ``states`` counts distinct states. ``tick`` is called now and then with the Progress and
    returns why the search has to stop ("time", "memory"), or "" to go on: clocks and meters are the caller's.
    Raises ValueError for a negative bound, and for a bound of no states at all.
    """

    depth: int | None = field(default=None, validator=_not_negative)
    states: int | None = field(default=None, validator=_not_negative)
    tick: Callable[[Progress], str] = _goes_on

    def __attrs_post_init__(self) -> None:
        if self.states == 0:
            raise ValueError("states=0 leaves no room for the first state: give 1 or more, or None for no bound")


class Verdict(StrEnum):
    """How a search ended."""

    EXHAUSTED = "exhausted"
    """Every reachable state was seen, and nothing was broken."""
    BOUNDED = "bounded"
    """A bound cut the search before it had seen everything."""
    VIOLATED = "violated"
    """A property is broken, and there is a trace."""


@frozen
class Result:
    """What a search found.

    ``cut`` names the bound that ended it: "depth", "states", or what ``Bounds.tick`` said; "" if none. ``diameter`` is
    the depth in steps that was reached, ``frontier`` the number of states seen and not expanded. ``trace`` holds the
    labels of a shortest counterexample to ``property_id``; after a search for all, ``traces`` has one for each broken
    property and ``witnesses`` one for each witness seen. For an infinite counterexample ``loop`` holds the labels that
    repeat after ``trace``.
    """

    verdict: Verdict
    states: int
    transitions: int
    diameter: int
    frontier: int
    cut: str = ""
    property_id: str = ""
    trace: tuple[str, ...] = ()
    loop: tuple[str, ...] = ()
    traces: Mapping[str, tuple[str, ...]] = field(factory=dict)
    witnesses: Mapping[str, tuple[str, ...]] = field(factory=dict)
