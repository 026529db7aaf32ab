"""A run of attempts told like a story: when what was sent, what came from outside, and what changed."""

from __future__ import annotations

from stateful.attempts.judge import broken
from stateful.attempts.plan import Plan
from stateful.attempts.system import AttemptSystem
from stateful.story import Line, Story
from stateful.subject import Subject
from stateful.trace import Trace


def tell_attempts(subject: Subject, trace: Trace, plan: Plan) -> Story:
    """Run a plan and tell it. Raises UnsupportedByEngine for a subject that has no runner."""
    with AttemptSystem(subject, trace.contracts) as system:
        ran = system.replay(plan, keep_story=True)
        findings = list(broken(ran, system.setup))
    lines = tuple(
        Line(n, f"{moment.at_ms:>4} ms  {moment.what}", moment.answer, moment.changes, at_rest=False)
        for n, moment in enumerate(ran.story, start=1)
    )
    missed = plan.events[len(ran.plan.events) :]
    over = "never came: everything was over"
    lines += tuple(
        Line(len(lines) + n, f"{event.at_ms:>4} ms  {event.kind.upper()} {over}", "", (), at_rest=False)
        for n, event in enumerate(missed, start=1)
    )
    expected = next((f for f in findings if f.property_id == trace.expect), None)
    finding = expected or next(iter(findings), None)
    return Story(trace, lines, finding)
