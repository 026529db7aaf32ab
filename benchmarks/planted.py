"""Whether the reducer ends at the minimum: failures whose shortest order is known, found by the walk or padded.

The minima are those of ``benchmarks.minima``, which an exhaustive search found.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from statistics import median

from attrs import define, frozen

from benchmarks.minima import MINIMA, WEAK
from benchmarks.rows import Row
from impl.mistakes import MISTAKES
from model.actions import Step, Verb
from model.contracts import Contracts, contracts_from
from stateful.engines.walk import walk
from stateful.order import Ran, Rig
from stateful.reduce import Reduced, Reducer
from stateful.subject import load_subject
from stateful.verdict import Tally

SEEDS = (1,)
ORDERS = 400
PADDING = (30, 100)
"""So many steps that matter to nobody come between those of a core."""
TARGET = 0.95
LIMIT_MS = 1_000


@define
class Until(Tally):
    """A tally that stops at the first order that breaks one promise."""

    promise: str = ""

    def take(self, rig: Rig, ran: Ran) -> bool:
        """Take in an order; True if it broke the promise."""
        super().take(rig, ran)
        return self.promise in self.broken


@frozen
class Landed:
    """Where a reduction ended: steps above the minimum, and how long it took."""

    name: str
    excess: int
    ms: float
    length: int
    before: int


def planted() -> Iterator[tuple[str, str, Contracts, str, int]]:
    """Every planted failure: its name, its mistake, its contracts, the promise that it breaks, the fewest steps."""
    for one, least in MINIMA.items():
        yield one, one, Contracts(), MISTAKES[one].breaks, least
    for (contract, choice, promise), least in WEAK.items():
        yield f"{contract}={choice} {promise}", "", contracts_from({contract: choice}), promise, least


def landed(seeds: tuple[int, ...] = SEEDS, every: int = 1) -> Iterator[tuple[str, Landed]]:
    """Reduce each planted failure as each seed finds it, and its shortest order among steps that matter to nobody."""
    for name, mistake, contracts, promise, least in list(planted())[::every]:
        with Rig(load_subject(mistake=mistake), contracts) as rig:
            core: tuple[Step, ...] = ()
            for seed in seeds:
                tally = Until("walk", promise=promise)
                walk(rig, seed, ORDERS, tally)
                if promise in tally.broken:
                    long = tally.broken[promise].steps
                    done, one = _reduced(rig, name, promise, long, least)
                    core = min(core or done.steps, done.steps, key=len)
                    yield "walk", one
            order = padded(rig, core, seeds[0], promise) if core else ()
            if order:
                yield "padded", _reduced(rig, name, promise, order, least)[1]


def _reduced(rig: Rig, name: str, promise: str, long: tuple[Step, ...], least: int) -> tuple[Reduced, Landed]:
    began = time.process_time()  # of the processor: it takes minutes, in which a busy machine slows it
    done = Reducer(rig, promise).reduce(long)
    ms = (time.process_time() - began) * 1_000
    return done, Landed(name, len(done.steps) - least, ms, len(done.steps), len(long))


def padded(rig: Rig, core: tuple[Step, ...], seed: int, promise: str) -> tuple[Step, ...]:
    """The core with steps on another key between its own; empty if no draw leaves the promise broken."""
    rng = random.Random(seed)  # noqa: S311 - a seed must give the same order
    aside = [a for a in rig.model.alphabet.by_label.values() if a.key == 1 and a.verb is not Verb.ADVANCE]
    for _ in range(20):
        count = rng.randint(*PADDING)
        places = sorted(rng.randrange(len(core)) for _ in range(count))
        rig.start()
        order: list[Step] = []
        for index, step in enumerate(core):
            for _ in range(places.count(index)):
                able = [a for a in aside if rig.can(Step(a))]
                order.append(Step(rng.choice(able)))
                rig.do(order[-1])
            order.append(step)
            if rig.can(step):
                rig.do(step)
        ran = rig.run(order, until=promise)
        if ran.finding is not None and ran.finding.property_id == promise and ran.own >= PADDING[0]:
            return ran.steps[: ran.own]
    return ()


def rows() -> list[Row]:
    """How many reductions end at the minimum, by how much the worst misses it, and how long they take."""
    by_source: dict[str, list[Landed]] = {"walk": [], "padded": []}
    for source, one in landed():
        by_source[source].append(one)
    every = [one for found in by_source.values() for one in found]
    shares = [
        Row(
            f"minimum, {source}",
            f"{len(found)} planted failures",
            "at minimum",
            share * len(found),
            len(found),
            TARGET,
        )
        for source, found in by_source.items()
        for share in (sum(one.excess <= 0 for one in found) / len(found),)
    ]
    times = [one.ms for one in every]
    worst = max(one.excess for one in every)
    return [
        *shares,
        Row("minimum, worst", "one step above it", "steps above", worst, 1, 1.01, higher_is_better=False),
        Row("minimum, median", "a second of the processor", "ms", median(times), LIMIT_MS, 1, higher_is_better=False),
        Row("minimum, maximum", "a second of the processor", "ms", max(times), LIMIT_MS, higher_is_better=False),
    ]
