"""Keys are independent: a dispatcher's history is judged key by key, and the worlds are put together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from attrs import evolve, frozen

from model.actions import Verb
from model.histories.history import Call, Explanation, Group
from model.words import Stores, Worker, World

SHARED = -1
"""Not a key: an event that every key's history has."""
ALL = -2
"""Not a key either: a call that reads or writes several keys in one stage, or may do so."""

_WHOLE = frozenset({Verb.BUMP_POLICY, Verb.REAP_READ, Verb.REAP_APPLY})
ENVIRONMENT = frozenset({Verb.ADVANCE, Verb.JUMP_WALL, Verb.KILL, Verb.RESTART})
"""What no caller does: it happens in one instant, and never finds a store busy."""


@frozen
class Keys:
    """A scope: the indices of the keys that a group's calls concern."""

    indices: frozenset[int]


def groups_of(calls: Sequence[Call], first: World, whole: frozenset[Verb] = frozenset()) -> tuple[Group, ...]:
    """One group a key, scope ``Keys``; a single one where some call concerns several keys, as those of ``whole`` do.

    Time moves, deaths and restarts belong to every group. That is sound, as they are instantaneous: no other event
    lies between their begin and their end, so the orders that explain the groups agree on where these events stand
    and can be merged into one. An event of theirs that is not instantaneous, or of which it is not known whether it
    happened, unites all groups; so does a move of time to an instant that only one key's rows can tell.
    """
    keys = len(first.stores.slots)
    concerned = [_concerned(call, calls, first) for call in calls] if keys > 1 else [ALL]
    if ALL in concerned or any(call.operation.action.verb in whole for call in calls):
        return (Group(tuple(calls), Keys(frozenset(range(keys)))),)
    return tuple(
        Group(
            tuple(call for call, n in zip(calls, concerned, strict=True) if n in {SHARED, key}),
            Keys(frozenset({key})),
        )
        for key in range(keys)
    )


def _concerned(call: Call, calls: Sequence[Call], first: World) -> int:
    """The key that a call concerns, or ``SHARED`` or ``ALL``."""
    action = call.operation.action
    if action.verb in _WHOLE:
        return ALL
    if action.verb is Verb.WAKE:
        return _frozen_on(call, calls, first)
    if action.verb not in ENVIRONMENT:
        key: int = action.key
        return key
    is_told_where = action.key < 0 or call.operation.at_ms is not None
    return SHARED if is_told_where and _is_instantaneous(call, calls) else ALL


def _is_instantaneous(call: Call, calls: Sequence[Call]) -> bool:
    if not call.is_answered or call.end is None:
        return False
    return not any(
        call.begin < other.begin < call.end or (other.end is not None and call.begin < other.end < call.end)
        for other in calls
    )


def _frozen_on(wake: Call, calls: Sequence[Call], first: World) -> int:
    """The key of the worker's last stall before it woke."""
    worker = wake.operation.action.worker
    stalls = [
        call
        for call in calls
        if call.operation.action.verb is Verb.STALL
        and call.operation.action.worker == worker
        and call.begin < wake.begin
    ]
    if stalls:
        key: int = max(stalls, key=lambda call: call.begin).operation.action.key
        return key
    stalled = first.workers[worker].stalled
    return stalled if stalled >= 0 else ALL


def same_slots(stores: Stores) -> Callable[[Group, World], bool]:
    """Accepts a group's end whose rows of the group's keys, and whose policy revision, are those of ``stores``."""

    def accepts(group: Group, world: World) -> bool:
        slots = world.stores.slots
        return world.stores.revision == stores.revision and all(
            slots[key] == stores.slots[key] for key in group.scope.indices
        )

    return accepts


def merged(explanation: Explanation[World]) -> tuple[World, ...]:
    """The whole worlds that an explained history may have left: every combination of the ends of its groups."""
    scopes = [group.scope.indices for group in explanation.groups]
    owner = {key: n for n, scope in enumerate(scopes) for key in scope}
    return tuple(_together(worlds, owner) for worlds in product(*explanation.ends))


def _together(worlds: tuple[World, ...], owner: dict[int, int]) -> World:
    if len(worlds) == 1:
        return worlds[0]
    of_key = [worlds[owner[key]] for key in range(len(owner))]
    slots = tuple(world.stores.slots[key] for key, world in enumerate(of_key))
    # Time, policy, deaths and restarts are the same in every group.
    first = worlds[0]
    workers = tuple(_one_head([world.workers[n] for world in of_key]) for n in range(len(first.workers)))
    return World(first.now_ms, Stores(first.stores.revision, slots), workers)


def _one_head(of_key: list[Worker]) -> Worker:
    """What a worker knows, each key's part from the group that has the key."""
    on = [(key, worker.sending) for key, worker in enumerate(of_key) if worker.stalled == key]
    stalled, sending = on[0] if on else (-1, "")
    return evolve(
        of_key[0],
        tokens=tuple(worker.tokens[key] for key, worker in enumerate(of_key)),
        results=tuple(worker.results[key] for key, worker in enumerate(of_key)),
        receipts=tuple(worker.receipts[key] for key, worker in enumerate(of_key)),
        stalled=stalled,
        sending=sending,
    )
