"""A failure order told like a story: one line a step, only what changed, the promise as a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import evolve, field, frozen

from model.properties import PROPERTIES
from model.words import Capability, Slot, Stores
from stateful.judge import Finding, told
from stateful.order import Ran, Rig
from stateful.spoken import clean
from stateful.trace import SURVIVED, Trace


def _cleaned(said: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(clean, said))


@frozen
class Line:
    """One step: its number, what was done, what was answered, what changed."""

    number: int
    label: str
    answer: str = field(converter=clean)
    changes: tuple[str, ...] = field(converter=_cleaned)
    at_rest: bool
    """Whether it belongs to quiesce."""
    place: str = field(default="", converter=clean)
    """Where its process died, if that is known."""

    @property
    def done(self) -> str:
        """What was done, and where it was interrupted."""
        return f"{self.label} ({self.place})" if self.place else self.label


@frozen
class Story:
    """A replayed trace: its lines, and how it ended."""

    trace: Trace
    lines: tuple[Line, ...]
    finding: Finding | None
    seen: str = ""
    """What was seen before, if it did not happen again now."""
    doubtful: bool = False
    """Whether it is then unknown that it ever happened: no process really died for it."""

    @property
    def verdict(self) -> str:
        """The identifier of the broken property, or ``survived``."""
        return self.finding.property_id if self.finding else SURVIVED

    @property
    def as_expected(self) -> bool:
        """Whether it ended as the trace says that it does."""
        return self.verdict == self.trace.expect

    def text(self) -> str:
        """The story in plain text."""
        return "\n".join(self._text())

    def _text(self) -> Iterator[str]:
        broken = self.finding.property_id if self.finding else self.trace.expect if self.seen else ""
        head = PROPERTIES[broken].name if broken else "Every promise survived this order."
        verdict = "UNKNOWN" if self.doubtful else "VIOLATED" if broken else "SURVIVED"
        own = [line for line in self.lines if not line.at_rest]
        yield f"{verdict}  {head}"
        yield f"  {describe(self.trace)}; {counted(len(own), 'step')}"
        width = max((len(line.done) for line in self.lines), default=0)
        answers = max((len(line.answer) for line in self.lines), default=0)
        resting = False
        for line in self.lines:
            if line.at_rest and not resting:
                resting = True
                yield "   -- then everyone restarts and runs to rest --"
            left = f"  {line.number:>3}  {line.done:<{width}}  {line.answer:<{answers}}"
            yield f"{left}  {'; '.join(line.changes)}".rstrip()
        if self.finding:
            yield f"  => {self.finding.detail}"
        elif self.seen:
            yield f"  => {self.seen}"
            yield "  it did not happen again when the order was replayed" + (
                "" if self.doubtful else "; it was seen when a process really died"
            )


def counted(number: int, noun: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def describe(trace: Trace) -> str:
    """A trace's subject, mistake and weakened contracts in one line."""
    weak = ",".join(f"{name}={value}" for name, value in trace.contracts.weakened().items())
    mistake = f" with mistake {trace.mistake}" if trace.mistake else ""
    return f"{trace.subject}{mistake}, contracts {weak or 'default'}"


def tell(rig: Rig, trace: Trace) -> Story:
    """Replay a trace on a rig, and tell what happened. The stores stay as the order left them."""
    seen: list[Stores] = [rig.model.first().stores]
    rig.on_step = lambda: seen.append(rig.judge.stores)
    try:
        ran = rig.run(trace.steps, until=trace.expect)
    finally:
        rig.on_step = None
    capabilities = rig.subject.capabilities
    believed = Capability.LEDGER not in capabilities
    if believed and Capability.LEASES not in capabilities:
        seen = [evolve(s, slots=tuple(evolve(slot, lease=None) for slot in s.slots)) for s in seen]
    return Story(trace, tuple(_lines(ran, seen, believed=believed)), ran.finding)


def _lines(ran: Ran, seen: list[Stores], *, believed: bool) -> Iterator[Line]:
    for index, step in enumerate(ran.told):
        known = index + 1 < len(seen)
        changed = tuple(changes(seen[index], seen[index + 1], believed=believed)) if known else ()
        yield Line(index + 1, step.step.label, told(step.outcome), changed, index >= ran.own, step.place)


def changes(before: Stores, after: Stores, *, believed: bool = False) -> Iterator[str]:
    """What differs between two readings, in words.

    With ``believed`` the rows are the model's belief, and told as such; what the sink holds was read all the same.
    """
    if before.revision != after.revision:
        yield f"{'model: ' * believed}policy revision {after.revision}"
    for number, (was, now) in enumerate(zip(before.slots, after.slots, strict=True), start=1):
        rows, sink = list(_row_changes(was, now)), list(_sink_changes(was, now))
        if believed and rows:
            yield f"model: k{number} {', '.join(rows)}"
        said = sink if believed else rows + sink
        if said:
            yield f"k{number}: {', '.join(said)}"


def _row_changes(was: Slot, now: Slot) -> Iterator[str]:
    if was.intent != now.intent:
        yield from _intent_changes(was, now)
    if was.approval != now.approval:
        approval = now.approval
        yield (
            f"approval {approval.status} for {approval.digest} until {approval.expiry_ms}"
            if approval
            else "no approval"
        )
    if was.lease != now.lease:
        lease = now.lease
        yield f"lease {lease.token} of {lease.owner} until {lease.expiry_ms}" if lease else "no lease"
    if was.progress != now.progress:
        yield f"checkpoint receipt {now.progress.receipt or 'missing'}" if now.progress else "no checkpoint"


def _sink_changes(was: Slot, now: Slot) -> Iterator[str]:
    for effect in now.effects[len(was.effects) :]:
        yield f"EFFECT {effect.digest} at {effect.at_ms} under token {effect.token}"
    if len(now.effects) < len(was.effects):
        yield f"only {len(now.effects)} effects left"
    if was.fence != now.fence:
        yield f"sink refuses tokens below {now.fence}"
    if now.calls != was.calls and len(now.effects) == len(was.effects):
        yield f"request {now.calls} at the sink"


def _intent_changes(was: Slot, now: Slot) -> Iterator[str]:
    old, new = was.intent, now.intent
    if new is None:
        yield "intent LOST"
    elif old is None:
        yield f"intent {new.state} for {new.digest}, deadline {new.deadline_ms}"
    else:
        if new.state != old.state:
            yield f"{old.state} -> {new.state}"
        if new.digest != old.digest:
            yield f"payload {old.digest} -> {new.digest}"
        if new.attempts != old.attempts:
            yield f"attempt {new.attempts}"
        if new.cancel_requested and not old.cancel_requested:
            yield "cancellation noted"
        if new.in_doubt and not old.in_doubt:
            yield "in doubt"
        if new.deadline_ms != old.deadline_ms:
            yield f"deadline {old.deadline_ms} -> {new.deadline_ms}"
