"""What to add to a state for each move, found once for each combination of components and kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from model.actions import Verb
from model.search.bounds import ModelBounds
from model.search.components import Components
from model.search.layout import SLOT_BITS
from model.search.local import WHOLE, Local, Move
from model.step import Model
from model.words import Worker

REMEMBERED_MOVES = 1 << 14
"""For so many combinations the moves themselves are kept, for the labels; they can be had again."""
LEFT_OUT = frozenset({"p1-reordered", "again", "new-name"})
"""Choices that lead where another one leads, or nowhere: no search has to try them."""


class Entry(NamedTuple):
    """What to add to a state for the moves on one key, by clients or by one worker.

    ``calm`` is for a state in which no view is live: without a kill left, and with one. ``groups`` are the same moves
    by the bits that they keep before the addition, and whether they need a kill. ``breaks`` and ``shows`` are without
    a kill left, and with one.
    """

    calm: tuple[tuple[int, ...], tuple[int, ...]]
    groups: tuple[tuple[int, tuple[int, ...], bool], ...]
    breaks: tuple[tuple[str, ...], tuple[str, ...]]
    shows: tuple[tuple[str, ...], tuple[str, ...]]


class Shape(NamedTuple):
    """The same moves for whichever worker it is: what they add to the numbers of the key and of the worker.

    ``changes`` are apart by whether a view of the key is void afterwards, and whether a process dies.
    """

    changes: tuple[tuple[bool, bool, tuple[tuple[int, int], ...]], ...]
    breaks: tuple[tuple[str, ...], tuple[str, ...]]
    shows: tuple[tuple[str, ...], tuple[str, ...]]


class Part(NamedTuple):
    """Who moves on which key (-1: clients), the bits that decide what they may do, and what is known already."""

    mask: int
    worker: int
    key: int
    entries: dict[int, Entry]


class Rest(NamedTuple):
    """What one key's rows say on their own: the addition for a tick and for a reaper, and whether they are overdue."""

    tick: int
    overdue: bool
    reaped: int
    breaks: tuple[str, ...]


class Tables(Components):
    """The additions, by the components that decide about them."""

    def __init__(self, model: Model, bounds: ModelBounds) -> None:
        super().__init__(model, bounds)
        lay = self.layout
        self._local = Local(self.model, bounds)
        self._rests: tuple[dict[int, Rest], ...] = tuple({} for _ in range(bounds.keys))
        self._parts = [Part(lay.slot_mask(k) | lay.revision_mask(), -1, k, {}) for k in range(bounds.keys)]
        self._parts += [
            Part(lay.slot_mask(k) | lay.revision_mask() | lay.worker_mask(w), w, k, {})
            for w in range(bounds.workers)
            for k in range(bounds.keys)
        ]
        self._every_view = sum(lay.views_of(w) for w in range(bounds.workers))
        self._shapes: dict[tuple[int, int, int, int], Shape] = {}
        slots = sum(lay.slot_mask(k) for k in range(bounds.keys))
        self._reapers: list[tuple[int, dict[int, tuple[tuple[int, ...], tuple[int, ...]]]]] = [
            (slots | lay.worker_mask(w) | self._every_view, {}) for w in range(bounds.workers)
        ]
        self._one_key = self._rests[0] if bounds.keys == 1 else None
        self._one_kill = 1 << lay.kills_at
        self._ticks = Verb.ADVANCE in bounds.verbs
        self._bumps = bounds.policy_bumps if Verb.BUMP_POLICY in bounds.verbs else 0
        self._suspect = False
        self._moves = lru_cache(REMEMBERED_MOVES)(self._asked_moves)

    def _passing(self, state: int, found: list[int]) -> int:
        """Add what time and policy do, to every key at once; returns which keys are overdue, a bit for each."""
        tick = overdue = 0
        for key, rests in enumerate(self._rests):
            number = state >> SLOT_BITS * key & self._slot_mask
            rest = rests.get(number)
            if rest is None:
                rest = rests[number] = self._rest(number, key)
            tick += rest.tick
            overdue |= rest.overdue << key
        if tick and self._ticks:
            found.append(state + tick)
        if self._bumps and (state >> self.layout.revision_at & 3) <= self._bumps:
            found.append(state + (1 << self.layout.revision_at))
        return overdue

    def _reaper(self, state: int, worker: int, overdue: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What to add to a state for the ways in which one worker may reap: without a kill left, and with one."""
        ways = [(died, target - state) for _, died, target in self._reaping(state, worker, overdue, has_kills=True)]
        lasting = tuple(addition for died, addition in ways if died < 0 and addition)
        return lasting, lasting + tuple(addition for died, addition in ways if died >= 0)

    def _reaping(self, state: int, index: int, overdue: int, *, has_kills: bool) -> Iterator[tuple[Verb, int, int]]:
        """(verb, stage after which it died, target) for each way in which a worker may reap.

        ``overdue`` has a bit for each key.
        """
        lay, verbs = self.layout, self.bounds.verbs
        worker = self._workers.values[self._worker_number(state, index)]
        if not worker.alive or worker.stalled >= 0:
            return
        if Verb.REAP_READ in verbs:
            yield Verb.REAP_READ, -1, state | overdue << lay.view_shift(index)
        live = state >> lay.view_shift(index) & ((1 << lay.keys) - 1)
        if not live or Verb.REAP_APPLY not in verbs:
            return
        target = state
        for key in range(lay.keys):
            if live >> key & 1:
                rest = self._rests[key][self._slot_number(state, key)]
                target = (target & ~lay.views_on(key)) + rest.reaped
        yield Verb.REAP_APPLY, -1, target
        if has_kills:
            yield Verb.REAP_APPLY, 1, self._killed(target, index)

    def _rest(self, number: int, key: int) -> Rest:
        slot, shift = self._slots.values[number], self.layout.slot_shift(key)
        overdue, reaped = self._local.is_overdue(slot), number
        breaks: tuple[str, ...] = ()
        if overdue:
            after, breaks = self._local.reaped(slot)
            reaped = self._slots(after)
            self._suspect = self._suspect or bool(breaks)
        ticked = self._slots(self._local.ticked(slot))
        return Rest((ticked - number) << shift, overdue, (reaped - number) << shift, breaks)

    def _entry(self, state: int, worker: int, key: int) -> Entry:
        known = self._worker_number(state, worker) if worker >= 0 else -1
        of = (self._revision(state), self._slot_number(state, key), known, key)
        shape = self._shapes.get(of)
        if shape is None:
            shape = self._shapes[of] = self._shape(state, worker, key)
            self._suspect = self._suspect or bool(shape.breaks[1])
        lay = self.layout
        groups: list[tuple[int, tuple[int, ...], bool]] = []
        lasting: list[int] = []
        deadly: list[int] = []
        for clears, dies, changes in shape.changes:
            additions = [
                (rows << lay.slot_shift(key)) + (memory << lay.worker_shift(worker) if memory else 0)
                for rows, memory in changes
            ]
            additions = [addition - (dies << lay.kills_at) for addition in additions]
            groups.append((self._kept(worker, key, clears=clears, dies=dies), tuple(additions), dies))
            (deadly if dies else lasting).extend(additions)
        if worker < 0 and self._one_key is not None:
            # With one key alone, time and policy depend on what the clients' moves depend on.
            passing: list[int] = []
            self._passing(state, passing)
            passing = [target - state for target in passing]
            lasting += passing
            groups.append((-1, tuple(passing), False))
        return Entry((tuple(lasting), tuple(lasting + deadly)), tuple(groups), shape.breaks, shape.shows)

    def _shape(self, state: int, worker: int, key: int) -> Shape:
        groups: dict[tuple[bool, bool], dict[tuple[int, int], None]] = defaultdict(dict)
        breaks: tuple[dict[str, None], dict[str, None]] = ({}, {})
        shows: tuple[dict[str, None], dict[str, None]] = ({}, {})
        for move in self._local_moves(state, worker, key):
            dies = dies_in(move)
            for left in range(dies, 2):
                breaks[left].update(dict.fromkeys(move.breaks))
                shows[left].update(dict.fromkeys(move.shows))
            if move.action.choice in LEFT_OUT or (dies and worker < 0):
                continue
            change = self._change(state, move, worker, key)
            if dies or any(change):
                groups[move.clears, dies][change] = None
        return Shape(
            tuple((clears, dies, tuple(changes)) for (clears, dies), changes in groups.items()),
            (tuple(breaks[0]), tuple(breaks[1])),
            (tuple(shows[0]), tuple(shows[1])),
        )

    def _change(self, state: int, move: Move, worker: int, key: int) -> tuple[int, int]:
        """What a move on one key adds to the key's number and to the worker's."""
        rows = self._slots(move.slot) - self._slot_number(state, key)
        if worker < 0:
            return rows, 0
        number = self._worker_number(state, worker)
        return rows, self._lifted(number, move, key) - number

    def _kept(self, worker: int, key: int, *, clears: bool, dies: bool) -> int:
        """The bits that stay before something is added."""
        kept = ~self.layout.views_on(key) if clears else -1
        return kept & ~self.layout.views_of(worker) if dies and worker >= 0 else kept

    def _target(self, state: int, move: Move, worker: int, key: int) -> int:
        lay, dies = self.layout, dies_in(move)
        rows, memory = self._change(state, move, worker, key)
        state &= self._kept(worker, key, clears=move.clears, dies=dies)
        state += (rows << lay.slot_shift(key)) - (dies << lay.kills_at)
        return state + (memory << lay.worker_shift(worker) if memory else 0)

    def _local_moves(self, state: int, worker: int, key: int) -> Sequence[Move]:
        revision, slot = self._revision(state), self._slot_number(state, key)
        if worker < 0:
            return self._moves(revision, slot, None)
        known = self._workers.values[self._worker_number(state, worker)]
        moves = self._moves(revision, slot, self._local.seen_from(known, key))
        if self.layout.keys == 1:
            return moves
        # What a worker does as a whole is told once, with the first key; a frozen one wakes with its own key.
        frozen_elsewhere = known.stalled not in {-1, key}
        return [m for m in moves if (key == 0 if m.action.verb in WHOLE else not frozen_elsewhere)]

    def _asked_moves(self, revision: int, slot: int, worker: Worker | None) -> Sequence[Move]:
        rows = self._slots.values[slot]
        if worker is None:
            return tuple(self._local.by_clients(revision, rows))
        return tuple(self._local.by_worker(revision, rows, worker))


def dies_in(move: Move) -> bool:
    """Whether a process dies in a move."""
    return move.died_after >= 0 or move.action.verb is Verb.KILL
