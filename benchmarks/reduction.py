"""From nothing to a minimal order: deduplication at the sink is switched off, and a walk has to notice."""

from __future__ import annotations

import time
from statistics import median

from attrs import frozen

from benchmarks.rows import REPEATS, Row
from model.contracts import Contracts, Idempotency
from stateful.engines import walk
from stateful.order import Rig
from stateful.reduce import Reducer
from stateful.subject import load_subject
from stateful.verdict import Tally

SEEDS = range(1, 9)
ORDERS_MAX = 5_000
LIMIT_S = 1.0
"""What a person waits for without noticing; the ratios are to it."""


@frozen
class Found:
    """How long one seed took, and how many steps were left."""

    seconds: float
    steps: int


def _one(seed: int) -> Found:
    contracts = Contracts(idempotency=Idempotency.CLIENT)
    began = time.perf_counter()
    with Rig(load_subject(), contracts, in_memory=True) as rig:
        tally = Tally(walk.NAME, stop_at_first=True)
        walk.walk(rig, seed, ORDERS_MAX, tally)
        if not tally.broken:
            raise RuntimeError(f"seed {seed} found nothing in {ORDERS_MAX} orders")
        broken = tally.broken.get("one-effect") or next(iter(tally.broken.values()))
        reduced = Reducer(rig, broken.property_id).reduce(broken.steps)
        if not reduced.minimal:
            raise RuntimeError(f"seed {seed}: the order could not be made minimal")
        return Found(time.perf_counter() - began, len(reduced.steps))


def rows() -> list[Row]:
    """Seconds until a minimal order, over the seeds, and its steps."""
    turns = [[_one(seed) for seed in SEEDS] for _ in range(REPEATS)]
    times = [median(f.seconds for f in seed) for seed in zip(*turns, strict=True)]
    steps = [f.steps for f in turns[0]]
    over = f"{LIMIT_S:g} s, {len(SEEDS)} seeds"
    shortest = f"the shortest of {len(SEEDS)} seeds"
    return [
        Row("reduction, median", over, "s", median(times), LIMIT_S, 1, higher_is_better=False),
        Row("reduction, maximum", over, "s", max(times), LIMIT_S, 1, higher_is_better=False),
        Row("reduction, median steps", shortest, "steps", median(steps), min(steps), higher_is_better=False),
        Row("reduction, most steps", shortest, "steps", max(steps), min(steps), higher_is_better=False),
    ]
