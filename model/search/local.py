"""What one action does to the little that it touches: one key's rows, and what one worker knows about that key.

Every move of the model is local in this sense, so that it is asked once for each combination of rows and memory and
not once for each world. It is the model that answers: nothing here knows what an action does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from attrs import evolve

from model.actions import Action, Verb
from model.properties import PROPERTIES, Moment, Sort, witnessed
from model.search.bounds import ModelBounds
from model.search.normal import NOW_MS, Normal, stamp
from model.step import Model, dead
from model.words import PAYLOADS, Grant, Kind, Outcome, Slot, Stores, Worker, World

_ALWAYS = tuple((p.id, p.holds) for p in PROPERTIES.values() if p.sort is Sort.ALWAYS)
WHOLE = frozenset({Verb.KILL, Verb.RESTART})
"""What a worker does, or suffers, as a whole, and not at a key."""
_OF_ALL_KEYS = (Verb.REAP_READ, Verb.REAP_APPLY, Verb.ADVANCE, Verb.BUMP_POLICY)
KILLED = Outcome(Kind.KILLED)


class Move(NamedTuple):
    """What one action may do here: the rows and the worker after it, both in normal form.

    ``died_after`` counts the stages that were done when its process died, -1 if it lived. ``clears`` says that a view
    of these rows, taken before, clears nothing any more.
    """

    action: Action
    died_after: int
    slot: Slot
    worker: Worker
    outcome: Outcome
    breaks: tuple[str, ...]
    shows: tuple[str, ...]
    clears: bool


class Local:
    """The moves of a model with one key and one worker, under bounds on what is asked for."""

    def __init__(self, model: Model, bounds: ModelBounds) -> None:
        self.model = evolve(model, workers=1, keys=1)
        self.normal = Normal(model.contracts, model.limits)
        self._bounds = bounds
        actions = [a for a in self.model.alphabet.by_label.values() if a.verb in bounds.verbs and self._is_wanted(a)]
        self._by_clients = [a for a in actions if a.worker < 0]
        self._by_worker = [a for a in actions if a.worker >= 0]
        self._nobody = evolve(self.model.first().workers[0], name="")
        alphabet = self.model.alphabet.by_label
        self._read, self._apply = alphabet["reap_read w1"], alphabet["reap_apply w1"]
        self._tick = alphabet["advance tick"]

    def _is_wanted(self, action: Action) -> bool:
        verb = action.verb
        if verb in _OF_ALL_KEYS or verb is Verb.JUMP_WALL:
            return False  # all keys at once, or nothing that is looked at
        if verb in {Verb.DISPATCH, Verb.WAKE}:
            return action.choice in self._bounds.replies
        return self._bounds.payload_changes or action.choice not in PAYLOADS[1:]

    def _world(self, revision: int, slot: Slot, worker: Worker) -> World:
        return World(NOW_MS, Stores(revision, (slot,)), (worker,))

    def by_clients(self, revision: int, slot: Slot) -> Iterator[Move]:
        """What clients and the approver may do to these rows."""
        yield from self._moves(self._by_clients, self._world(revision, slot, self._nobody))

    def by_worker(self, revision: int, slot: Slot, worker: Worker) -> Iterator[Move]:
        """What a worker may do to these rows. Reaping is not among it: it looks at all keys."""
        yield from self._moves(self._by_worker, self._world(revision, slot, worker))

    def _moves(self, actions: list[Action], world: World) -> Iterator[Move]:
        alike: list[Move] = []
        at_once: Move | None = None
        for action in actions:
            if not self.model.is_enabled(action, world) or not self._is_within(action, world):
                continue
            if alike and action.verb is Verb.DISPATCH:
                # Before anything is sent the sink's reply plays no part: all of them end alike.
                yield from (move._replace(action=action) for move in alike)
                continue
            taken = self.model.take(world, action)
            after = taken.stages[-1] if taken.stages else world
            moves = [self._move(world, action, -1, after, taken.outcome)]
            if action.verb not in WHOLE:
                # Whoever dies before the first stage leaves the same, whatever it was about to do.
                at_once = at_once._replace(action=action) if at_once else self._death(world, action, 0, world)
                moves += [at_once, *self._deaths(world, action, taken.stages)]
            if action.verb is Verb.DISPATCH and len(taken.stages) < 2:
                alike = moves
            yield from moves

    def _is_within(self, action: Action, world: World) -> bool:
        slot = world.stores.slots[0]
        if action.verb is Verb.CLAIM:
            return slot.token_high < self._bounds.grants
        if action.verb is Verb.SUBMIT and slot.intent is None:
            # The payloads are interchangeable, so that the first one may always be called p1.
            return action.choice != PAYLOADS[1]
        if action.verb is Verb.DISPATCH or action.verb is Verb.STALL:
            return self._may_try(slot, world.workers[0])
        return True

    def _may_try(self, slot: Slot, worker: Worker) -> bool:
        """Whether somebody well-behaved, as far as the bounds ask for it, would send now."""
        granted = slot.approval is not None and slot.approval.status in {Grant.GRANTED, Grant.SPENT}
        answered = worker.results[0] is not None or worker.receipts[0] > 0
        return (self._bounds.blind or granted) and (self._bounds.repeats or not answered)

    def _deaths(self, world: World, action: Action, stages: tuple[World, ...]) -> Iterator[Move]:
        """One move for each number of stages that leaves other rows than a smaller number."""
        left = {world.stores.slots[0]}
        for number, stage in enumerate(stages, start=1):
            move = self._death(world, action, number, stage)
            if move.slot not in left:
                left.add(move.slot)
                yield move

    def _death(self, world: World, action: Action, number: int, stage: World) -> Move:
        after = dead(stage, action.worker) if action.worker >= 0 else stage
        return self._move(world, action, number, after, KILLED)

    def _move(self, world: World, action: Action, died_after: int, after: World, outcome: Outcome) -> Move:
        worker = world.workers[0]
        was, now = world.stores.slots[0], after.stores.slots[0]
        key = 0 if action.key >= 0 or action.verb is Verb.WAKE else -1
        token = worker.tokens[0] if action.worker >= 0 and key >= 0 else 0
        breaks, shows = self._judged(world, action, after, outcome, key, token)
        slot = was if now is was else self.normal.slot(now)
        clears = slot is not was and self.is_overdue(was) and (stamp(slot) != stamp(was) or not self.is_overdue(slot))
        then = after.workers[0]
        then = worker if then is worker else self.normal.worker(then)
        return Move(action, died_after, slot, then, outcome, breaks, shows, clears)

    def _judged(
        self, world: World, action: Action, after: World, outcome: Outcome, key: int, token: int
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        was, now = world.stores.slots[0], after.stores.slots[0]
        moment = Moment(world.stores, after.stores, NOW_MS, action, outcome, key, token, self.model.limits)
        mine = key == 0
        if was is now and not mine:
            return (), ()
        breaks = tuple([id_ for id_, holds in _ALWAYS if not holds(moment, was, now, mine)])
        return breaks, tuple(witnessed(moment))

    # -- what concerns every key at once, one key at a time ---------------------------------------------------

    def is_overdue(self, slot: Slot) -> bool:
        """Whether a reaper that looks now finds this key overdue."""
        taken = self.model.take(self._world(1, slot, self._nobody), self._read)
        view = taken.stages[-1].workers[0].view
        return view is not None and view[0] is not None

    def reaped(self, slot: Slot) -> tuple[Slot, tuple[str, ...]]:
        """The rows after a reaper cleared what it saw overdue and what has not changed since, and what that breaks."""
        world = self._world(1, slot, evolve(self._nobody, view=(stamp(slot),)))
        taken = self.model.take(world, self._apply)
        after = taken.stages[-1]
        breaks, _ = self._judged(world, self._apply, after, taken.outcome, -1, 0)
        return self.normal.slot(after.stores.slots[0]), breaks

    def ticked(self, slot: Slot) -> Slot:
        """The rows after one tick."""
        after = self.model.take(self._world(1, slot, self._nobody), self._tick).stages[-1]
        return self.normal.slot(after.stores.slots[0], NOW_MS - after.now_ms)

    @staticmethod
    def seen_from(worker: Worker, key: int) -> Worker:
        """A worker as one key knows it: one that is frozen at another key does nothing here, asleep or awake."""
        return evolve(
            worker,
            tokens=worker.tokens[key : key + 1],
            results=worker.results[key : key + 1],
            receipts=worker.receipts[key : key + 1],
            stalled=0 if worker.stalled == key else -1,
            sending=worker.sending if worker.stalled == key else "",
        )
