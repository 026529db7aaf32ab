"""Verdicts: what was found, within which bound. A shard fills a tally; tallies add up to a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from attrs import define, field, frozen

from model.actions import Step
from model.properties import CONFORMS, PROPERTIES, WITNESSES
from model.words import Capability, Kind
from stateful.attempts.plan import Plan
from stateful.coverage import Coverage
from stateful.order import Ran, Rig
from stateful.power.cut import Cut
from stateful.schedules.program import Scheduled
from stateful.trace import Trace

PATIENCE = 300
"""So many orders more are run to see which named promise a difference from the model breaks."""


class Status(StrEnum):
    """What became of a promise, or of all of them."""

    SURVIVED = "survived"
    VIOLATED = "violated"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"
    VACUOUS = "vacuous"


EXIT_STATUS = {Status.SURVIVED: 0, Status.VIOLATED: 1, Status.UNKNOWN: 3, Status.VACUOUS: 3}
"""The command line's exit status; 2 is wrong use or bad input."""


@frozen
class Broken:
    """A broken promise and the shortest order that a shard has for it.

    ``found_after`` is the number of orders that the shard had run when it first saw it.
    """

    property_id: str
    detail: str
    steps: tuple[Step, ...]
    engine: str
    shard: int
    found_after: int
    minimal: bool = False
    """Whether no single step can be taken out or made simpler."""
    runs: int = 0
    """How many runs the reduction took."""
    scheduled: Scheduled | None = None
    """What ran side by side after the steps, if something did."""
    cut: Cut | None = None
    """The power cut that came in the middle of them, if one did."""
    attempts: Plan | None = None
    """What an operation's attempts met, if it was run on a virtual clock; there are no steps then."""
    permits: int | None = None
    """How many keys could be in hand at once, if there was a limit."""

    @property
    def length(self) -> int:
        """How many steps there are, and calls that ran side by side."""
        beside = self.scheduled.length if self.scheduled is not None else 0
        tried = self.attempts.length if self.attempts is not None else 0
        return len(self.steps) + beside + (self.cut is not None) + tried

    @property
    def rank(self) -> tuple[bool, bool, int, bool, bool, tuple[str, ...], int]:
        """What makes a trace better than another: it replays, is shorter, has no limit, no lanes, comes first by name.

        What broke when storage failed has for a trace only what led up to it. An order of actions says more than an
        operation's answers and events, which begin where much has been done already.
        """
        only_leads_up = self.engine == "faults"
        labels = tuple(s.label for s in self.steps)
        has_more = self.permits is not None, self.scheduled is not None
        return only_leads_up, self.attempts is not None, self.length, *has_more, labels, self.shard


@define
class Tally:
    """What one shard has done and seen.

    ``boundaries`` counts kills by operation and boundary, where the engine sweeps them; ``left_over`` lists what a
    sweep could not finish.
    """

    engine: str
    shard: int = 0
    orders: int = 0
    steps: int = 0
    kills: int = 0
    witnesses: Counter[str] = field(factory=Counter)
    broken: dict[str, Broken] = field(factory=dict)
    boundaries: Counter[str] = field(factory=Counter)
    left_over: list[str] = field(factory=list)
    failed: str = ""
    unsupported: str = ""
    """Why this engine can do nothing with the subject."""
    sqlite_note: str = ""
    """What has to be said of the SQLite that was recorded, where it was not that of the module ``sqlite3``."""
    schedules: Counter[str] = field(factory=Counter)
    """What an engine that schedules has done: programs, schedules, nodes, crash states and so on."""
    cuts: Counter[str] = field(factory=Counter)
    """What an engine that cuts the power has done: orders, storage operations, crash states, recoveries."""
    faults: Counter[str] = field(factory=Counter)
    """What came of storage faults: operations by ``kind | store | answer``, failed calls by ``kind | store | calls``."""
    coverage: Coverage = field(factory=Coverage)
    """What its orders have tried, where they are orders of any actions."""
    attempts: Counter[str] = field(factory=Counter)
    """What an engine on a virtual clock has done: runs, turns, sends, and events by kind."""
    seconds: float = field(default=0.0, eq=False)
    """How long the engine took; told, and never compared."""
    reducing_seconds: float = field(default=0.0, eq=False)
    """How long it took after that to reduce what was found."""
    stop_at_first: bool = False
    on_order: Callable[[Tally], None] | None = None

    def take(self, rig: Rig, ran: Ran) -> bool:
        """Count one order. True if the shard should stop."""
        if ran.finding is not None and ran.finding.property_id not in self.broken:
            self.found(ran.finding.property_id, ran.finding.detail, ran.steps[: ran.own], after=self.orders + 1)
        self.coverage.take(ran.told[: ran.own])
        self.count(len(ran.told), sum(t.outcome.kind is Kind.KILLED for t in ran.told))
        return self.enough

    def count(self, steps: int, kills: int) -> None:
        """Count one order."""
        self.orders += 1
        self.steps += steps
        self.kills += kills
        if self.on_order is not None:
            self.on_order(self)

    def found(
        self,
        property_id: str,
        detail: str,
        steps: tuple[Step, ...],
        scheduled: Scheduled | None = None,
        *,
        after: int = 0,
        cut: Cut | None = None,
        attempts: Plan | None = None,
    ) -> None:
        """Keep the first order that breaks a promise."""
        where = (self.engine, self.shard, after or self.orders)
        broken = Broken(property_id, detail, steps, *where, scheduled=scheduled, cut=cut, attempts=attempts)
        self.broken.setdefault(property_id, broken)

    @property
    def enough(self) -> bool:
        """Whether the shard should stop: a named promise is worth some patience where only `conforms` broke so far."""
        named = [b for b in self.broken.values() if b.property_id != CONFORMS.id]
        patient = all(self.orders - b.found_after < PATIENCE for b in self.broken.values())
        return self.stop_at_first and (bool(named) or not patient)


@frozen
class PropertyVerdict:
    """What became of one promise."""

    property_id: str
    status: Status
    broken: Broken | None = None
    trace: Trace | None = None

    @property
    def name(self) -> str:
        """The promise, as a sentence."""
        return PROPERTIES[self.property_id].name

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        out: dict[str, Any] = {"id": self.property_id, "name": self.name, "status": str(self.status)}
        if self.broken is not None:
            out |= {
                "detail": self.broken.detail,
                "engine": self.broken.engine,
                "shard": self.broken.shard,
                "found_after_orders": self.broken.found_after,
                "steps": self.broken.length,
            }
            if self.status is Status.UNKNOWN:
                out["happened_again"] = False
        if self.trace is not None:
            out["trace"] = self.trace.to_json()
        return out


def merged(tallies: list[Tally], capabilities: frozenset[Capability]) -> tuple[PropertyVerdict, ...]:
    """One verdict a property, from all shards; the shortest trace wins."""
    out = []
    failed = any(t.failed for t in tallies) or not any(t.orders for t in tallies)
    for prop in PROPERTIES.values():
        found = [t.broken[prop.id] for t in tallies if prop.id in t.broken]
        if not prop.needs <= capabilities:
            out.append(PropertyVerdict(prop.id, Status.UNSUPPORTED))
        elif found:
            out.append(PropertyVerdict(prop.id, Status.VIOLATED, min(found, key=lambda b: b.rank)))
        else:
            out.append(PropertyVerdict(prop.id, Status.UNKNOWN if failed else Status.SURVIVED))
    return tuple(out)


def unseen(tallies: list[Tally], capabilities: frozenset[Capability]) -> tuple[str, ...]:
    """The witnesses that a campaign should have seen and has not."""
    seen: Counter[str] = Counter()
    for tally in tallies:
        seen.update(tally.witnesses)
    return tuple(w.id for w in WITNESSES.values() if w.needs <= capabilities and not seen[w.id])


def overall(verdicts: tuple[PropertyVerdict, ...], missing: tuple[str, ...], *, failed: bool) -> Status:
    """The verdict of the whole campaign: a violation outweighs doubt, and doubt outweighs survival."""
    if any(v.status is Status.VIOLATED for v in verdicts):
        return Status.VIOLATED
    if failed:
        return Status.UNKNOWN
    return Status.VACUOUS if missing else Status.SURVIVED


def checked(ends: Mapping[Status, int]) -> str:
    """How many promises a verdict is about: ``6 of 20 promises (14 unsupported)``.

    They are those that broke, where some did; those that survived, where all did; and none where nobody knows.
    """
    total, unsupported = sum(ends.values()), ends.get(Status.UNSUPPORTED, 0)
    survived, violated = ends.get(Status.SURVIVED, 0), ends.get(Status.VIOLATED, 0)
    rest = f" ({unsupported} unsupported)" if unsupported else ""
    return f"{violated or survived} of {total} promises{rest}"
