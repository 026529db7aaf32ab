"""Rewrites of a failure order: what the reducer tries where no removal of one step keeps the promise broken.

A one-minimal order may be longer than it need be: it breaks the promise by another way than the shortest, and every
way between the two holds. Each rewrite is a leap over that: two steps out, a run of steps for one, one worker or one
key for two, one reply for all, a step moved. They are pure functions from an order to candidates; whether a candidate
breaks the promise only a run can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from attrs import evolve

from model import possible
from model.actions import ALPHABET, DEATHS, Action, Step, Verb
from model.step import Model
from model.words import Reply, World

Order = tuple[Step, ...]


def merged(steps: Order) -> Iterator[Order]:
    """One worker does what two did; one key stands for two; the steps of one key alone, time included."""
    for attribute in ("worker", "key"):
        if len({n for s in steps if (n := getattr(s.action, attribute)) >= 0}) > 1:
            yield tuple(_with(s, attribute, 0) for s in steps)
    for key in sorted({s.action.key for s in steps if s.action.key >= 0}):
        yield tuple(_with(s, "key", key) if s.action.verb is Verb.ADVANCE else s for s in steps if _is_of(s, key))


def _with(step: Step, attribute: str, number: int) -> Step:
    action = step.action
    if getattr(action, attribute) < 0:
        return step
    worker, key = (number, action.key) if attribute == "worker" else (action.worker, number)
    return evolve(step, action=evolve(action, worker=worker, key=key))


def _is_of(step: Step, key: int) -> bool:
    return step.action.key in {-1, key} or step.action.verb is Verb.ADVANCE


def sent_at_once(steps: Order) -> Iterator[Order]:
    """A stall and the wake that ends it become one dispatch with the wake's reply, at the place of either."""
    for index, step in enumerate(steps):
        if step.action.verb is not Verb.STALL:
            continue
        woken = (n for n in range(index + 1, len(steps)) if steps[n].action.worker == step.action.worker)
        wake = next((n for n in woken if steps[n].action.verb is Verb.WAKE), None)
        if wake is not None:
            choice = steps[wake].action.choice
            sent = Step(evolve(step.action, verb=Verb.DISPATCH, choice=choice), steps[wake].kill_at)
            yield (*steps[:index], sent, *steps[index + 1 : wake], *steps[wake + 1 :])
            yield (*steps[:index], *steps[index + 1 : wake], sent, *steps[wake + 1 :])


def answered_alike(steps: Order) -> Iterator[Order]:
    """Every send gets the same reply."""
    sends = [s for s in steps if s.action.verb in {Verb.DISPATCH, Verb.WAKE}]
    if len(sends) > 1:
        for reply in Reply:
            yield tuple(evolve(s, action=evolve(s.action, choice=str(reply))) if s in sends else s for s in steps)


def without_two(steps: Order) -> Iterator[Order]:
    """Two steps out, wherever they stand."""
    for a, b in combinations(range(len(steps)), 2):
        yield (*steps[:a], *steps[a + 1 : b], *steps[b + 1 :])


def hoisted(steps: Order) -> Iterator[tuple[Order, ...]]:
    """One step moved forward: for each step the orders in which it comes sooner, the soonest first."""
    for at, step in enumerate(steps):
        rest = (*steps[:at], *steps[at + 1 :])
        yield tuple((*rest[:to], step, *rest[to:]) for to in range(1, at - 1))


def one_for_many(model: Model, steps: Order) -> Iterator[Order]:
    """One step of the alphabet for a run of two or more, the longest runs first, of one key or of two exchanged.

    Left out is what the model says takes away the sense of a later step: fewer steps are other rewrites' work.
    """
    worlds, able = foreseen(model, model.first(), steps)
    for size in range(len(steps), 1, -1):
        for start in range(len(steps) - size + 1):
            rest, was_able = steps[start + size :], able[start + size :]
            for action in plain(model.alphabet.all_enabled(worlds[start], model.contracts), steps[:start]):
                one = Step(action)
                is_able = foreseen(model, worlds[start], (one, *rest))[1][1:]
                if any(was and not is_ for was, is_ in zip(was_able, is_able, strict=True)):
                    continue
                order = (*steps[:start], one, *rest)
                yield order
                if action.key == 1 and not any(s.action.key == 1 for s in steps):
                    yield tuple(_with(s, "key", 1 - s.action.key) for s in order)


def another_end(model: Model, steps: Order) -> Iterator[Order]:
    """Another last step, and one or two neighbours out that only the former one needed."""
    for size in (2, 1):
        for start in range(len(steps) - size):
            kept = (*steps[:start], *steps[start + size : -1])
            worlds, able = foreseen(model, model.first(), kept)
            if all(able):
                for action in plain(model.alphabet.all_enabled(worlds[-1], model.contracts), kept):
                    yield (*kept, Step(action))


def foreseen(model: Model, world: World, steps: Order) -> tuple[list[World], list[bool]]:
    """By the model: the world before each step and after the last, and whether each makes sense when its turn comes."""
    worlds, able = [world], []
    for step in steps:
        able.append(model.is_enabled(step.action, world))
        if able[-1] and step.kill_at and step.action.verb not in DEATHS:
            world = possible.after_crash(model, (world,), step.action)[-1]
        elif able[-1]:
            world, _ = model.step(world, step.action)
        worlds.append(world)
    return worlds, able


def plain(actions: Sequence[Action], before: Order) -> list[Action]:
    """The actions without those that another stands for.

    Of the instants beside an expiry the expiry itself will do, of the replies the first, as the others are tried
    later; of the workers and keys that nobody has used yet, the first will.
    """
    used = {name: {getattr(s.action, name) for s in before} for name in ("worker", "key")}
    return [a for a in actions if _is_plain(a) and all(_is_first(getattr(a, n), used[n]) for n in used)]


def _is_first(number: int, used: set[int]) -> bool:
    return number in used or number <= min(n for n in range(len(used) + 1) if n not in used)


def _is_plain(action: Action) -> bool:
    if action.verb is Verb.ADVANCE:
        return action.choice[-2:] not in {"-1", "+1"}
    return action.verb not in {Verb.DISPATCH, Verb.WAKE} or action.choice == str(Reply.DONE)


def dies_before(step: Step) -> Iterator[Step]:
    """For an operation in which its process dies, the mere death."""
    if step.kill_at and ALPHABET[step.action.verb].worker:
        yield Step(Action(Verb.KILL, step.action.worker))
