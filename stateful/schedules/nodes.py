"""The judge of nodes: what one transition changed, as others can see it from then on, held against the properties.

A call that runs beside others changes the stores in more than one transition, and the clock moves under it. What is
asked of a transition is therefore less than of a whole operation: nothing of an answer that has not been given, nothing
of the rest of a change that began earlier; the history is for that.
"""

from __future__ import annotations

from model.actions import Verb
from model.properties import Moment, breaks, broken, witnessed
from model.words import Outcome, Slot, Stores
from stateful.because import because
from stateful.judge import Finding, told
from stateful.order import Rig
from stateful.schedules.calls import NEUTRAL, CallUnderWay

ONE_EFFECT = "one-effect"


class NodeJudge:
    """Judges transitions on one rig, and counts what they witness."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def judge(self, call: CallUnderWay, outcome: Outcome, before: Stores, after: Stores) -> Finding | None:
        """What a transition of a call broke. ``outcome`` is KILLED where the call has not answered.

        It acted at one of the times that it read: only what holds at none of them is broken.
        """
        rig = self._rig
        action, key, token = call.action, call.action.key, call.token
        changes = changed(call, before, after)
        if call.changed and (changes & call.changed or not (changes or call.authorised)):
            # One write of several, or the end after the last: only what is stored is in question.
            action, key, token = NEUTRAL, -1, 0
        elif call.authorised:
            action = rig.model.alphabet.by_label[f"wake w{action.worker + 1} {action.choice}"]
        property_id = ""
        for now_ms in sorted(call.times) or (rig.bench.time.now_ms,):
            moment = Moment(before, after, now_ms, action, outcome, key, token, rig.model.limits)
            property_id = self._broken(moment)
            if not property_id:
                break
        for id_ in witnessed(moment):
            rig.judge.witnesses[id_] += 1
        if not property_id:
            return None
        why = because(property_id, moment) or f"the subject answered {told(outcome)}"
        return Finding(property_id, f"{call.action.label}: {why}")

    def _broken(self, moment: Moment) -> str:
        """The identifier of the first property that is broken; empty if none is."""
        if not self._rig.subject.has_ledger:  # of its rows nothing is known until it is at rest
            return ONE_EFFECT if breaks(moment, ONE_EFFECT) else ""
        prop = broken(moment, self._rig.subject.capabilities)
        return prop.id if prop is not None else ""


def note(call: CallUnderWay, before: Stores, after: Stores) -> None:
    """Keep what a transition of a call has changed, and whether it authorised a send."""
    call.changed |= changed(call, before, after)
    if call.action.verb is Verb.DISPATCH:
        was, now = before.slots[call.action.key].intent, after.slots[call.action.key].intent
        call.authorised |= was is not None and now is not None and now.attempts > was.attempts


def changed(call: CallUnderWay, before: Stores, after: Stores) -> set[str]:
    """Which parts of its key's stores a transition of a call has changed."""
    key = call.action.key
    if key < 0 or after is before:
        return set()
    was, now = before.slots[key], after.slots[key]
    parts = {
        "ledger": _ledger(was) != _ledger(now),
        "sink": (was.effects, was.fence, was.calls) != (now.effects, now.fence, now.calls),
        "checkpoint": was.progress != now.progress,
    }
    return {name for name, differs in parts.items() if differs}


def _ledger(slot: Slot) -> tuple[object, ...]:
    return slot.intent, slot.approval, slot.lease, slot.token_high, slot.permit
