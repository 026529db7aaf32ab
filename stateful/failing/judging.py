"""What a fault inside an operation may leave: any prefix of its stages, its worker alive, and an answer that is true."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import evolve, field, frozen

from impl.protocol import Answer
from model.actions import Action, Verb
from model.properties import CONFORMS, Moment, broken
from model.step import Model, put
from model.words import Capability, Kind, Outcome, Result, Stores, Worker, World
from stateful.because import because
from stateful.bench import Process, key_name
from stateful.judge import Finding, difference, told

OPEN = frozenset({Kind.REFUSED, Kind.UNKNOWN})
"""Answers that a fault may change an answer into."""


@frozen
class Faulted:
    """An operation during which something failed: where it began, what it answered, and what its worker now knows."""

    model: Model
    world: World
    """Before it."""
    action: Action
    outcome: Outcome
    head: Worker | None
    """None where the stages say it: a client keeps nothing in its head, and a restart begins with an empty one."""
    capabilities: frozenset[Capability] = field(repr=False)

    def worlds(self) -> Iterator[World]:
        """The worlds that may be true after it."""
        taken = self.model.take(self.world, self.action)
        stages = (self.world, *taken.stages)
        if self.outcome == taken.outcome:
            yield stages[-1]
        saw_nothing = self.action.verb is Verb.REAP_READ and self.outcome == Outcome(Kind.OK)
        if self.outcome.kind in OPEN or saw_nothing:
            for stage in stages:
                yield self._knowing(stage)

    def _knowing(self, stage: World) -> World:
        if self.head is None:
            return stage
        return World(stage.now_ms, stage.stores, put(stage.workers, self.action.worker, self.head))

    def agreeing(self, read: Stores) -> tuple[World, ...]:
        """Those whose stores are what was read."""
        return tuple(dict.fromkeys(evolve(w, stores=read) for w in self.worlds() if w.stores == read))

    def finding(self, read: Stores, where: str) -> Finding | None:
        """What is wrong with what was read afterwards; ``where`` says what failed, and when it was read."""
        moment = self._moment(read)
        prop = broken(moment, self.capabilities)
        said = f"{self.action.label}, {where}, answered {told(self.outcome)}"
        if prop is not None:
            why = because(prop.id, moment)
            return Finding(prop.id, f"{said}: {why}" if why else said)
        if self.agreeing(read):
            return None
        then, answer = self.model.step(self.world, self.action)
        rows = difference(then.stores, read)
        return Finding(CONFORMS.id, f"{said}, the model {told(answer)}" + (f": {rows}" if rows else ""))

    def _moment(self, read: Stores) -> Moment:
        action, key, token = self.action, self.action.key, 0
        if action.worker >= 0:
            worker = self.world.workers[action.worker]
            key = worker.stalled if action.verb is Verb.WAKE else key
            token = worker.tokens[key] if key >= 0 else 0
        before, limits = self.world.stores, self.model.limits
        return Moment(before, read, self.world.now_ms, action, self._meant(read), key, token, limits)

    def _meant(self, read: Stores) -> Outcome:
        """The outcome that promises are held against: an open answer promises no more than a death does.

        Not so where the model leaves it open too: a cancellation that came late was noted all the same. A refusal
        that the model does not know is one of whoever could not look, and says nothing of what it was asked.
        """
        then, answer = self.model.step(self.world, self.action)
        if self.outcome.kind not in OPEN or (answer == self.outcome and then.stores == read):
            return self.outcome
        return Outcome(Kind.KILLED) if self.outcome.kind is Kind.UNKNOWN else Outcome(Kind.REFUSED, "busy")


def head_of(process: Process, worker: Worker, receipts: Callable[[int], list[str]]) -> Worker:
    """What a worker's process has in its head, in the model's words."""

    def ordinal(key: int, receipt: str) -> int:
        known = receipts(key) if receipt else []
        return known.index(receipt) + 1 if receipt in known else -1 if receipt else 0

    def result(key: int, answer: Answer | None) -> Result | None:
        return None if answer is None else Result(answer.kind, answer.reason, ordinal(key, answer.receipt))

    stalled = -1 if process.permit is None else process.permit[0]
    keys = range(len(worker.tokens))
    view = None
    if process.overdue is not None:
        seen = {one.key: (one.token, one.expiry_ms) for one in process.overdue}
        view = tuple(seen.get(key_name(key)) for key in keys)
    return evolve(
        worker,
        tokens=tuple(process.tokens),
        results=tuple(result(key, process.answers[key]) for key in keys),
        receipts=tuple(ordinal(key, process.receipts[key]) for key in keys),
        stalled=stalled,
        sending=worker.sending if stalled >= 0 else "",
        view=view,
    )
