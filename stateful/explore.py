"""Explore: every order of the model within bounds that are given on the command line, with time and memory watched."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from model.actions import Step
from model.contracts import Contracts, Limits
from model.properties import PROPERTIES
from model.search import (
    Bounds,
    ModelBounds,
    ModelSpace,
    Progress,
    Result,
    SpaceTooLargeError,
    Symmetric,
    Verdict,
    interchangeable,
    search,
)
from model.step import Model
from stateful.matrix import run_labels
from stateful.order import Rig
from stateful.subject import load_subject
from stateful.trace import Trace

EXIT_STATUS = {Verdict.EXHAUSTED: 0, Verdict.VIOLATED: 1, Verdict.BOUNDED: 3}
SHARE_OF_MEMORY = 0.6
"""Of what the machine has free, where no bound is given."""


@frozen
class Limit:
    """What ends a search that its own bounds do not: seconds, and megabytes of this process."""

    seconds: float
    megabytes: int


@frozen
class Explored:
    """What a search found, how long it took, how much memory it used, and what SQLite says to its counterexample."""

    contracts: Contracts
    bounds: ModelBounds
    symmetric: bool
    result: Result
    seconds: float
    megabytes: int
    on_sqlite: str = ""
    """The property that the counterexample breaks on SQLite, ``survived``, or nothing if there is none."""
    trace: Trace | None = None

    def to_json(self) -> dict[str, Any]:
        """For machines. What depends on the machine is under ``timing``."""
        result, bounds = self.result, self.bounds
        return {
            "format": "survives-exploration",
            "version": 1,
            "contracts": self.contracts.to_json(),
            "bounds": {
                "workers": bounds.workers,
                "keys": bounds.keys,
                "kills": bounds.kills,
                "grants": bounds.grants,
                "policy_bumps": bounds.policy_bumps,
                "payload_changes": bounds.payload_changes,
                "clock_faults": "any number: a wall clock is no part of the model",
            },
            "symmetry": self.symmetric,
            "verdict": str(result.verdict),
            "cut_by": result.cut,
            "states": result.states,
            "transitions": result.transitions,
            "diameter": result.diameter,
            "frontier": result.frontier,
            "property": result.property_id,
            "trace": list(result.trace),
            "on_sqlite": self.on_sqlite,
            "timing": {"seconds": round(self.seconds, 3), "megabytes": self.megabytes},
        }


def megabytes_used() -> int:
    """The most memory that this process has used so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def megabytes_free() -> int:
    """The memory that the machine has free for this process, in megabytes; 4,096 where nobody tells."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return 4_096
    found = next((line for line in lines if line.startswith("MemAvailable:")), "MemAvailable: 4194304 kB")
    return int(found.split()[1]) // 1024


def explore(
    contracts: Contracts,
    bounds: ModelBounds,
    limit: Limit,
    *,
    depth: int | None = None,
    states: int | None = None,
    symmetric: bool = False,
    property_id: str = "",
    report: Callable[[Progress], None] = lambda _: None,
) -> Explored:
    """Search the model; run a counterexample on SQLite. Ctrl-C ends it with what was reached, cut by ``interrupt``."""
    started = time.monotonic()

    def tick(progress: Progress) -> str:
        try:
            report(progress)
        except KeyboardInterrupt:
            return "interrupt"
        if time.monotonic() - started > limit.seconds:
            return "time"
        return "memory" if megabytes_used() > limit.megabytes else ""

    space = ModelSpace(Model(contracts), bounds)
    system = Symmetric(space, interchangeable(space)) if symmetric else space
    result = _interruptible(system, Bounds(depth, states, tick), property_id)
    explored = Explored(contracts, bounds, symmetric, result, time.monotonic() - started, megabytes_used())
    return _executed(explored, space) if result.verdict is Verdict.VIOLATED else explored


def _interruptible(system: Any, bounds: Bounds, property_id: str) -> Result:
    """A search that Ctrl-C, or a component that outgrows its field, ends like any other bound."""
    last = [Progress(0, 0, 0, 0)]
    stop = [""]

    def tick(progress: Progress) -> str:
        last[0] = progress
        return stop[0] or bounds.tick(progress)

    try:
        return search(system, evolve(bounds, tick=tick), property_id=property_id)
    except KeyboardInterrupt:
        stop[0] = "interrupt"
    except SpaceTooLargeError:
        stop[0] = "space"
    at = last[0]
    return Result(Verdict.BOUNDED, at.states, at.transitions, at.depth, at.frontier, cut=stop[0])


def _executed(explored: Explored, space: ModelSpace) -> Explored:
    """Run the counterexample on the real dispatcher under the same contracts and limits."""
    model, subject = space.model, load_subject()
    with Rig(subject, model.contracts, model.limits, workers=model.workers, keys=model.keys) as rig:
        broke, steps, _ = run_labels(explored.result.trace, rig, explored.result.property_id)
    trace = _ordinary(explored, steps)
    return evolve(explored, on_sqlite=broke or "survived", trace=trace)


def _ordinary(explored: Explored, steps: tuple[Step, ...]) -> Trace | None:
    """The order with the ordinary limits, if it breaks the same promise there."""
    from model.search import concrete

    bounds, result = explored.bounds, explored.result
    model = Model(explored.contracts, Limits(), bounds.workers, bounds.keys)
    subject = load_subject()
    candidates = [concrete(result.trace, model)] if result.trace else []
    for candidate in candidates:
        with Rig(subject, explored.contracts, workers=bounds.workers, keys=bounds.keys) as rig:
            ran = rig.run(candidate, until=result.property_id)
        if ran.finding is not None and ran.finding.property_id == result.property_id:
            return Trace(
                subject.name,
                explored.contracts,
                candidate,
                result.property_id,
                workers=bounds.workers,
                keys=bounds.keys,
            )
    return None


def lines(explored: Explored) -> list[str]:
    """What was found, for a terminal."""
    result, bounds = explored.result, explored.bounds
    weak = ",".join(f"{n}={c}" for n, c in explored.contracts.weakened().items())
    changes = "payload changes" if bounds.payload_changes else "no payload change"
    bound = (
        f"{bounds.workers} workers, {bounds.keys} keys, {bounds.kills} kills, {bounds.grants} grants a key, {changes}, "
        f"{bounds.policy_bumps} policy changes, approvals that expire, wall clocks that jump; lease "
        f"{bounds.limits.lease_ms}, approval {bounds.limits.approval_ms}, deadline {bounds.limits.deadline_ms} ticks, "
        f"{bounds.limits.max_attempts} attempts"
    )
    size = (
        f"{result.states:,} states, {result.transitions:,} transitions, depth {result.diameter}, "
        f"{explored.seconds:.1f} s, {explored.megabytes:,} MB"
    )
    out = [f"contracts {weak or 'default'}; {bound}"]
    match result.verdict:
        case Verdict.EXHAUSTED:
            out.append(f"EXHAUSTED without a violation, within that bound: {size}")
        case Verdict.BOUNDED:
            left = f", {result.frontier:,} states not yet looked into" if result.frontier else ""
            out.append(f"BOUNDED by {result.cut}, no violation so far: {size}{left}")
        case _:
            out.append(f"VIOLATED in {len(result.trace)} steps: {PROPERTIES[result.property_id].name}")
            out += [f"  {number:>3}  {label}" for number, label in enumerate(result.trace, start=1)]
            out.append(f"  on SQLite the same order breaks: {explored.on_sqlite}")
            out.append(f"  a shortest one, found within {size}")
    return out
