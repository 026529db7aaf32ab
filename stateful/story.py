"""A failure order told like a story: one line a step, only what changed, the promise as a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve, field, frozen

from model.properties import PROPERTIES
from model.words import Capability, Slot, Stores
from stateful.judge import Finding, told
from stateful.order import Ran, Rig
from stateful.power.cut import Cut
from stateful.schedules.program import Scheduled
from stateful.spoken import clean
from stateful.trace import SURVIVED, Trace

LOST_SHOWN = 4
"""So many lost writes are told."""


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
    in_lanes: bool = False
    """Whether processes ran side by side then."""
    lane: int = -1
    """Whose it is where processes run side by side."""

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
    """Whether it is then unknown that it ever happened: no process really died for it, nor did storage fail."""
    when: str = "a process really died"
    """When it was seen, if it did not happen again and is not doubtful."""

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
        length = len(own) if self.trace.attempts is None else self.trace.attempts.length
        yield f"  {describe(self.trace)}; {counted(length, 'step')}"
        steps = [line for line in self.lines if not line.in_lanes]
        yield from _steps([line for line in own if not line.in_lanes], steps)
        yield from _side_by_side([line for line in own if line.in_lanes])
        if len(own) < len(self.lines):
            yield "   -- then everyone restarts and runs to rest --"
            yield from _steps(self.lines[len(own) :], steps)
        if self.finding:
            yield f"  => {self.finding.detail}"
        elif self.seen:
            yield f"  => {self.seen}"
            yield "  it did not happen again when the order was replayed" + (
                "" if self.doubtful else f"; it was seen when {self.when}"
            )


def _steps(lines: Sequence[Line], every: Sequence[Line]) -> Iterator[str]:
    """Lines whose columns are as wide as all of them need."""
    width = max((len(line.done) for line in every), default=0)
    answers = max((len(line.answer) for line in every), default=0)
    for line in lines:
        left = f"  {line.number:>3}  {line.done:<{width}}  {line.answer:<{answers}}"
        yield f"{left}  {'; '.join(line.changes)}".rstrip()


def _side_by_side(lines: Sequence[Line]) -> Iterator[str]:
    """A column for each lane; what concerns them all stands in the first."""
    if not lines:
        return
    lanes = 1 + max(line.lane for line in lines)
    widths = [max((len(x.done) for x in lines if max(x.lane, 0) == n), default=2) for n in range(lanes)]
    yield "   -- then side by side --"
    yield "       " + "  ".join(f"{f'w{n + 1}':<{width}}" for n, width in enumerate(widths)).rstrip()
    for line in lines:
        cells = [f"{line.done if max(line.lane, 0) == n else '':<{width}}" for n, width in enumerate(widths)]
        yield f"  {line.number:>3}  {'  '.join(cells)}  {'; '.join(line.changes)}".rstrip()


def counted(number: int, noun: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def describe(trace: Trace) -> str:
    """A trace's subject, mistake and weakened contracts in one line."""
    weak = ",".join(f"{name}={value}" for name, value in trace.contracts.weakened().items())
    mistake = f" with mistake {trace.mistake}" if trace.mistake else ""
    permits = f", {counted(trace.permits, 'permit')}" if trace.permits is not None else ""
    return f"{trace.subject}{mistake}, contracts {weak or 'default'}{permits}"


def tell(rig: Rig, trace: Trace) -> Story:
    """Replay a trace on a rig, and tell what happened. The stores stay as the order left them.

    A trace with lanes needs a ``ScheduledRig``.
    """
    seen: list[Stores] = [rig.model.first().stores]
    rig.on_step = lambda: seen.append(rig.judge.stores)
    try:
        if trace.scheduled is not None:
            return _tell_lanes(rig, trace, trace.scheduled, seen)
        if trace.cut is not None:
            return _tell_cut(rig, trace, trace.cut, seen)
        ran = rig.run(trace.steps, until=trace.expect)
    finally:
        rig.on_step = None
    return Story(trace, tuple(_lines(ran, _as_known(rig, seen), believed=_believes(rig))), ran.finding)


def _believes(rig: Rig) -> bool:
    return Capability.LEDGER not in rig.subject.capabilities


def _as_known(rig: Rig, seen: list[Stores]) -> list[Stores]:
    """What was seen, without the model's leases where the subject has none."""
    if not _believes(rig) or Capability.LEASES in rig.subject.capabilities:
        return seen
    return [evolve(s, slots=tuple(evolve(slot, lease=None) for slot in s.slots)) for s in seen]


def _tell_lanes(rig: Rig, trace: Trace, scheduled: Scheduled, seen: list[Stores]) -> Story:
    from stateful.schedules.play import play
    from stateful.schedules.rig import ScheduledRig
    from stateful.schedules.system import ProgramSystem
    from stateful.schedules.telling import spoken

    assert isinstance(rig, ScheduledRig)
    system = ProgramSystem(rig, scheduled.program(trace.steps), keep_story=True)
    finding = system.prepare()
    led_up = list(rig.told)
    if finding is None:
        finding = play(system, scheduled.turns)
    believed = _believes(rig)
    lines = list(_lines(Ran(tuple(led_up), finding, len(led_up)), _as_known(rig, seen), believed=believed))
    for said in spoken(system.story):
        changed = tuple(changes(said.before, said.after, believed=believed))
        lines.append(Line(len(lines) + 1, said.text, "", changed, at_rest=False, in_lanes=True, lane=said.lane))
    rested = rig.told[len(led_up) :]
    known = [system.stores, *seen[len(led_up) + 1 :]]
    for number, step in enumerate(rested):
        is_known = number + 1 < len(known)
        changed = tuple(changes(known[number], known[number + 1], believed=believed)) if is_known else ()
        lines.append(Line(len(lines) + 1, step.step.label, told(step.outcome), changed, at_rest=True))
    return Story(trace, tuple(lines), finding)


def _tell_cut(rig: Rig, trace: Trace, cut: Cut, seen: list[Stores]) -> Story:
    from stateful.power.cutter import Cutter
    from stateful.power.recorded import record
    from stateful.storage.rig import RecordingRig

    assert isinstance(rig, RecordingRig)
    recorded = record(rig, trace.steps)
    ran = Ran(tuple(rig.told), None, len(rig.told))
    believed = _believes(rig)
    if isinstance(recorded, Finding):
        return Story(trace, tuple(_lines(ran, seen, believed=believed)), recorded)
    with Cutter(rig) as cutter:
        done = cutter.at(recorded, cut)
    led_up = seen[: done.mark + 1]
    lines = list(_lines(Ran(recorded.told[: done.mark], None, done.mark), led_up, believed=believed))
    under_way = recorded.under_way(done.mark)
    during = f" in {under_way.label}" if under_way is not None else ""
    where = f"POWER CUT{during}" + (f", after: {done.after}" if done.after else "")
    found = tuple(changes(led_up[-1], done.read, believed=believed)) if done.read is not None else ()
    lost = _shortly(done.lost)
    lines.append(Line(len(lines) + 1, where, lost, found, at_rest=False))
    known = [done.read or led_up[-1], *done.seen]
    for number, step in enumerate(done.told):
        changed = (
            tuple(changes(known[number], known[number + 1], believed=believed)) if number + 1 < len(known) else ()
        )
        lines.append(Line(len(lines) + 1, step.step.label, told(step.outcome), changed, at_rest=True))
    return Story(trace, tuple(lines), done.finding)


def _shortly(lost: Sequence[str]) -> str:
    """What was lost, the first few of it."""
    more = f" and {len(lost) - LOST_SHOWN:,} more" if len(lost) > LOST_SHOWN else ""
    return ("; ".join(lost[:LOST_SHOWN]) + more) or "nothing lost"


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
    if was.permit != now.permit:
        yield "permit taken" if now.permit else "permit back"
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
