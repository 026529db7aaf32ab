"""What a history is made of, what it is held against, and what is found: data, generic in operation and outcome."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from attrs import frozen

S = TypeVar("S", bound=Hashable)


class MalformedHistoryError(ValueError):
    """A history that no callers can have made."""


@frozen
class Call:
    """One call: who made it, what was asked, when it began and ended, what was answered.

    ``begin`` and ``end`` are positions in the run's order of events, each position used once; the calls of one lane
    follow one another. With an ``outcome`` the call was answered. Without one its process died at ``end``, and any
    prefix of its stages, none and all included, took effect before that. Without an ``end`` either, it is open for
    ever: any prefix, at any time after ``begin``.
    """

    lane: int
    operation: Any
    begin: int
    end: int | None = None
    outcome: Any = None

    @property
    def is_answered(self) -> bool:
        """Whether all its stages took effect and it said so."""
        return self.outcome is not None

    @property
    def is_crashed(self) -> bool:
        """Whether its process died before it could answer."""
        return self.outcome is None and self.end is not None


def precedes(first: Call, second: Call) -> bool:
    """Whether ``first`` was over before ``second`` began; calls of which neither precedes the other are concurrent."""
    return first.end is not None and first.end < second.begin


@frozen
class Group:
    """Calls that can be judged without looking at the others.

    ``scope`` says in the specification's own words which part of the state they concern.
    """

    calls: tuple[Call, ...]
    scope: Any = None


@frozen
class Done:
    """The end of a call's last stage, and what the call answers."""

    outcome: Any


class Specification(Protocol[S]):
    """What may happen, one atomic stage at a time. All methods must be pure functions; states are hashable."""

    def first(self) -> S:
        """The state before the first call."""

    def stages(self, state: S, operation: Any, memo: Any) -> Iterable[tuple[S, Any]]:
        """What the next stage of a call may do: the state after it, and what the call remembers, or a ``Done``.

        ``memo`` is None before the first stage, and hashable. No stages: nothing of the call can happen here.
        """

    def matches(self, operation: Any, expected: Any, outcome: Any) -> bool:
        """Whether the answer that was given, ``expected``, is the answer that the specification gives."""

    def groups(self, calls: Sequence[Call]) -> Sequence[Group]:
        """The calls in groups that are independent; the history is explained if and only if each group is."""


class Verdict(StrEnum):
    """What is known of a history."""

    EXPLAINED = "explained"
    UNEXPLAINED = "unexplained"
    UNDECIDED = "undecided"
    """The search was cut off at its bound: nothing is known."""


@frozen
class Explanation(Generic[S]):
    """What the judge found.

    ``configurations`` counts what was visited. Where explained: ``ends`` has for each of ``groups`` the accepted
    states after it, each once, and ``orders`` one order that explains it, as calls and the number of their stage,
    from 1. Where unexplained: ``prefix`` is the most calls of one group that were explained, in order, and ``stuck``
    the call that no order places after them; None if all were, and no end was accepted.
    """

    verdict: Verdict
    configurations: int
    groups: tuple[Group, ...] = ()
    ends: tuple[tuple[S, ...], ...] = ()
    orders: tuple[tuple[tuple[Call, int], ...], ...] = ()
    prefix: tuple[Call, ...] = ()
    stuck: Call | None = None
