"""The model's state space within bounds, each state one integer.

A world falls apart into components: the rows of each key, what each worker knows, and the environment (policy
revision, kills left). Each distinct component has a small number, and a state is these numbers side by side
(``model.search.layout``). A move changes one key and one worker at most, so that it is an addition to the integer,
found once for each combination of components and then looked up (``model.search.local``).

What a worker saw overdue is one bit for each key, set as long as its view would still clear the key
(``model.search.normal``). A move on a key clears these bits of every worker, if it changes what a reaper looks at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from attrs import evolve, field, frozen

from model.actions import Action, Verb
from model.search.bounds import ModelBounds
from model.search.layout import SLOT_BITS, WORKER_BITS, Interned, Layout
from model.search.local import KILLED, WHOLE, Local, Move
from model.search.normal import NOW_MS, Normal, stamp
from model.search.system import Edge, System
from model.step import Model, dead, put
from model.words import Kind, Outcome, Slot, Stores, Worker, World

REMEMBERED_MOVES = 1 << 14
"""For so many combinations the moves themselves are kept, for the labels; they can be had again."""
_LEFT_OUT = frozenset({"p1-reordered", "again", "new-name"})
"""Choices that lead where another one leads, or nowhere: no search has to try them."""


@frozen
class ModelEdge(Edge[int]):
    """A labelled transition of the model.

    ``action`` is what was done, ``outcome`` what it answered, and ``died_after`` how many of its stages were done when
    its process died, -1 if it lived.
    """

    action: Action = field(kw_only=True)
    outcome: Outcome = field(kw_only=True)
    died_after: int = field(default=-1, kw_only=True)


class _Entry(NamedTuple):
    """What to add to a state for the moves on one key, by clients or by one worker.

    ``calm`` is for a state in which no view is live: without a kill left, and with one. ``groups`` are the same moves
    by the bits that they keep before the addition, and whether they need a kill. ``breaks`` and ``shows`` are without
    a kill left, and with one.
    """

    calm: tuple[tuple[int, ...], tuple[int, ...]]
    groups: tuple[tuple[int, tuple[int, ...], bool], ...]
    breaks: tuple[tuple[str, ...], tuple[str, ...]]
    shows: tuple[tuple[str, ...], tuple[str, ...]]


class _Shape(NamedTuple):
    """The same moves for whichever worker it is: what they add to the numbers of the key and of the worker.

    ``changes`` are apart by whether a view of the key is void afterwards, and whether a process dies.
    """

    changes: tuple[tuple[bool, bool, tuple[tuple[int, int], ...]], ...]
    breaks: tuple[tuple[str, ...], tuple[str, ...]]
    shows: tuple[tuple[str, ...], tuple[str, ...]]


class _Part(NamedTuple):
    """Who moves on which key (-1: clients), the bits that decide what they may do, and what is known already."""

    mask: int
    worker: int
    key: int
    entries: dict[int, _Entry]


class _Rest(NamedTuple):
    """What one key's rows say on their own: the addition for a tick and for a reaper, and whether they are overdue."""

    tick: int
    overdue: bool
    reaped: int
    breaks: tuple[str, ...]


class ModelSpace(System[int]):
    """The transition system of a model within bounds.

    Its workers, keys and limits are those of ``bounds``; all else is ``model``'s. A space grows as it is walked: what
    it has numbered stays numbered, and the same walk always gives the same integers.
    Raises SpaceTooLargeError, while it is walked, where a state has no room for what the bounds allow.
    """

    def __init__(self, model: Model, bounds: ModelBounds = ModelBounds()) -> None:  # noqa: B008 - frozen
        self.bounds = bounds
        self.model = evolve(model, workers=bounds.workers, keys=bounds.keys, limits=bounds.limits)
        self.normal = Normal(self.model.contracts, self.model.limits)
        self.layout = lay = Layout(bounds.workers, bounds.keys)
        self._local = Local(self.model, bounds)
        self._slots: Interned[Slot] = Interned("rows of a key", SLOT_BITS)
        self._workers: Interned[Worker] = Interned("memories of a worker", WORKER_BITS)
        self._rests: tuple[dict[int, _Rest], ...] = tuple({} for _ in range(bounds.keys))
        self._parts = [_Part(lay.slot_mask(k) | lay.revision_mask(), -1, k, {}) for k in range(bounds.keys)]
        self._parts += [
            _Part(lay.slot_mask(k) | lay.revision_mask() | lay.worker_mask(w), w, k, {})
            for w in range(bounds.workers)
            for k in range(bounds.keys)
        ]
        self._every_view = sum(lay.views_of(w) for w in range(bounds.workers))
        self._slot_mask, self._worker_mask = (1 << SLOT_BITS) - 1, (1 << WORKER_BITS) - 1
        self._shapes: dict[tuple[int, int, int, int], _Shape] = {}
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
        self._initial = self.encode(self.model.first(), bounds.kills)

    # -- states -----------------------------------------------------------------------------------------------

    @property
    def initial(self) -> int:
        """Empty stores, every worker alive, every kill left."""
        return self._initial

    def encode(self, world: World, kills: int) -> int:
        """The state of a world in any form, with ``kills`` left."""
        world, lay = self.normal.world(world), self.layout
        state = (kills << lay.kills_at) | (world.stores.revision << lay.revision_at)
        for key, slot in enumerate(world.stores.slots):
            state |= self._slots(slot) << lay.slot_shift(key)
        for index, worker in enumerate(world.workers):
            state |= self._workers(evolve(worker, view=None)) << lay.worker_shift(index)
            bits = sum(1 << key for key, seen in enumerate(worker.view or ()) if seen is not None)
            state |= bits << lay.view_shift(index)
        return state

    def world(self, state: int) -> World:
        """The world of a state, in normal form: the time is NOW_MS, names and what nobody looks at are blank."""
        lay = self.layout
        slots = tuple(self._slots.values[self._slot_number(state, k)] for k in range(lay.keys))
        workers = []
        for index in range(lay.workers):
            worker = self._workers.values[self._worker_number(state, index)]
            bits = state >> lay.view_shift(index)
            view = tuple(stamp(slot) if bits >> key & 1 else None for key, slot in enumerate(slots))
            workers.append(evolve(worker, view=view) if any(view) else worker)
        return World(NOW_MS, Stores(self._revision(state), slots), tuple(workers))

    def kills_left(self, state: int) -> int:
        """How many deaths the bounds still allow."""
        return state >> self.layout.kills_at

    def with_keys_in_order(self, packed: int, order: Sequence[int]) -> int:
        """A worker's field, number and bits, after its n-th key became what was key ``order[n]``."""
        bits, worker = packed >> WORKER_BITS, self._workers.values[packed & self._worker_mask]
        moved = evolve(
            worker,
            tokens=tuple(worker.tokens[key] for key in order),
            results=tuple(worker.results[key] for key in order),
            receipts=tuple(worker.receipts[key] for key in order),
            stalled=order.index(worker.stalled) if worker.stalled >= 0 else -1,
        )
        view = sum((bits >> key & 1) << place for place, key in enumerate(order))
        return view << WORKER_BITS | self._workers(moved)

    def _slot_number(self, state: int, key: int) -> int:
        return state >> self.layout.slot_shift(key) & self._slot_mask

    def _worker_number(self, state: int, worker: int) -> int:
        return state >> self.layout.worker_shift(worker) & self._worker_mask

    def _revision(self, state: int) -> int:
        return state >> self.layout.revision_at & 3

    # -- the fast path ----------------------------------------------------------------------------------------

    def successors(self, state: int) -> list[int]:
        """The states that one move leads to, ``state`` itself left out; a state may come twice."""
        has_kills = state >= self._one_kill
        has_views = state & self._every_view
        found: list[int] = []
        for mask, worker, key, entries in self._parts:
            entry = entries.get(state & mask)
            if entry is None:
                entry = entries[state & mask] = self._entry(state, worker, key)
            if has_views:
                for kept, additions, needs_kill in entry.groups:
                    if has_kills or not needs_kill:
                        base = state & kept
                        found += [base + addition for addition in additions]
            else:
                found += [state + addition for addition in entry.calm[has_kills]]
        overdue = (
            self._passing(state, found) if self._one_key is None else self._one_key[state & self._slot_mask].overdue
        )
        if overdue:
            self._reap(state, overdue, found)
        return found

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

    def _reap(self, state: int, overdue: int, found: list[int]) -> None:
        """Add the ways to reap; ``overdue`` has a bit for each key."""
        has_kills = state >= self._one_kill
        for index, (mask, known) in enumerate(self._reapers):
            additions = known.get(state & mask)
            if additions is None:
                additions = known[state & mask] = self._reaper(state, index, overdue)
            found += [state + addition for addition in additions[has_kills]]

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

    def _killed(self, state: int, worker: int) -> int:
        """``state`` after a worker died."""
        lay = self.layout
        state &= ~(lay.views_of(worker) | lay.worker_mask(worker))
        return (state | self._dead() << lay.worker_shift(worker)) - (1 << lay.kills_at)

    def _dead(self) -> int:
        world = dead(self.model.first(), 0)
        return self._workers(self.normal.worker(world.workers[0]))

    def _rest(self, number: int, key: int) -> _Rest:
        slot, shift = self._slots.values[number], self.layout.slot_shift(key)
        overdue, reaped = self._local.is_overdue(slot), number
        breaks: tuple[str, ...] = ()
        if overdue:
            after, breaks = self._local.reaped(slot)
            reaped = self._slots(after)
            self._suspect = self._suspect or bool(breaks)
        ticked = self._slots(self._local.ticked(slot))
        return _Rest((ticked - number) << shift, overdue, (reaped - number) << shift, breaks)

    def _entry(self, state: int, worker: int, key: int) -> _Entry:
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
        return _Entry((tuple(lasting), tuple(lasting + deadly)), tuple(groups), shape.breaks, shape.shows)

    def _shape(self, state: int, worker: int, key: int) -> _Shape:
        groups: dict[tuple[bool, bool], dict[tuple[int, int], None]] = defaultdict(dict)
        breaks: tuple[dict[str, None], dict[str, None]] = ({}, {})
        shows: tuple[dict[str, None], dict[str, None]] = ({}, {})
        for move in self._local_moves(state, worker, key):
            dies = _dies(move)
            for left in range(dies, 2):
                breaks[left].update(dict.fromkeys(move.breaks))
                shows[left].update(dict.fromkeys(move.shows))
            if move.action.choice in _LEFT_OUT or (dies and worker < 0):
                continue
            change = self._change(state, move, worker, key)
            if dies or any(change):
                groups[move.clears, dies][change] = None
        return _Shape(
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
        lay, dies = self.layout, _dies(move)
        rows, memory = self._change(state, move, worker, key)
        state &= self._kept(worker, key, clears=move.clears, dies=dies)
        state += (rows << lay.slot_shift(key)) - (dies << lay.kills_at)
        return state + (memory << lay.worker_shift(worker) if memory else 0)

    def _lifted(self, number: int, move: Move, key: int) -> int:
        """The number of a worker after a move, of which one key is told by the move and the others stay."""
        worker, then = self._workers.values[number], move.worker
        if self.layout.keys == 1:
            return self._workers(then)
        if not then.alive:
            return self._dead()
        if move.action.verb is Verb.RESTART:
            fresh = self.model.first().workers[0]
            return self._workers(self.normal.worker(evolve(fresh, other_settings=then.other_settings)))
        return self._workers(
            evolve(
                worker,
                tokens=put(worker.tokens, key, then.tokens[0]),
                results=put(worker.results, key, then.results[0]),
                receipts=put(worker.receipts, key, then.receipts[0]),
                stalled=key if then.stalled == 0 else -1,
                sending=then.sending,
            )
        )

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

    # -- what is broken and what is seen ----------------------------------------------------------------------

    def bad(self, state: int) -> str:
        """The first property that a move out of ``state`` breaks, "" if none."""
        if not self._suspect:
            return ""  # no combination that was ever met breaks anything
        has_kills = state >= self._one_kill
        for entry in self._entries(state):
            if entry.breaks[has_kills]:
                return entry.breaks[has_kills][0]
        if state & self._every_view:
            return next((edge.breaks for edge in self._edges_together(state) if edge.breaks), "")
        return ""

    def broken(self, state: int) -> tuple[Sequence[str], Sequence[str]]:
        """What the moves out of ``state`` break. No state of the model is bad by itself."""
        has_kills = state >= self._one_kill
        found = [id_ for entry in self._entries(state) for id_ in entry.breaks[has_kills]]
        if state & self._every_view:
            found += [id_ for edge in self._edges_together(state) for id_ in edge.broken]
        return (), [*dict.fromkeys(found)]

    def shows(self, state: int) -> list[str]:
        """The witnesses that the moves out of ``state`` are."""
        has_kills = state >= self._one_kill
        return [id_ for entry in self._entries(state) for id_ in entry.shows[has_kills]]

    def _entries(self, state: int) -> Iterator[_Entry]:
        for mask, worker, key, entries in self._parts:
            entry = entries.get(state & mask)
            if entry is None:
                entry = entries[state & mask] = self._entry(state, worker, key)
            yield entry

    # -- labels -----------------------------------------------------------------------------------------------

    def edges(self, state: int, *, all_labels: bool = False) -> list[ModelEdge]:
        """The labelled moves out of ``state``, refusals included, each with its action and its outcome.

        With ``all_labels`` also what a search leaves out: an equal payload in another order, the last grant handed in
        again, a restart under a new name, a wall clock that jumps, a reaper that clears nothing, and a client that
        dies in the middle of a call. Such a death leads to what the call itself leads to, with one kill less: a search
        that has seen the one need not see the other, and may not have numbered it among its states.
        """
        found = []
        for _, worker, key, _ in self._parts:
            for move in self._local_moves(state, worker, key):
                dies = _dies(move)
                if dies and not self.kills_left(state):
                    continue
                left_out = move.action.choice in _LEFT_OUT or (dies and worker < 0)
                if left_out and not all_labels and not move.breaks:
                    continue
                at = -1 if move.action.key < 0 else key
                action = Action(move.action.verb, worker, at, move.action.choice)
                target = self._target(state, move, worker, key)
                found.append(_edge(action, target, move.died_after, move.outcome, move.breaks, move.shows))
        found += self._edges_together(state)
        if all_labels:
            found += self._idle(state)
        return found

    def _edges_together(self, state: int) -> list[ModelEdge]:
        verbs, lay = self.bounds.verbs, self.layout
        self._passing(state, [])  # so that each key's part is there
        rests = [self._rests[key][self._slot_number(state, key)] for key in range(lay.keys)]
        found = []
        if Verb.ADVANCE in verbs:
            tick = Action(Verb.ADVANCE, choice="tick")
            found.append(_edge(tick, state + sum(rest.tick for rest in rests), -1, Outcome(Kind.OK)))
        if self._revision(state) <= self._bumps:
            revision = Outcome(Kind.OK, value=self._revision(state) + 1)
            found.append(_edge(Action(Verb.BUMP_POLICY), state + (1 << lay.revision_at), -1, revision))
        overdue = sum(rest.overdue << key for key, rest in enumerate(rests))
        for worker in range(lay.workers):
            live = state >> lay.view_shift(worker) & ((1 << lay.keys) - 1)
            has_kills = bool(self.kills_left(state))
            for verb, died_after, target in self._reaping(state, worker, overdue, has_kills=has_kills):
                reaps = verb is Verb.REAP_APPLY
                breaks = [id_ for key, rest in enumerate(rests) if reaps and live >> key & 1 for id_ in rest.breaks]
                outcome = Outcome(Kind.OK, value=(live if reaps else overdue).bit_count())
                outcome = outcome if died_after < 0 else KILLED
                found.append(_edge(Action(verb, worker), target, died_after, outcome, tuple(dict.fromkeys(breaks))))
        return found

    def _idle(self, state: int) -> Iterator[ModelEdge]:
        """What changes nothing that a search looks at."""
        lay, verbs = self.layout, self.bounds.verbs
        for index in range(lay.workers):
            worker = self._workers.values[self._worker_number(state, index)]
            if Verb.JUMP_WALL in verbs:
                for choice in ("back", "ahead"):
                    yield _edge(Action(Verb.JUMP_WALL, index, choice=choice), state, -1, Outcome(Kind.OK))
            if worker.alive and worker.stalled < 0 and self.kills_left(state):
                for verb in {Verb.REAP_READ, Verb.REAP_APPLY} & verbs:
                    is_enabled = verb is Verb.REAP_READ or state & lay.views_of(index)
                    if is_enabled:
                        yield _edge(Action(verb, index), self._killed(state, index), 0, KILLED)


def _dies(move: Move) -> bool:
    return move.died_after >= 0 or move.action.verb is Verb.KILL


def _edge(
    action: Action,
    target: int,
    died_after: int,
    outcome: Outcome,
    breaks: tuple[str, ...] = (),
    shows: tuple[str, ...] = (),
) -> ModelEdge:
    label = action.label if died_after < 0 else f"{action.label} killed after stage {died_after}"
    return ModelEdge(
        label,
        target,
        breaks[0] if breaks else "",
        breaks[1:],
        shows,
        action=action,
        outcome=outcome,
        died_after=died_after,
    )
