"""Specifications small enough to judge in one's head: a register, a queue, a counter that takes two stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from model.histories import Call, Done, Group


class _Plain:
    """Answers are compared as they are, and nothing is independent."""

    def matches(self, operation: Any, expected: Any, outcome: Any) -> bool:
        return expected == outcome

    def groups(self, calls: Sequence[Call]) -> Sequence[Group]:
        return (Group(tuple(calls)),)


class Register(_Plain):
    """``write n`` answers ok, ``read`` the number that was written last, 0 at first."""

    def first(self) -> int:
        return 0

    def stages(self, state: int, operation: str, memo: Any) -> Iterable[tuple[int, Any]]:
        verb, *number = operation.split()
        yield (int(number[0]), Done("ok")) if verb == "write" else (state, Done(state))


class Queue(_Plain):
    """``enq x`` answers ok, ``deq`` the oldest item, or none."""

    def first(self) -> tuple[str, ...]:
        return ()

    def stages(self, state: tuple[str, ...], operation: str, memo: Any) -> Iterable[tuple[tuple[str, ...], Any]]:
        verb, *item = operation.split()
        if verb == "enq":
            yield (*state, item[0]), Done("ok")
        else:
            yield state[1:], Done(state[0] if state else "none")


class TornCounter(_Plain):
    """``add`` reads in one stage and writes in the next, so that two of them may count as one."""

    def first(self) -> int:
        return 0

    def stages(self, state: int, operation: str, memo: Any) -> Iterable[tuple[int, Any]]:
        yield (state, state) if memo is None else (memo + 1, Done(memo + 1))


@frozen
class Registers(_Plain):
    """Two registers, ``a`` and ``b``: ``a write 1``. Independent, so a group each."""

    def first(self) -> tuple[int, int]:
        return 0, 0

    def stages(self, state: tuple[int, int], operation: str, memo: Any) -> Iterable[tuple[tuple[int, int], Any]]:
        which, rest = operation.split(maxsplit=1)
        n = "ab".index(which)
        for value, done in Register().stages(state[n], rest, memo):
            yield (*state[:n], value, *state[n + 1 :]), done

    def groups(self, calls: Sequence[Call]) -> Sequence[Group]:
        return [Group(tuple(c for c in calls if c.operation[0] == which), which) for which in "ab"]
