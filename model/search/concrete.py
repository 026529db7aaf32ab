"""From a trace of the space, in ticks, to the steps of the ordinary alphabet, in milliseconds.

Under ordinary limits a tick is too short to let anything run out. What matters in a trace is *which* of the pending
instants a run of ticks passed; so each run becomes the jumps that pass the same ones, and the whole is played under
both limits to see that every answer and every promise comes out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations

from attrs import evolve, frozen

from model.actions import Action, Step, UnknownActionError, Verb, instant
from model.contracts import Limits
from model.properties import Moment, broken
from model.search.normal import TICK_LIMITS
from model.step import Model, dead
from model.words import Capability, Kind, Outcome, World

DIED = " killed after stage "
_ALL = frozenset(Capability)
_INSTANTS = ("lease", "approval", "deadline")


def _first_boundary(action: Action, stage: int) -> int:
    return stage + 1


@frozen
class _Move:
    action: Action
    died_after: int = -1


def concrete(
    labels: Sequence[str],
    model: Model,
    *,
    limits: Limits = TICK_LIMITS,
    boundary: Callable[[Action, int], int] = _first_boundary,
) -> tuple[Step, ...]:
    """The steps of a trace that was found in the space of ``model``'s contracts under ``limits``, in ticks.

    Under ``model``'s own limits a run of ticks becomes ``advance k1 lease`` and the like, if some choice of these
    gives the same answers, deaths and broken promises throughout; otherwise the ticks stay, and the trace holds for a
    dispatcher that is given ``limits``. The model has stages and no boundaries: ``boundary`` says at which boundary a
    subject has done so many stages of an action (from 1; by itself: one boundary a stage).
    Raises UnknownActionError for a label that is not in the alphabet.
    """
    moves = [_parsed(label, model) for label in labels]
    start = model.first()
    plan = _jumps(moves, evolve(model, limits=limits), model, start, start)
    steps = moves if plan is None else plan
    return tuple(Step(m.action, 0 if m.died_after < 0 else boundary(m.action, m.died_after)) for m in steps)


def _parsed(label: str, model: Model) -> _Move:
    name, died, stage = label.partition(DIED)
    action = model.alphabet.by_label.get(name)
    if action is None:
        raise UnknownActionError(
            f"{name!r} is no action of {model.workers} workers and {model.keys} keys; give the model the numbers that "
            "the trace was found with"
        )
    return _Move(action, int(stage) if died else -1)


def _jumps(moves: Sequence[_Move], small: Model, large: Model, was: World, now: World) -> list[_Move] | None:
    """The moves under the large limits, or None if no jumps do what the ticks did. ``was`` is the small world."""
    if not moves:
        return []
    ticks = next((n for n, move in enumerate(moves) if move.action.choice != "tick"), len(moves))
    if ticks:
        for _ in range(ticks):
            was, _ = small.step(was, moves[0].action)
        for jumps, then in _reaching(_status(was), large, now):
            rest = _jumps(moves[ticks:], small, large, was, then)
            if rest is not None:
                return [*map(_Move, jumps), *rest]
        return None
    move = moves[0]
    here, small_answer, small_breaks = _played(small, was, move)
    there, large_answer, large_breaks = _played(large, now, move)
    if (small_answer, small_breaks) != (large_answer, large_breaks):
        return None
    rest = _jumps(moves[1:], small, large, here, there)
    return None if rest is None else [move, *rest]


def _played(model: Model, world: World, move: _Move) -> tuple[World, Outcome | None, str]:
    """The world after a move, what it answered, and the promise that it broke; no answer where it makes no sense."""
    action = move.action
    if not model.is_enabled(action, world):
        return world, None, ""
    taken = model.take(world, action)
    stages, outcome = (world, *taken.stages), taken.outcome
    after = stages[-1]
    if move.died_after >= 0:
        if move.died_after >= len(stages):
            return world, None, ""
        after, outcome = stages[move.died_after], Outcome(Kind.KILLED)
        after = dead(after, action.worker) if action.worker >= 0 else after
    worker = world.workers[action.worker] if action.worker >= 0 else None
    key = worker.stalled if worker and action.verb is Verb.WAKE else action.key
    token = worker.tokens[key] if worker and key >= 0 else 0
    moment = Moment(world.stores, after.stores, world.now_ms, action, outcome, key, token, model.limits)
    prop = broken(moment, _ALL)
    return after, outcome, prop.id if prop else ""


def _status(world: World) -> tuple[tuple[bool, ...], ...]:
    """For each key, which of its pending instants have passed."""
    return tuple(
        tuple((at_ms := instant(slot, what)) is not None and world.now_ms >= at_ms for what in _INSTANTS)
        for slot in world.stores.slots
    )


def _reaching(
    wanted: tuple[tuple[bool, ...], ...], model: Model, world: World
) -> Iterator[tuple[list[Action], World]]:
    """The ways to let time pass, shortest first, so that exactly the wanted instants have passed."""
    if _status(world) == wanted:
        yield [], world
    jumps = [a for a in model.enabled(world, Verb.ADVANCE) if a.choice != "tick"]
    jumps.sort(key=lambda a: a.choice not in _INSTANTS)  # the plain instants read best
    for length in (1, 2):
        for chosen in permutations(jumps, length):
            then = world
            for action in chosen:
                then, _ = model.step(then, action) if model.is_enabled(action, then) else (then, None)
            if _status(then) == wanted and then != world:
                yield [*chosen], then
