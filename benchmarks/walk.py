"""The walk engine, on SQLite in memory, against the machine engine, on files."""

from __future__ import annotations

from benchmarks import machine
from benchmarks.rows import Row, by_turns, rate_of
from model.contracts import Contracts
from stateful.engines import walk
from stateful.order import Rig
from stateful.subject import load_subject
from stateful.verdict import Tally

ORDERS = 500
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
    return [Row("walk", "the machine engine", "steps/s", fast, slow, 8)]
