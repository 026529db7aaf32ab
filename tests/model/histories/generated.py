"""Histories made by chance: callers run the specification's stages against each other, and are told what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from attrs import define, evolve, field, frozen

from model.actions import Action, Verb
from model.contracts import Contracts
from model.histories import Call, DispatcherHistory, Done, Operation
from model.step import Model
from model.words import Kind, Outcome, World

CLIENT_VERBS = (Verb.SUBMIT, Verb.APPROVE, Verb.DENY, Verb.REVOKE, Verb.FORGE, Verb.BUMP_POLICY, Verb.CANCEL)
ENVIRONMENT_LANE = 9
Chooser = Callable[[Any, int, Random], Any]
"""(state, lane, chance) -> what the lane asks for next."""


def chance_of(seed: int) -> Random:
    """The same choices each time."""
    return Random(seed)  # noqa: S311 - a seeded choice, no secret


@frozen
class Generated:
    """A history that did happen, and the state that it left."""

    specification: Any
    calls: tuple[Call, ...]
    end: Any


@define
class _Open:
    call: Call
    memo: Any = None
    outcome: Any = None


@define
class Run:
    """Lanes that take turns by chance, stage by stage. Events are numbered as they happen."""

    specification: Any
    chance: Random
    state: Any = field(init=False)
    position: int = 0
    calls: list[Call] = field(factory=list)
    open: dict[int, _Open] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.state = self.specification.first()

    def next_position(self) -> int:
        self.position += 1
        return self.position

    def begin(self, lane: int, operation: Any) -> None:
        self.open[lane] = _Open(Call(lane, operation, self.next_position()))

    def go_on(self, lane: int, crash: float) -> None:
        """One stage, or after the last one the answer; with probability ``crash`` death instead."""
        under = self.open[lane]
        if self.chance.random() < crash:
            return self.end(lane, None)
        if under.outcome is not None:
            return self.end(lane, under.outcome)
        found = list(self.specification.stages(self.state, under.call.operation, under.memo))
        self.state, memo = self.chance.choice(found)
        if isinstance(memo, Done):
            under.outcome = memo.outcome
        else:
            under.memo = memo
        return None

    def end(self, lane: int, outcome: Any) -> None:
        under = self.open.pop(lane)
        self.calls.append(evolve(under.call, end=self.next_position(), outcome=outcome))

    def happen(self, operation: Any) -> None:
        """An event of the environment: nothing lies between its begin and its end."""
        ((self.state, done),) = self.specification.stages(self.state, operation, None)
        begin = self.next_position()
        self.calls.append(Call(ENVIRONMENT_LANE, operation, begin, self.next_position(), done.outcome))

    def history(self) -> tuple[Call, ...]:
        """The calls in the order in which they began; what has not ended is open for ever."""
        return tuple(sorted([*self.calls, *(u.call for u in self.open.values())], key=lambda c: c.begin))


def run_of(
    specification: Any, chance: Random, choose: Chooser, *, lanes: Sequence[int], calls: int, crash: float = 0.0
) -> Generated:
    """A history of ``calls`` calls by ``lanes``; where ``crash`` is positive some of them die or stay open."""
    run = Run(specification, chance)
    asked, waiting = 0, list(lanes)
    while asked < calls or run.open:
        if asked == calls and chance.random() < crash:
            break  # whoever is under way now stays so
        lane = chance.choice(waiting if asked < calls else sorted(run.open))
        if lane in run.open:
            run.go_on(lane, crash)
            if crash and lane not in run.open and run.calls[-1].outcome is None:
                _bury(run, lane, waiting)
                if not waiting:
                    break
            continue
        operation = choose(run.state, lane, chance)
        asked += 1
        if operation is None:
            continue
        if isinstance(operation, Operation) and lane == ENVIRONMENT_LANE:
            run.happen(operation)
        else:
            run.begin(lane, operation)
    return Generated(specification, run.history(), run.state)


def _bury(run: Run, lane: int, waiting: list[int]) -> None:
    """A worker that died is dead for everybody else, and comes back half of the time."""
    waiting.remove(lane)
    if isinstance(run.specification, DispatcherHistory) and lane < run.specification.model.workers:
        run.happen(Operation(Action(Verb.KILL, lane), ENVIRONMENT_LANE))
        if run.chance.random() < 0.5:
            run.happen(Operation(Action(Verb.RESTART, lane, -1, "same-name"), ENVIRONMENT_LANE))
            waiting.append(lane)


# -- the dispatcher -----------------------------------------------------------------------------------------------

WEIGHTS = {
    Verb.SUBMIT: 3,
    Verb.CANCEL: 3,
    Verb.CLAIM: 2,
    Verb.DISPATCH: 5,
    Verb.STALL: 2,
    Verb.WAKE: 9,
    Verb.ACKNOWLEDGE: 5,
    Verb.RECONCILE: 9,
    Verb.BUMP_POLICY: 0.5,
    Verb.REAP_READ: 0.2,
    Verb.KILL: 0,
    Verb.JUMP_WALL: 0.1,
}
"""What is likely enough to matter; 1 for the others."""
PRELUDES = (
    (),
    ("submit k1 p1",),
    ("submit k1 p1", "approve k1 p1"),
    ("submit k1 p1", "approve k1 p1", "claim w1 k1"),
    ("submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 silent"),
    ("submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 lost", "advance k1 lease"),
    ("submit k1 p1", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 done", "acknowledge w1 k1"),
)
"""Worlds from which something happens."""


def _chosen(actions: Sequence[Action], chance: Random) -> Action:
    return chance.choices(actions, [WEIGHTS.get(a.verb, 1) for a in actions])[0]


def _walked(model: Model, chance: Random) -> World:
    """A world some way into an order, with every worker alive and awake."""
    world = model.first()
    for key in range(model.keys):
        for label in chance.choice(PRELUDES):
            action = model.alphabet.by_label[label.replace("k1", f"k{key + 1}")]
            if model.is_enabled(action, world):
                world, _outcome = model.step(world, action)
    for _ in range(chance.choice((0, 0, 3))):
        actions = model.alphabet.all_enabled(world, model.contracts)
        world, _outcome = model.step(world, _chosen([a for a in actions if a.verb is not Verb.STALL], chance))
    return world


def choose_action(model: Model) -> Chooser:
    """What a lane may ask a dispatcher for: workers 0, 1, ..., then clients, and the environment."""

    def choose(world: World, lane: int, chance: Random) -> Operation | None:
        enabled = model.alphabet.all_enabled(world, model.contracts)
        if lane == ENVIRONMENT_LANE:
            possible = [a for a in enabled if a.verb is Verb.ADVANCE]
        elif lane < model.workers:
            possible = [a for a in enabled if a.worker == lane and a.verb is not Verb.JUMP_WALL]
        else:
            possible = [a for a in enabled if a.verb in CLIENT_VERBS]
        if not possible:
            return None
        action = _chosen(possible, chance)
        at_ms = model.step(world, action)[0].now_ms if lane == ENVIRONMENT_LANE else None
        return Operation(action, lane, at_ms)

    return choose


def dispatcher_history(
    seed: int, *, keys: int = 0, crash: float = 0.0, busy: bool = False, contracts: Contracts = Contracts()
) -> Generated:
    """A true history of 3 to 5 calls, 2 or 3 lanes and 1 or 2 keys, from a world some way into an order."""
    chance = chance_of(seed)
    model = Model(contracts, keys=keys or chance.choice((1, 2)))
    specification = DispatcherHistory(model, _walked(model, chance), busy)
    lanes = chance.choice(((0, 2), (0, 1), (0, 1, 2), (0, 1, ENVIRONMENT_LANE)))
    calls = chance.randint(3, 5)
    return run_of(specification, chance, choose_action(model), lanes=lanes, calls=calls, crash=crash)


def planted(history: Generated, chance: Random) -> tuple[Call, ...]:
    """The history with one answer changed: to what the call would answer elsewhere, or to anything."""
    answered = [n for n, call in enumerate(history.calls) if call.outcome is not None]
    calls = list(history.calls)
    if answered:
        n = chance.choice(answered)
        others = [outcome for outcome in _others(history, calls[n], chance) if outcome != calls[n].outcome]
        calls[n] = evolve(calls[n], outcome=others[0])
    return tuple(calls)


def rearranged(history: Generated, chance: Random) -> tuple[Call, ...]:
    """The same calls and answers, begun and ended in another order; each lane's own order is kept."""
    events: dict[int, list[list[tuple[int, str]]]] = {}
    for n, call in enumerate(history.calls):
        happened = [(n, "begin"), (n, "end")][: 1 if call.end is None else 2]
        at_once = call.lane == ENVIRONMENT_LANE
        events.setdefault(call.lane, []).extend([happened] if at_once else [[event] for event in happened])
    calls = list(history.calls)
    position = 0
    while events:
        lane = chance.choice(sorted(events))
        for n, which in events[lane].pop(0):
            position += 1
            calls[n] = evolve(calls[n], **{which: position})
        if not events[lane]:
            del events[lane]
    return tuple(calls)


def _others(history: Generated, call: Call, chance: Random) -> list[Outcome]:
    """Answers to put in a call's place: first those that it might have had at another time."""
    found: list[Outcome] = []
    for start in (history.end, history.specification.first()):
        state, memo = start, None
        while not isinstance(memo, Done):
            stages = list(history.specification.stages(state, call.operation, memo))
            if not stages:
                break
            state, memo = chance.choice(stages)
        else:
            found.append(memo.outcome)
    chance.shuffle(found)
    wild = [Outcome(kind, "", value) for kind in (Kind.OK, Kind.REFUSED, Kind.UNKNOWN) for value in (0, 1, 2)]
    chance.shuffle(wild)
    return [*found, *wild]
