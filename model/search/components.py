"""The components of a world, each distinct one numbered, and a world put together from their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from model.actions import Verb
from model.search.bounds import ModelBounds
from model.search.layout import SLOT_BITS, WORKER_BITS, Interned, Layout
from model.search.local import Move
from model.search.normal import NOW_MS, Normal, stamp
from model.step import Model, dead, put
from model.words import Slot, Stores, Worker, World


class Components:
    """Rows and memories by number, and the states that are made of them.

    Raises SpaceTooLargeError, while it grows, where a state has no room for another component.
    """

    def __init__(self, model: Model, bounds: ModelBounds) -> None:
        self.bounds = bounds
        self.model = evolve(model, workers=bounds.workers, keys=bounds.keys, limits=bounds.limits)
        self.normal = Normal(self.model.contracts, self.model.limits)
        self.layout = Layout(bounds.workers, bounds.keys)
        self._slots: Interned[Slot] = Interned("rows of a key", SLOT_BITS)
        self._workers: Interned[Worker] = Interned("memories of a worker", WORKER_BITS)
        self._slot_mask, self._worker_mask = (1 << SLOT_BITS) - 1, (1 << WORKER_BITS) - 1

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

    def _killed(self, state: int, worker: int) -> int:
        """``state`` after a worker died."""
        lay = self.layout
        state &= ~(lay.views_of(worker) | lay.worker_mask(worker))
        return (state | self._dead() << lay.worker_shift(worker)) - (1 << lay.kills_at)

    def _dead(self) -> int:
        world = dead(self.model.first(), 0)
        return self._workers(self.normal.worker(world.workers[0]))

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
