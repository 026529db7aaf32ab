"""An examination: every order on one system, each claim judged, each violation reduced and run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from attrs import define, evolve, field, frozen

from model.claims import CLAIMS, Ability, Claimed
from stateful.foreign.adapter import Adapter, Hello
from stateful.foreign.catalogue import STATEMENTS_MAX, Recipe, orders, probes, recipe_of, sweep_probes
from stateful.foreign.channel import AdapterError
from stateful.foreign.facts import Facts, Line
from stateful.foreign.judges import judged, stuck
from stateful.foreign.order import At, Order, Spot, Step
from stateful.foreign.shim import built
from stateful.foreign.stage import Stage
from stateful.verdict import Status

REPLAYS = 5
"""How often a violation must be seen again before it is called one."""
WAITING = 3
"""So many times as many orders run at a time where a lease runs out in real time."""
REDUCTIONS_MAX = 24
STEP_BY_STEP = "it is driven step by step and makes no claims: walk it with `survives check`"
TROUBLES_MAX = 5
"""After so many orders that told nothing, the adapter is given up."""


@frozen
class Violation:
    """A broken claim: the smallest order that was found, what was seen, and how often it was seen again."""

    order: Order
    detail: str
    lines: tuple[Line, ...]
    again: int = 0
    minimal: bool = False

    @property
    def is_sure(self) -> bool:
        """Whether it was seen each time."""
        return self.again == REPLAYS


@frozen
class Row:
    """What became of one claim. ``orders`` is how many runs it was at stake in, of which ``stuck`` ended in doubt."""

    claim_id: str
    status: str
    claimed: Claimed | None = None
    orders: int = 0
    stuck: int = 0
    why: str = ""
    violation: Violation | None = None


UNCLAIMED = "unclaimed"
HOLDS = "holds"


@frozen
class Examined:
    """Everything about one system."""

    adapter: str
    hello: Hello | None
    rows: tuple[Row, ...]
    orders: int = 0
    starts: int = 0
    statements: int = 0
    operations: int = 0
    """File operations that were swept, where they were asked for."""
    troubles: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    interrupted: str = ""
    """Where it was cut short by whoever started it; empty if it was not."""
    seconds: float = field(default=0.0, eq=False)

    @property
    def status(self) -> Status:
        """Violated if a claim is; unknown if something was not found out; survived if all that is claimed holds."""
        found = {r.status for r in self.rows}
        if Status.VIOLATED in found:
            return Status.VIOLATED
        if self.troubles or Status.UNKNOWN in found or self.hello is None:
            return Status.UNKNOWN
        return Status.SURVIVED if HOLDS in found else Status.VACUOUS

    def totals(self) -> dict[str, int]:
        """How many claims came to which end. Unsupported and unclaimed are counted as what they are."""
        names = (
            HOLDS,
            str(Status.VIOLATED),
            str(Status.UNSUPPORTED),
            UNCLAIMED,
            str(Status.UNKNOWN),
            str(Status.VACUOUS),
        )
        return {name: sum(str(r.status) == name for r in self.rows) for name in names}


Report = Callable[[str, int, int], None]


def _silent(name: str, done: int, planned: int) -> None:
    """Nobody watches."""


@define
class Examination:
    """Runs everything on one adapter. ``workers`` orders run at a time; the result does not depend on it."""

    adapter: Adapter
    scratch: Path
    workers: int = 2
    slow: bool = True
    """Whether to run orders that wait in real time."""
    sweep: bool = True
    """Whether to stop at every statement."""
    shim: Path | None = None
    """The library that ends a process before its n-th file operation, if that is to be done too."""
    share: tuple[int, int] = (0, 1)
    """Which of how many parts of the orders."""
    report: Report = _silent
    _ran: list[Facts] = field(factory=list)
    _live: dict[int, Stage] = field(factory=dict)
    _lock: Lock = field(factory=Lock)
    _finished: dict[int, Facts] = field(factory=dict)
    _interrupted: str = ""
    _troubled: int = 0

    def run(self) -> Examined:
        """The whole examination. What the adapter does wrong is told in the result; findings are kept."""
        began = time.monotonic()
        try:
            hello = self.adapter.ask(self.scratch)
        except AdapterError as error:
            return Examined(self.adapter.name, None, (), troubles=(str(error),), seconds=time.monotonic() - began)
        recipe, why = self._recipe(hello) if hello.style == "call" else (None, STEP_BY_STEP)
        if recipe is None:
            rows = tuple(self._from_probe(i, hello, why) for i in CLAIMS)
            return Examined(self.adapter.name, hello, rows, troubles=(why,), seconds=time.monotonic() - began)
        planned = orders(hello, recipe)[self.share[0] :: self.share[1]]
        skipped = tuple(o.name for o in planned if o.slow and not self.slow)
        self._all([o for o in planned if self.slow or not o.slow])
        rows = tuple(self._row(i, hello) for i in CLAIMS)
        return Examined(
            adapter=self.adapter.name,
            hello=hello,
            rows=rows,
            orders=len(self._ran),
            starts=sum(len({c.worker for c in f.calls}) for f in self._ran),
            statements=sum(map(len, recipe.statements)),
            operations=sum(recipe.operations),
            troubles=self._troubles(),
            left_behind=tuple(x for f in self._ran for x in f.left_behind),
            skipped=skipped,
            interrupted=self._interrupted,
            seconds=time.monotonic() - began,
        )

    def _troubles(self) -> tuple[str, ...]:
        told = [f"{f.order.name}: {f.trouble}" for f in self._ran if f.trouble]
        return (*told, *filter(None, [self._interrupted]))

    def _stage(self, *, every_statement: bool = False) -> Stage:
        return Stage(self.adapter, self.scratch, every_statement=every_statement, shim=self.shim)

    def _run(self, order: Order) -> Facts:
        stage = self._stage()
        self._live[id(stage)] = stage
        try:
            return stage.run(order)
        finally:
            del self._live[id(stage)]

    @contextmanager
    def _pool(self) -> Iterator[ThreadPoolExecutor]:
        """Threads for orders. Whoever interrupts them need not wait for the answers that they wait for."""
        with ThreadPoolExecutor(self._at_a_time(), thread_name_prefix="order") as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for stage in list(self._live.values()):
                    stage.stop()
                raise

    # -- running ------------------------------------------------------------------------------------------------

    def _recipe(self, hello: Hello) -> tuple[Recipe | None, str]:
        probe = probes(hello)
        facts = self._stage().run(probe)
        if facts.trouble:
            return None, facts.trouble
        recipe = recipe_of(probe, facts)
        if recipe is None:
            told = "; ".join(f"{line.label}: {line.outcome}" for line in facts.lines)
            self._ran = [facts]
            return None, f"a call never came to its effect ({told}); it is to be sent through self.effect"
        if not self.sweep:
            return recipe, ""
        statements, operations = [], []
        for order in sweep_probes(recipe):
            facts = self._stage(every_statement=True).run(order)
            if facts.trouble:
                return None, facts.trouble
            statements.append(_last_step(facts))
            operations.append(facts.file_operations)
        return evolve(recipe, statements=tuple(statements), operations=tuple(operations)), ""

    def _all(self, planned: list[Order]) -> None:
        try:
            with self._pool() as pool:
                list(pool.map(lambda number: self._one(number, planned), range(len(planned))))
        except KeyboardInterrupt:
            if not self._finished:
                raise
            self._interrupted = f"interrupted after {len(self._finished)} of {len(planned)} orders"
        self._ran = [self._finished[number] for number in sorted(self._finished)]

    def _at_a_time(self) -> int:
        """How many orders run at a time: more of those that mostly wait for a lease to run out in real time."""
        hello = self.adapter.hello
        waits = hello.lease_ms and Ability.ADVANCE not in hello.abilities
        return self.workers * WAITING if waits else self.workers

    def _one(self, number: int, planned: list[Order]) -> None:
        if self._troubled >= TROUBLES_MAX:
            return
        facts = self._run(planned[number])
        with self._lock:
            self._finished[number] = facts
            self._troubled += bool(facts.trouble)
            self.report(planned[number].name, len(self._finished), len(planned))

    # -- judging ------------------------------------------------------------------------------------------------

    def _row(self, claim_id: str, hello: Hello) -> Row:
        claimed = hello.claimed(claim_id)
        if claimed is None:
            return Row(claim_id, UNCLAIMED)
        lacking = claimed.claim.needs - hello.abilities
        if lacking:
            why = f"the adapter has no {', '.join(sorted(lacking))}"
            return Row(claim_id, Status.UNSUPPORTED, claimed, why=why)
        at_stake = [(f, found) for f in self._ran if (found := judged(f, claimed, hello)) is not None]
        broken = [f for f, found in at_stake if found]
        in_doubt = sum(stuck(f) for f, _ in at_stake)
        count = len(at_stake)
        if broken:
            shortest = min(broken, key=lambda f: (len(f.steps), f.order.slow, -len(f.sends)))
            violation = self._told(shortest, claimed, hello)
            status = Status.VIOLATED if violation.is_sure else Status.UNKNOWN
            why = "" if violation.is_sure else f"seen, and then {violation.again} times of {REPLAYS}"
            why = self._interrupted or why
            return Row(claim_id, status, claimed, count, in_doubt, why, violation)
        if not count:
            return Row(claim_id, Status.VACUOUS, claimed, why="no order put it at stake")
        if self._interrupted:
            return Row(claim_id, Status.UNKNOWN, claimed, count, in_doubt, self._interrupted)
        return Row(claim_id, HOLDS, claimed, count, in_doubt)

    def _told(self, facts: Facts, claimed: Claimed, hello: Hello) -> Violation:
        """A violation, reduced and seen again; as it was seen, if somebody interrupts."""
        try:
            if not self._interrupted:
                return self._reduced(facts, claimed, hello)
        except KeyboardInterrupt:
            self._interrupted = "interrupted before it was seen again"
        order = facts.order.with_steps(facts.steps)
        return Violation(order, judged(facts, claimed, hello) or "", tuple(facts.lines))

    def _from_probe(self, claim_id: str, hello: Hello, why: str) -> Row:
        """What a probe that came to no effect has broken; nothing can be said of the other claims."""
        row = self._row(claim_id, hello) if self._ran else None
        return row if row is not None and row.violation is not None else self._not_run(claim_id, hello, why)

    @staticmethod
    def _not_run(claim_id: str, hello: Hello, why: str) -> Row:
        claimed = hello.claimed(claim_id)
        return Row(claim_id, UNCLAIMED) if claimed is None else Row(claim_id, Status.UNKNOWN, claimed, why=why)

    def _reduced(self, facts: Facts, claimed: Claimed, hello: Hello) -> Violation:
        best, runs, minimal = facts, 0, False
        while not minimal and runs < REDUCTIONS_MAX:
            for steps in _shorter(best.steps):
                runs += 1
                tried = self._run(best.order.with_steps(steps))
                if judged(tried, claimed, hello) and not tried.missed:
                    best = tried
                    break
            else:
                minimal = True
        order = best.order.with_steps(best.steps)
        with self._pool() as pool:
            found = list(pool.map(lambda _: judged(self._run(order), claimed, hello), range(REPLAYS)))
        detail = judged(best, claimed, hello) or ""
        return Violation(order, detail, tuple(best.lines), sum(map(bool, found)), minimal)


def _shorter(steps: list[Step]) -> Iterable[tuple[Step, ...]]:
    """The order without one of its steps."""
    return (tuple(steps[:n] + steps[n + 1 :]) for n in range(len(steps)))


def _last_step(facts: Facts) -> tuple[Spot, ...]:
    """The statements of the order's last step: what was seen since the last that started again at 1."""
    return tuple(
        Spot(number, sql, nth)
        for number, (sql, nth) in enumerate(facts.spots[facts.spots_at : facts.spots_at + STATEMENTS_MAX], start=1)
    )


def replay(adapter: Adapter, scratch: Path, order: Order, claim_id: str) -> tuple[Facts, str | None]:
    """An order once more: its facts, and what is wrong with the claim, if anything; None if it was not at stake.

    Raises AdapterError.
    """
    hello = adapter.ask(scratch)
    claimed = hello.claimed(claim_id)
    if claimed is None:
        raise AdapterError(
            f"{adapter.name} does not claim {claim_id}; it claims {', '.join(c.id for c in hello.claims)}"
        )
    shim = built() if any(step.at is At.FILE for step in order.steps) else None
    facts = Stage(adapter, scratch, shim=shim).run(order)
    if facts.trouble:
        raise AdapterError(facts.trouble)
    return facts, judged(facts, claimed, hello)


__all__ = ["HOLDS", "REPLAYS", "UNCLAIMED", "Examination", "Examined", "Row", "Violation", "replay"]
