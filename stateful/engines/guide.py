"""What a well-behaved worker would do next: a pull towards the depths that blind choice seldom reaches.

A choice among all enabled actions spends most steps on refusals. One step in a few follows this guide instead, for a
random worker and key, so that orders get as far as effects, takeovers and replays before something goes wrong.
"""

from __future__ import annotations

from model.words import IN_FLIGHT, TERMINAL, Grant, Intent, Slot, State, World


def next_label(world: World, worker: int, key: int, reply: str, *, takes_over: bool) -> str | None:
    """The label of the next step of ``key``'s way to its end, done by ``worker``; None where it has come to an end.

    ``reply`` is what the sink does if the step is a send. Where another worker has the lease, that one goes on, or
    with ``takes_over`` the lease runs out.
    """
    slot, name, who = world.stores.slots[key], f"k{key + 1}", f"w{worker + 1}"
    intent, mind = slot.intent, world.workers[worker]
    if not mind.alive:
        return f"restart {who} same-name"
    if mind.stalled >= 0:
        frozen = world.stores.slots[mind.stalled]
        overtaken = frozen.lease is None or frozen.lease.token != mind.tokens[mind.stalled]
        if overtaken or not takes_over:
            return f"wake {who} {reply}"
        name = f"k{mind.stalled + 1}"
        others = [n for n, w in enumerate(world.workers) if n != worker and w.alive and w.stalled < 0]
        held = frozen.lease is not None and world.now_ms < frozen.lease.expiry_ms
        return f"advance {name} lease" if held or not others else f"claim w{others[0] + 1} {name}"
    if intent is None:
        return f"submit {name} p1"
    if intent.state in TERMINAL:
        done = mind.receipts[key] and mind.tokens[key] and slot.progress is None
        return f"checkpoint {who} {name}" if done else None
    if mind.results[key] is not None and mind.tokens[key] == slot.token_high:
        return f"acknowledge {who} {name}"
    if slot.lease is None or world.now_ms >= slot.lease.expiry_ms:
        return f"claim {who} {name}"
    if slot.lease.token != mind.tokens[key]:
        owner = next((n for n, w in enumerate(world.workers) if w.tokens[key] == slot.lease.token), None)
        if owner is None or takes_over:
            return f"advance {name} lease"
        return next_label(world, owner, key, reply, takes_over=True)
    return _with_lease(world, slot, intent, f"{who} {name}", reply)


def _with_lease(world: World, slot: Slot, intent: Intent, which: str, reply: str) -> str:
    if intent.state is State.UNKNOWN and intent.attempts % 2:
        return f"reconcile {which}"
    approval = slot.approval
    usable = (
        approval is not None
        and approval.digest == intent.digest
        and (approval.status is Grant.GRANTED or (approval.status is Grant.SPENT and intent.state in IN_FLIGHT))
        and world.now_ms < approval.expiry_ms
        and approval.revision == world.stores.revision
    )
    if not usable and intent.state is State.PENDING:
        return f"approve {which.split()[1]} {intent.digest}"
    return f"dispatch {which} {reply}" if usable else f"reconcile {which}"
