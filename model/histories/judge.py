"""The judge: searches for an order of the calls' stages that the specification explains.

After Wing and Gong (1993), with the visited configurations remembered as Lowe (2017) does. A configuration is how far
each lane has come, what its call remembers, and the state; two orders that lead to the same one are followed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import ge
from typing import Any, Generic

from attrs import define, field, frozen

from model.histories.history import Call, Done, Explanation, Group, S, Specification, Verdict
from model.histories.lanes import MASK, SHIFT, Lane, lanes_of

STATES_MAX = 1_000_000
"""Configurations of one history after which the judge gives up, unless told otherwise."""
STATES_KEPT = 100_000
"""States that a judge remembers from one history to the next before it starts afresh."""

Configuration = tuple[int, ...]
"""A cell for each lane (see ``model.histories.lanes``), and the number of the state."""
Table = dict[int, tuple[tuple[int, int], ...]]
"""State and memo of a call, packed -> (state, memo) after its next stage, memo 0 where that was the last one."""
Accepts = Callable[[Group, S], bool]
"""Whether a group may end in a state."""


@frozen
class _Reached:
    """What a group's search found: where each configuration came from, and which were accepted ends."""

    came: dict[Configuration, Configuration]
    ends: dict[int, Configuration]
    visited: int
    is_cut_off: bool


@define
class Judge(Generic[S]):
    """Judges histories of one specification. What it learns of the specification serves the next history too."""

    specification: Specification[S]
    _states: list[S] = field(factory=list, init=False)
    _state_ids: dict[S, int] = field(factory=dict, init=False)
    _memos: list[Any] = field(factory=lambda: [None], init=False)
    _memo_ids: dict[Any, int] = field(factory=dict, init=False)
    _tables: dict[Any, Table] = field(factory=dict, init=False)

    def explain(
        self,
        calls: Sequence[Call],
        *,
        accepts: Accepts[S] | None = None,
        all_ends: bool = True,
        states_max: int = STATES_MAX,
    ) -> Explanation[S]:
        """Whether some order of the calls' stages explains their answers and ends in an accepted state.

        With ``all_ends`` every accepted end is found, else the first. More than ``states_max`` configurations leave
        the history undecided, even where an end was found among them, as the others would be missing. Deterministic.

        Raises MalformedHistoryError where no callers can have made such calls.
        """
        if len(self._states) > STATES_KEPT:
            self._forget()
        groups = tuple(self.specification.groups(calls))
        visited = 0
        ends, orders = [], []
        for group in groups:
            lanes = lanes_of(group.calls)
            reached = self._search(lanes, group, accepts, all_ends, states_max - visited)
            visited += reached.visited
            if reached.is_cut_off:
                return Explanation(Verdict.UNDECIDED, visited, groups)
            if not reached.ends:
                prefix, stuck = self._furthest(lanes, reached)
                return Explanation(Verdict.UNEXPLAINED, visited, groups, prefix=prefix, stuck=stuck)
            ends.append(tuple(self._states[state] for state in reached.ends))
            orders.append(self._order(lanes, reached, next(iter(reached.ends.values()))))
        return Explanation(Verdict.EXPLAINED, visited, groups, tuple(ends), tuple(orders))

    # -- the search -------------------------------------------------------------------------------------------

    def _search(
        self, lanes: tuple[Lane, ...], group: Group, accepts: Accepts[S] | None, all_ends: bool, room: int
    ) -> _Reached:
        tables = [[self._table(call) for call in lane.calls] for lane in lanes]
        enough = (*(lane.enough for lane in lanes), 0)
        start = (*(0 for _ in lanes), self._state_id(self.specification.first()))
        came: dict[Configuration, Configuration] = {start: start}
        ends: dict[int, Configuration] = {}
        turned_down: set[int] = set()
        waiting = [start]
        visited = 0
        while waiting:
            if visited >= room:
                return _Reached(came, ends, visited, is_cut_off=True)
            visited += 1
            here = waiting.pop()
            state = here[-1]
            if all(map(ge, here, enough)) and state not in ends and state not in turned_down:
                if accepts is not None and not accepts(group, self._states[state]):
                    turned_down.add(state)
                else:
                    ends[state] = here
                    if not all_ends:
                        break
            for there in self._following(lanes, tables, here):
                if there not in came:
                    came[there] = here
                    waiting.append(there)
        return _Reached(came, ends, visited, is_cut_off=False)

    def _following(
        self, lanes: tuple[Lane, ...], tables: list[list[Table]], here: Configuration
    ) -> list[Configuration]:
        """The configurations that one stage of one call leads to, or one call's death."""
        found = []
        state = here[-1]
        for n, lane in enumerate(lanes):
            cell = here[n]
            if cell == lane.over:
                continue
            at, memo = cell >> SHIFT, cell & MASK
            if not memo and any(here[other] < needed for other, needed in lane.waits[at]):
                continue
            before, after, over = here[:n], here[n + 1 : -1], (at + 1) << SHIFT
            next_stages = tables[n][at].get(state << SHIFT | memo)
            if next_stages is None:
                next_stages = self._learn(tables[n][at], lane.calls[at], state, memo)
            for then, remembered in next_stages:
                found.append((*before, cell - memo + remembered if remembered else over, *after, then))
            if lane.dies[at]:
                found.append((*before, over, *after, state))
        return found

    # -- what is known of the specification -------------------------------------------------------------------

    def _forget(self) -> None:
        self._states, self._state_ids = [], {}
        self._memos, self._memo_ids = [None], {}
        self._tables = {}

    def _state_id(self, state: S) -> int:
        known = self._state_ids.setdefault(state, len(self._states))
        if known == len(self._states):
            self._states.append(state)
        return known

    def _memo_id(self, memo: Any) -> int:
        known = self._memo_ids.setdefault(memo, len(self._memos))
        if known == len(self._memos):
            self._memos.append(memo)
        return known

    def _table(self, call: Call) -> Table:
        """The stages of all calls that ask the same and were told the same."""
        return self._tables.setdefault((call.operation, call.outcome), {})

    def _learn(self, table: Table, call: Call, state: int, memo: int) -> tuple[tuple[int, int], ...]:
        found: dict[tuple[int, int], None] = {}
        for then, remembered in self.specification.stages(self._states[state], call.operation, self._memos[memo]):
            if not isinstance(remembered, Done):
                found[self._state_id(then), self._memo_id(remembered)] = None
            elif not call.is_answered or self.specification.matches(call.operation, call.outcome, remembered.outcome):
                found[self._state_id(then), 0] = None
        table[state << SHIFT | memo] = tuple(found)
        return table[state << SHIFT | memo]

    # -- what is told -----------------------------------------------------------------------------------------

    def _order(self, lanes: tuple[Lane, ...], reached: _Reached, end: Configuration) -> tuple[tuple[Call, int], ...]:
        """The stages on the way to ``end``."""
        way = [end]
        while reached.came[way[-1]] != way[-1]:
            way.append(reached.came[way[-1]])
        way.reverse()
        order: list[tuple[Call, int]] = []
        taken: dict[Call, int] = {}
        for here, there in pairwise(way):
            n = next(n for n in range(len(lanes)) if here[n] != there[n])
            call = lanes[n].calls[here[n] >> SHIFT]
            known = self._table(call)[here[-1] << SHIFT | here[n] & MASK]
            if (there[-1], there[n] & MASK) in known:  # otherwise it died there and did nothing
                taken[call] = taken.get(call, 0) + 1
                order.append((call, taken[call]))
        return tuple(order)

    def _furthest(self, lanes: tuple[Lane, ...], reached: _Reached) -> tuple[tuple[Call, ...], Call | None]:
        """The most calls that are over in one configuration, and the first to end of those that are not.

        Nothing that is not over precedes that call, so it had its chance.
        """
        best = max(reached.came, key=lambda c: sum(cell >> SHIFT for cell in c[:-1]))
        places = [(lane, cell >> SHIFT) for lane, cell in zip(lanes, best, strict=False)]
        over = {call for lane, at in places for call in lane.calls[:at]}
        prefix = dict.fromkeys(call for call, _ in reversed(self._order(lanes, reached, best)) if call in over)
        left = [call for lane, at in places for call in lane.calls[at:] if call.is_answered and call.end is not None]
        return tuple(reversed(prefix)), min(left, key=lambda c: c.end or 0, default=None)


def explain(
    specification: Specification[S],
    calls: Sequence[Call],
    *,
    accepts: Accepts[S] | None = None,
    all_ends: bool = True,
    states_max: int = STATES_MAX,
) -> Explanation[S]:
    """One history judged by a judge of its own: see ``Judge.explain``. For many histories keep one ``Judge``."""
    return Judge(specification).explain(calls, accepts=accepts, all_ends=all_ends, states_max=states_max)
