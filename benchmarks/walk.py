"""The walk engine, on SQLite in memory, against the machine engine, on files."""

from __future__ import annotations

from benchmarks import machine
from benchmarks.rows import Row, by_turns, rate_of
from model.contracts import Contracts
from stateful.engines import walk
from stateful.engines.walk import STEERED
from stateful.order import Rig
from stateful.subject import load_subject
from stateful.verdict import Tally

ORDERS = 500
SEEDS = 5
SEED = 1


def _steps_of(rig: Rig) -> int:
    before = rig.steps_done
    walk.walk(rig, SEED, ORDERS, Tally(walk.NAME))
    return rig.steps_done - before


def rows() -> list[Row]:
    """Steps a second of both."""
    subject, contracts = load_subject(), Contracts()
    with Rig(subject, contracts, in_memory=True) as ours, Rig(subject, contracts, in_memory=False) as theirs:
        fast, slow = by_turns(
            lambda: rate_of(lambda: _steps_of(ours)), lambda: rate_of(lambda: machine.steps_of(theirs))
        )
    steered, uniform = _triples(STEERED), _triples(0)
    return [
        Row("walk", "the machine engine", "steps/s", fast, slow, 8),
        Row("walk, steered", "uniform choice, as many orders", "triples", steered, uniform, 1.05),
    ]


def _triples(steered: float) -> float:
    """How many ordered triples of actions some orders have, over a few seeds."""
    tally = Tally(walk.NAME)
    with Rig(load_subject(), Contracts(), in_memory=True) as rig:
        for seed in range(SEEDS):
            walk.walk(rig, seed, ORDERS // SEEDS, tally, steered=steered)
    return len(tally.coverage.triples)
