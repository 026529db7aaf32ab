"""The walk engine: long random orders over the enabled actions, outside Hypothesis, for volume.

Each order draws its own weights (swarm testing), so that some orders do nothing but retry and others never cancel.
A process dies inside one operation in twelve, and inside one send in five, at a boundary drawn at random.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections import Counter
from itertools import accumulate

from model.actions import ALPHABET, Action, Step, Verb
from model.step import Model
from model.words import Reply, World
from stateful.engines.guide import next_label
from stateful.judge import Finding
from stateful.order import Rig
from stateful.verdict import Tally

NAME = "walk"
STEPS = 40
KILL_ONE_IN = 12
KILL_SEND_ONE_IN = 5
"""A death inside a send is where most is lost."""
_SENDS = frozenset({Verb.DISPATCH, Verb.WAKE, Verb.RECONCILE})
BOUNDARY_MAX = 14
"""No operation of the SQLite dispatcher has more boundaries; a later one means a death right after the operation."""

WEIGHTS = {
    Verb.SUBMIT: 4,
    Verb.APPROVE: 6,
    Verb.DENY: 1,
    Verb.REVOKE: 1,
    Verb.FORGE: 1,
    Verb.BUMP_POLICY: 1,
    Verb.CANCEL: 1,
    Verb.CLAIM: 8,
    Verb.RENEW: 2,
    Verb.RELEASE: 1,
    Verb.DISPATCH: 12,
    Verb.STALL: 3,
    Verb.WAKE: 6,
    Verb.ACKNOWLEDGE: 8,
    Verb.CHECKPOINT: 3,
    Verb.RECONCILE: 4,
    Verb.REAP_READ: 2,
    Verb.REAP_APPLY: 3,
    Verb.ADVANCE: 5,
    Verb.JUMP_WALL: 1,
    Verb.KILL: 1,
    Verb.RESTART: 6,
    Verb.POWER_CUT: 0.3,
}
GUIDED = 0.35
"""How many steps follow the guide instead of the weights."""
STEERED = 0.5
"""How many of the others go where it has seldom been, in a walk that is steered."""
CANDIDATES = 4
"""Of so many steps that make sense, the one that was done least often in a world of this shape."""
_REPLIES = (
    Reply.DONE,
    Reply.DONE,
    Reply.DONE,
    Reply.SILENT,
    Reply.SILENT,
    Reply.LOST,
    Reply.TRANSIENT,
    Reply.PERMANENT,
)
_VERBS = tuple(Verb)
_FACTORS = (0.2, 1, 1, 3)


class Chooser:
    """Chooses steps at random: a verb by weight, then one of its actions that makes sense now."""

    def __init__(self, model: Model, verbs: frozenset[Verb], rng: random.Random, *, steered: float = 0) -> None:
        self._steps = tuple(tuple(Step(a) for a in model.alphabet.by_verb[v]) for v in _VERBS)
        self._model = model
        self._rng = rng
        self._verbs = verbs
        self._steered = steered
        self._seen: Counter[tuple[object, Verb]] = Counter()
        self._died: Counter[tuple[Verb, int]] = Counter()
        self._tick = model.alphabet.by_label["advance tick"]
        self.reweigh()

    def reweigh(self) -> None:
        """Draw weights for the next order."""
        rng = self._rng
        self._bounds = list(
            accumulate(WEIGHTS[v] * rng.choice(_FACTORS) if v in self._verbs else 0.0 for v in _VERBS)
        )

    def choose(self, world: World) -> Step:
        """A step that makes sense in ``world``."""
        rng, total = self._rng, self._bounds[-1]
        if rng.random() < GUIDED:
            followed = self.follow(world, int(rng.random() * (1 << 16)))
            if followed is not None:
                return self._maybe_killed(Step(followed))
        steers = self._steered > 0 and rng.random() < self._steered
        wanted = CANDIDATES if steers else 1
        found: list[Step] = []
        for _ in range(40):
            steps = self._steps[bisect(self._bounds, rng.random() * total)]
            step = steps[int(rng.random() * len(steps))]
            if self._model.is_enabled(step.action, world):
                found.append(step)
                if len(found) == wanted:
                    break
        if not found:
            return Step(self._tick)
        return self._maybe_killed(self._rarest(found, shape(world)) if steers else found[0])

    def _rarest(self, steps: list[Step], where: object) -> Step:
        """The step whose verb was chosen least often in worlds of a shape."""
        seen = self._seen
        step = min(steps, key=lambda s: seen[where, s.action.verb])
        seen[where, step.action.verb] += 1
        return step

    def follow(self, world: World, draw: int) -> Action | None:
        """The guide's next action for a worker and key that ``draw`` chooses, if there is one for this subject."""
        model = self._model
        worker, key = draw % model.workers, (draw >> 3) % model.keys
        reply = _REPLIES[(draw >> 6) % len(_REPLIES)]
        label = next_label(world, worker, key, reply, takes_over=(draw >> 9) % 4 == 0)
        action = model.alphabet.by_label.get(label or "")
        return (
            action
            if action is not None and action.verb in self._verbs and self._model.is_enabled(action, world)
            else None
        )

    def _maybe_killed(self, step: Step) -> Step:
        rng, verb = self._rng, step.action.verb
        one_in = KILL_SEND_ONE_IN if verb in _SENDS else KILL_ONE_IN
        if ALPHABET[verb].stores and rng.random() * one_in < 1:
            return Step(step.action, self._place(verb))
        return step

    def _place(self, verb: Verb) -> int:
        """The boundary at which a process dies: of two, the one at which fewer have died in this operation."""
        place = 1 + int(self._rng.random() * BOUNDARY_MAX)
        if not self._steered:
            return place
        other, died = 1 + int(self._rng.random() * BOUNDARY_MAX), self._died
        place = other if died[verb, other] < died[verb, place] else place
        died[verb, place] += 1
        return place


def shape(world: World) -> object:
    """What a world looks like from afar: for each key where its intent, lease and approval stand; who is there."""
    now_ms = world.now_ms
    slots = tuple(
        (
            None if slot.intent is None else slot.intent.state,
            slot.lease is not None and now_ms < slot.lease.expiry_ms,
            None if slot.approval is None else slot.approval.status,
            bool(slot.effects),
        )
        for slot in world.stores.slots
    )
    return slots, tuple((w.alive, w.stalled >= 0) for w in world.workers)


def verbs_of(rig: Rig) -> frozenset[Verb]:
    """The verbs that the rig's subject has a part for."""
    have = rig.subject.capabilities
    return frozenset(v for v, form in ALPHABET.items() if form.needs is None or form.needs in have)


def walk(rig: Rig, seed: int, orders: int, tally: Tally, *, steered: float = 0) -> None:
    """Run ``orders`` random orders; what is found goes into ``tally``.

    ``steered`` is how many of the steps that follow no guide go where it has seldom been; a campaign steers every
    second shard, as uniform choice finds what is common sooner.
    """
    rng = random.Random(seed)  # noqa: S311 - a seed must give the same run
    chooser = Chooser(rig.model, verbs_of(rig), rng, steered=steered)

    def one() -> Finding | None:
        finding = rig.start()
        if finding is not None:
            return finding
        chooser.reweigh()
        for _ in range(STEPS):
            finding = rig.do(chooser.choose(rig.judge.world))
            if finding is not None:
                return finding
        return rig.finish()

    for _ in range(orders):
        ran = rig.guarded(one)
        if tally.take(rig, ran):
            return
