"""What an exploration found, line by line."""

from __future__ import annotations

from model.properties import PROPERTIES
from model.search import Verdict
from stateful.explore import Explored
from stateful.story import counted


def lines(explored: Explored) -> list[str]:
    """What was found, for a terminal."""
    result, bounds = explored.result, explored.bounds
    weak = ",".join(f"{n}={c}" for n, c in explored.contracts.weakened().items())
    changes = "payload changes" if bounds.payload_changes else "no payload change"
    bound = (
        f"{counted(bounds.workers, 'worker')}, {counted(bounds.keys, 'key')}, {counted(bounds.kills, 'kill')}, "
        f"{counted(bounds.grants, 'grant')} a key, {changes}, "
        f"{counted(bounds.policy_bumps, 'policy change')}, approvals that expire, wall clocks that jump; lease "
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
            if explored.unseen and result.witnesses:
                out.append(f"  VACUOUS in part: no order within that bound shows {', '.join(explored.unseen)}")
        case Verdict.BOUNDED:
            left = f", {result.frontier:,} states not yet looked into" if result.frontier else ""
            out.append(f"BOUNDED by {result.cut}, no violation so far: {size}{left}")
        case _:
            out.append(f"VIOLATED in {len(result.trace)} steps: {PROPERTIES[result.property_id].name}")
            out += [f"  {number:>3}  {label}" for number, label in enumerate(result.trace, start=1)]
            out += [f"  and again, for ever: {label}" for label in result.loop]
            if explored.on_sqlite:
                out.append(f"  on SQLite the same order breaks: {explored.on_sqlite}")
            out.append(f"  a shortest one, found within {size}")
    if result.witnesses:
        seen = ", ".join(f"{name} ({len(labels)})" for name, labels in sorted(result.witnesses.items()))
        out.append(f"  seen, in how many steps: {seen}")
    return out + _executed_lines(explored)


def _executed_lines(explored: Explored) -> list[str]:
    done = explored.conformance
    if done is None:
        return []
    rate = done.executed / max(0.001, explored.execution_seconds)
    each = done.executed / max(1, done.covered)
    share = f"{done.covered:,} of {done.edges:,} transitions" + (f", cut by {done.cut}" if done.cut else "")
    out = [f"on SQLite: {share}, {each:.2f} steps each, {rate:,.0f}/s, {len(done.disagreements)} disagreements"]
    out += [
        f"  DISAGREE after {'; '.join(one.labels) or 'nothing'}: {one.step.label}: {one.detail}"
        for one in done.disagreements
    ]
    return out
