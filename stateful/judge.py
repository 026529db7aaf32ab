"""The judge: it holds what a subject answered, and what an oracle read, against the model and the properties.

It never runs the subject. Every engine feeds it the same way: the step, the outcome, the stores. It keeps the worlds
that are still possible; when the subject leaves them all, it goes on with what was really read, so that a run can
still show *which* promise the difference breaks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from attrs import evolve, field, fields, frozen

from model import possible
from model.actions import DEATHS, Action, Step, Verb
from model.properties import CONFORMS, PROPERTIES, Moment, broken, stuck, witnessed
from model.step import Model, dead
from model.words import Capability, Kind, Outcome, Slot, Stores, World
from stateful.because import because
from stateful.spoken import clean

WORLDS_MAX = 64
"""More worlds than this at once would mean that observation has stopped narrowing them."""
IMPOSSIBLE = (AssertionError, AttributeError, IndexError, TypeError, ValueError)
"""What the model raises in a world that no correct dispatcher reaches: an effect without an intent, and the like."""


@frozen
class Finding:
    """A broken promise: which property, and what was seen at the step where it showed."""

    property_id: str
    detail: str = field(converter=clean)

    @property
    def sentence(self) -> str:
        """The property, as a sentence."""
        return PROPERTIES[self.property_id].name


class Judge:
    """Judges one run. ``world`` is a world that is possible now; engines look there for what is enabled."""

    def __init__(self, model: Model, capabilities: frozenset[Capability]) -> None:
        self.model = model
        self.capabilities = capabilities
        self._full = Capability.LEDGER in capabilities
        self.witnesses: Counter[str] = Counter()
        self.reset()

    def reset(self) -> None:
        """Back to the first world."""
        self.worlds: possible.Worlds = (self.model.first(),)
        self.stores: Stores = self.worlds[0].stores
        self.divergence: Finding | None = None
        self.moment: Moment | None = None

    @property
    def world(self) -> World:
        """One of the possible worlds."""
        return self.worlds[0]

    def observe(self, step: Step, outcome: Outcome, read: Stores | None) -> Finding | None:
        """Take in one step: its outcome, and the stores read after it. A finding if it breaks a named promise.

        ``read`` is None where the subject's own rows cannot be read; ``observe_sink`` is for that case.
        """
        assert read is not None
        action = step.action
        before, world = self.stores, self.worlds[0]
        moment = self.moment = self._moment(step, outcome, before, read, world)
        self.stores = read
        worlds: possible.Worlds = ()
        if outcome.kind is Kind.KILLED and action.verb not in DEATHS:
            worlds = possible.seen(self._after_crash(self.worlds, action), read)
        elif len(self.worlds) == 1:
            taken = self._taken(world, action)
            # The model's stores give way to the equal ones that were read: what has not changed stays one object,
            # and comparing it costs nothing.
            if taken is not None and taken[1] == outcome and taken[0].stores == read:
                worlds = (World(taken[0].now_ms, read, taken[0].workers),)
        else:
            steps = [taken for w in self.worlds if (taken := self._taken(w, action)) is not None]
            worlds = possible.seen(dict.fromkeys(then for then, answer in steps if answer == outcome), read)
        if action.key >= 0 or action.verb is Verb.WAKE:
            for id_ in witnessed(moment):
                self.witnesses[id_] += 1
        prop = broken(moment, self.capabilities)
        if not worlds:
            if self.divergence is None and prop is None:
                self.divergence = Finding(CONFORMS.id, self._detail(step, outcome, world, read))
            worlds = (self._resynced(world, step, outcome, read),)
        self.worlds = worlds
        return self._broken(prop.id, moment, step, outcome, world) if prop is not None else None

    def observe_sink(self, step: Step, outcome: Outcome, sink: Stores) -> Finding | None:
        """Take in one step of a subject whose own rows cannot be read: the model speaks for them, the sink for itself.

        Its answers and its effects tell which of the possible worlds it is in. Where they fit none, all stay.
        """
        reached = self._reached(step, outcome)
        reached = [r for r in reached if same_effects(r[1].stores, sink, range(self.model.keys))] or reached
        before, then = reached[0]
        read = self.merged(then.stores, sink)
        moment = self._moment(step, outcome, before.stores, read, before)
        self.witnesses.update(witnessed(moment))
        self.stores = read
        worlds = dict.fromkeys(
            self._resynced(world, step, outcome, self.merged(world.stores, sink), keep=True) for _, world in reached
        )
        self.worlds = tuple(worlds)[:WORLDS_MAX]
        prop = broken(moment, self.capabilities)
        return self._broken(prop.id, moment, step, outcome, before) if prop is not None else None

    def _reached(self, step: Step, outcome: Outcome) -> list[tuple[World, World]]:
        """The possible worlds before and after a step, those first of all that agree with its answer."""
        action = step.action
        if outcome.kind is Kind.KILLED and action.verb not in DEATHS:
            died = [(w, then) for w in self.worlds for then in self._after_crash((w,), action)]
            return died or [(w, self._dead(w, action)) for w in self.worlds]
        enabled = [w for w in self.worlds if self.model.is_enabled(action, w)]
        taken = [(w, *done) for w in enabled if (done := self._taken(w, action)) is not None]
        agreeing = [(w, then) for w, then, answer in taken if answer.kind is outcome.kind]
        return agreeing or [(w, then) for w, then, _ in taken] or [(w, w) for w in self.worlds]

    def _taken(self, world: World, action: Action) -> tuple[World, Outcome] | None:
        """What the model does; None where it cannot take the step: a subject may leave what no model ever meets."""
        if action.verb is Verb.WAKE and world.workers[action.worker].stalled < 0:
            return None
        try:
            return self.model.step(world, action)
        except IMPOSSIBLE:
            return None

    def _after_crash(self, worlds: possible.Worlds, action: Action) -> possible.Worlds:
        """The worlds that a death inside an action may leave; none of a world in which there is no such step."""
        found: dict[World, None] = {}
        for world in worlds:
            if self._taken(world, action) is not None:
                found.update(dict.fromkeys(possible.after_crash(self.model, (world,), action)))
        return tuple(found)

    @staticmethod
    def _dead(world: World, action: Action) -> World:
        return dead(world, action.worker) if action.worker >= 0 else world

    @staticmethod
    def merged(stores: Stores, sink: Stores) -> Stores:
        """The model's word for the ledger and the checkpoint, and the sink's for itself."""
        slots = tuple(
            evolve(s, effects=r.effects, fence=r.fence, calls=r.calls, rejected=r.rejected)
            for s, r in zip(stores.slots, sink.slots, strict=True)
        )
        return Stores(stores.revision, slots)

    def at_rest(self) -> Finding | None:
        """After quiesce: a finding if something has not ended."""
        action = self.model.alphabet.by_label["advance tick"]
        moment = Moment(
            self.stores, self.stores, self.world.now_ms, action, Outcome(Kind.OK), -1, 0, self.model.limits
        )
        prop = stuck(moment, self.capabilities)
        if prop is None:
            return None
        left = [
            f"k{n + 1} is {s.intent.state}"
            + (f", leased to {s.lease.owner}" if s.lease else "")
            + (", and has not given its permit back" if s.permit else "")
            for n, s in enumerate(self.stores.slots)
            if s.intent and not prop.holds(moment, s, s, False)
        ]
        return Finding(prop.id, f"after quiesce {'; '.join(left)}")

    def _moment(self, step: Step, outcome: Outcome, before: Stores, after: Stores, world: World) -> Moment:
        action = step.action
        key, token = action.key, 0
        if action.worker >= 0:
            worker = world.workers[action.worker]
            if action.verb is Verb.WAKE:
                key = worker.stalled
            token = worker.tokens[key] if key >= 0 else 0
        return Moment(before, after, world.now_ms, action, outcome, key, token, self.model.limits)

    def _resynced(self, world: World, step: Step, outcome: Outcome, read: Stores, *, keep: bool = False) -> World:
        """The model's best guess at the workers' heads, on the stores that were really read."""
        action = step.action
        if keep:
            then = world
        elif outcome.kind is Kind.KILLED and action.verb not in DEATHS:
            then = (self._after_crash((world,), action) or (self._dead(world, action),))[-1]
        else:
            then, _ = self._taken(world, action) or (world, outcome)
        if action.verb is Verb.CLAIM and outcome.kind is Kind.OK:
            worker = then.workers[action.worker]
            tokens = (*worker.tokens[: action.key], outcome.value, *worker.tokens[action.key + 1 :])
            workers = list(then.workers)
            workers[action.worker] = evolve(worker, tokens=tokens)
            then = evolve(then, workers=tuple(workers))
        return evolve(then, stores=read)

    def _broken(self, property_id: str, moment: Moment, step: Step, outcome: Outcome, world: World) -> Finding:
        """What was wrong, and what was answered where that was wrong too."""
        why, detail = because(property_id, moment), self._detail(step, outcome, world)
        if why:
            said = detail.removeprefix(f"{step.label}: ") if ", the model " in detail else ""
            detail = f"{step.label}: {why}" + (f"; {said}" if said else "")
        return Finding(property_id, detail)

    def _detail(self, step: Step, outcome: Outcome, world: World, read: Stores | None = None) -> str:
        said = f"{step.label}: the subject answered {told(outcome)}"
        if outcome.kind is Kind.KILLED:
            return said if read is None else f"{said}; no prefix of the operation leaves such rows"
        taken = self._taken(world, step.action)
        if taken is None:
            return f"{said}, where the model knows of no such step"
        then, answer = taken
        if answer != outcome:
            return f"{said}, the model {told(answer)}"
        if read is None or then.stores == read:
            return said
        return f"{said}, as does the model, but the rows differ: {difference(then.stores, read)}"


def same_effects(a: Stores, b: Stores, keys: Iterable[int]) -> bool:
    """Whether the effects under some keys are the same in two readings."""
    return all([e.digest for e in a.slots[k].effects] == [e.digest for e in b.slots[k].effects] for k in keys)


def told(outcome: Outcome) -> str:
    """An outcome in a few words."""
    value = f" {outcome.value}" if outcome.value else ""
    reason = f" ({outcome.reason})" if outcome.reason else ""
    return f"{outcome.kind}{value}{reason}"


def difference(expected: Stores, actual: Stores) -> str:
    """What two readings differ in, in a few words: ``k1.intent.state expected pending, read completed``."""
    parts = []
    if expected.revision != actual.revision:
        parts.append(f"policy revision expected {expected.revision}, read {actual.revision}")
    for number, (want, have) in enumerate(zip(expected.slots, actual.slots, strict=True), start=1):
        for name in (a.name for a in fields(Slot)):
            a, b = getattr(want, name), getattr(have, name)
            if a != b:
                parts.append(f"k{number}.{name} expected {a}, read {b}")
    return "; ".join(parts)
