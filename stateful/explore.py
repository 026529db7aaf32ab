"""Explore: every order of the model within bounds that are given on the command line, with time and memory watched."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from model.actions import Step, Verb
from model.contracts import Contracts, Limits
from model.properties import WITNESSES
from model.search import (
    Bounds,
    ModelBounds,
    ModelSpace,
    Progress,
    Result,
    SpaceTooLargeError,
    Symmetric,
    Verdict,
    eventually,
    interchangeable,
    search,
)
from model.step import Model
from model.words import TERMINAL, Capability
from stateful.engines.conformance import Conformance, Conformer
from stateful.matrix import run_labels
from stateful.order import Rig
from stateful.subject import load_subject
from stateful.trace import Trace

EXIT_STATUS = {Verdict.EXHAUSTED: 0, Verdict.VIOLATED: 1, Verdict.BOUNDED: 3}
RECOVERY = frozenset(
    {Verb.RESTART, Verb.WAKE, Verb.CLAIM, Verb.RECONCILE, Verb.REAP_READ, Verb.REAP_APPLY, Verb.ADVANCE}
)
"""What is done again and again by whoever looks after the system."""
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
    conformance: Conformance | None = None
    """What was executed of the graph on SQLite, if it was asked for."""
    execution_seconds: float = 0.0

    @property
    def unseen(self) -> tuple[str, ...]:
        """The witnesses that no order within the bounds shows; only an exhausted search can tell.

        One that takes permits is none: there is no limit on what is in hand within any bounds.
        """
        possible = (w for w, witness in WITNESSES.items() if Capability.PERMITS not in witness.needs)
        return tuple(w for w in possible if w not in self.result.witnesses)

    @property
    def exit_status(self) -> int:
        """0 exhausted, 1 violated or SQLite differs, 3 cut by a bound."""
        differs = self.conformance is not None and bool(self.conformance.disagreements)
        cut = self.conformance is not None and bool(self.conformance.cut)
        return 1 if differs else max(EXIT_STATUS[self.result.verdict], 3 if cut else 0)

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
            "witnesses": {name: list(labels) for name, labels in result.witnesses.items()},
            "unseen": list(self.unseen) if result.verdict is Verdict.EXHAUSTED else [],
            "loop": list(result.loop),
            "conformance": self._conformance(),
            "timing": {"seconds": round(self.seconds, 3), "megabytes": self.megabytes},
        }

    def _conformance(self) -> dict[str, Any] | None:
        done = self.conformance
        if done is None:
            return None
        return {
            "states": done.states,
            "edges": done.edges,
            "covered": done.covered,
            "executed": done.executed,
            "cut_by": done.cut,
            "by_action": dict(sorted(done.by_verb.items())),
            "disagreements": [
                {"after": list(d.labels), "step": d.step.label, "detail": d.detail} for d in done.disagreements
            ],
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

    space = ModelSpace(Model(contracts), bounds)
    system = Symmetric(space, interchangeable(space)) if symmetric else space

    def run(bounds: Bounds) -> Result:
        return search(system, bounds, property_id=property_id, witnesses=WITNESSES)

    result = _interruptible(run, Bounds(depth, states, _tick(limit, started, report)))
    explored = Explored(contracts, bounds, symmetric, result, time.monotonic() - started, megabytes_used())
    return _executed(explored, space) if result.verdict is Verdict.VIOLATED else explored


def ends(
    contracts: Contracts,
    bounds: ModelBounds,
    limit: Limit,
    *,
    depth: int | None = None,
    states: int | None = None,
    report: Callable[[Progress], None] = lambda _: None,
) -> Explored:
    """Whether every intent comes to its end, if recovery is given its turns: a dead end or a loop is the trouble.

    Every state is kept with its edges, so that this is for smaller bounds than ``explore`` is.
    """
    started = time.monotonic()
    space = ModelSpace(Model(contracts), bounds)

    def ended(state: int) -> bool:
        slots = space.world(state).stores.slots
        return all(s.lease is None and (s.intent is None or s.intent.state in TERMINAL) for s in slots)

    def is_recovery(edge: Any) -> bool:
        return edge.action.verb in RECOVERY and edge.died_after < 0

    def no_claim_left(state: int) -> bool:
        return any(s.token_high >= bounds.grants for s in space.world(state).stores.slots)

    watched = Bounds(depth, states, _tick(limit, started, report))
    result = _interruptible(lambda b: eventually(space, ended, is_recovery, cut=no_claim_left, bounds=b), watched)
    return Explored(contracts, bounds, False, result, time.monotonic() - started, megabytes_used())


def execute(explored: Explored, limit: Limit, report: Callable[[Conformance], None] = lambda _: None) -> Explored:
    """Execute every transition of an exhausted graph on SQLite, from a restored snapshot each."""
    started = time.monotonic()
    space = ModelSpace(Model(explored.contracts), explored.bounds)
    model = space.model

    def goes_on(done: Conformance) -> str:
        report(done)
        return "time" if time.monotonic() - started > limit.seconds else ""

    with Rig(load_subject(), model.contracts, model.limits, workers=model.workers, keys=model.keys) as rig:
        conformer = Conformer(space, rig)
        try:
            done = conformer.run(goes_on)
        except KeyboardInterrupt:
            done = conformer.report
            done.cut = "interrupt"
    return evolve(explored, conformance=done, execution_seconds=time.monotonic() - started)


def _tick(limit: Limit, started: float, report: Callable[[Progress], None]) -> Callable[[Progress], str]:
    def tick(progress: Progress) -> str:
        try:
            report(progress)
        except KeyboardInterrupt:
            return "interrupt"
        if time.monotonic() - started > limit.seconds:
            return "time"
        return "memory" if megabytes_used() > limit.megabytes else ""

    return tick


def _interruptible(run: Callable[[Bounds], Result], bounds: Bounds) -> Result:
    """A search that Ctrl-C, or a component that outgrows its field, ends like any other bound."""
    last = [Progress(0, 0, 0, 0)]
    stop = [""]

    def tick(progress: Progress) -> str:
        last[0] = progress
        return stop[0] or bounds.tick(progress)

    try:
        return run(evolve(bounds, tick=tick))
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
