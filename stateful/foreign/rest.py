"""How an order comes to rest: no more faults, and whoever is left without an answer asks again, until nothing changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.claims import Ability
from stateful.foreign.order import Do, Step

if TYPE_CHECKING:
    from stateful.foreign.stage import Stage

REST_WORKER = 9
ROUNDS_MAX = 4
_SETTLED = frozenset({"done", "failed", "denied", "unknown"})


def bring(stage: Stage) -> None:
    """Everybody goes on and ends, and a fresh worker recovers, repeats every call, and observes."""
    for worker in sorted(stage.workers.values(), key=lambda w: not (w.held or w.frozen)):
        if worker.call is not None:  # those that were held first: the others may have waited for them
            stage.do(Step(Do.GO_ON, worker.number))
    for number in list(stage.workers):
        stage.close(number)
    abilities = stage.adapter.hello.abilities
    for turn in range(ROUNDS_MAX):
        outcomes = _bring_on(stage, turn)
        if outcomes <= _SETTLED and turn:
            break
        if not outcomes <= _SETTLED and Ability.LEASE in abilities and turn + 1 < ROUNDS_MAX:
            stage.do(Step(Do.ADVANCE, REST_WORKER, choice="lease"))
    if Ability.OBSERVE in abilities:
        for key in stage.facts.started():
            stage.do(Step(Do.OBSERVE, REST_WORKER, key))


def _bring_on(stage: Stage, turn: int) -> set[str]:
    """Recover, say again what was not acknowledged, repeat every call; what these were told."""
    if Ability.RECOVER in stage.adapter.hello.abilities:
        stage.do(Step(Do.RECOVER, REST_WORKER))
    if not turn:
        _decide_again(stage)
    return {_repeat(stage, key) for key in stage.facts.started()}


def _decide_again(stage: Stage) -> None:
    """An approver whose word was not acknowledged says it again, as any client does."""
    for call in [c for c in stage.facts.calls if c.do in {Do.DECIDE, Do.CANCEL} and not c.outcome]:
        stage.do(Step(call.do, REST_WORKER, call.key, call.payload, call.choice))


def _repeat(stage: Stage, key: int) -> str:
    first = next(stage.facts.starts(key))
    stage.do(Step(Do.START, REST_WORKER, key, first.payload))
    return stage.facts.calls[-1].outcome
