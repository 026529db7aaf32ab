"""The transition function under the default contracts, and the ticks around each expiry."""

from __future__ import annotations

import random

import pytest
from attrs import evolve

from model import Action, Kind, Limits, Verb
from model.step import dead, with_slot
from model.words import Capability, Effect, Grant, State, fresh_world

READY = ("submit k1 p1", "approve k1 p1", "claim w1 k1")
WEIGHTS = {
    Verb.CLAIM: 8.0,
    Verb.DISPATCH: 8.0,
    Verb.ACKNOWLEDGE: 8.0,
    Verb.WAKE: 6.0,
    Verb.APPROVE: 5.0,
    Verb.CHECKPOINT: 4.0,
    Verb.RECONCILE: 4.0,
    Verb.STALL: 3.0,
    Verb.ADVANCE: 3.0,
    Verb.KILL: 0.5,
    Verb.CANCEL: 0.4,
    Verb.REVOKE: 0.3,
    Verb.DENY: 0.3,
    Verb.BUMP_POLICY: 0.2,
}
"""How often a verb is drawn; what is not named has weight 1. Without weights most walks never send."""


def _drawn(random_: random.Random, run) -> Action:
    verbs = list(Verb)
    weights = [WEIGHTS.get(verb, 1.0) for verb in verbs]
    while True:
        actions = run.model.enabled(run.world, random_.choices(verbs, weights)[0])
        if actions:
            return random_.choice(actions)


def _walk(run, seed: int, steps: int = 60):
    random_ = random.Random(seed)  # noqa: S311  # a walk is to be repeated, not to be secret
    run.do("submit k1 p1", "approve k1 p1")
    for _ in range(steps):
        action = _drawn(random_, run)
        crashes = action.worker >= 0 and action.verb is not Verb.RESTART and random_.random() < 0.05
        if crashes:
            stage = random_.choice([run.world, *run.model.take(run.world, action).stages])
            run.jump(action, dead(stage, action.worker), Kind.KILLED)
        else:
            run.act(action)
    return run


@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("shard", range(4))
def test_the_defaults_break_nothing(play, shard: int, keys: int) -> None:
    """Under the default contracts no property breaks in 60 walks of 60 steps with crashes inside operations."""
    broken: dict[int, list[str]] = {}
    for seed in range(shard * 60, shard * 60 + 60):
        run = _walk(play(keys=keys), seed)
        if run.broken():
            broken[seed] = run.broken()

    assert {} == broken


def test_a_limit_breaks_nothing(play) -> None:
    """With one permit for two keys no property breaks either, and some walk is refused for want of it."""
    runs = [_walk(play(limits=Limits(permits=1)), seed) for seed in range(40)]
    broken = {seed: run.broken() for seed, run in enumerate(runs) if run.broken()}

    assert {} == broken
    assert "permit-refusal" in set().union(*(run.witnessed() for run in runs))


def test_the_walks_see_every_witness(play) -> None:
    """The walks are not vacuous: within 200 of them every witness is seen that does not take a limit."""
    from model import WITNESSES

    seen: set[str] = set()
    for seed in range(200):
        seen |= _walk(play(keys=1), seed).witnessed()

    assert set(WITNESSES) - {"permit-refusal"} == seen


def test_a_walk_is_deterministic(play) -> None:
    """The same seed walks the same steps to the same world."""
    one, other = _walk(play(), 7), _walk(play(), 7)

    assert one.labels == other.labels
    assert one.world == other.world


def test_a_step_is_a_pure_function(play) -> None:
    """A step gives the same answer twice, and leaves the world that it was given as it was."""
    run = play()
    run.do(*READY)
    world, kept = run.world, hash(run.world)
    for action in run.enabled():
        assert run.model.step(world, action) == run.model.step(world, action)
    assert kept == hash(world)


def test_the_straight_way(play) -> None:
    """Submitted, approved, claimed, dispatched, acknowledged, checkpointed: one effect, completed, no lease left."""
    run = play()
    run.do(*READY, "dispatch w1 k1 done", "acknowledge w1 k1", "checkpoint w1 k1")

    slot = run.stores.slots[0]

    assert (State.COMPLETED, 1, 1, None) == (slot.intent.state, slot.intent.receipt, len(slot.effects), slot.lease)
    assert 1 == slot.progress.receipt
    assert Grant.SPENT is slot.approval.status


def test_a_silent_sink_is_unknown(play) -> None:
    """A sink that acts and stays silent leaves the outcome unknown, and the next owner learns the first receipt."""
    run = play()
    assert Kind.UNKNOWN is run.do(*READY, "dispatch w1 k1 silent").kind
    run.do("acknowledge w1 k1")
    assert State.UNKNOWN is run.stores.slots[0].intent.state

    outcome = run.do("advance k1 lease", "claim w2 k1", "reconcile w2 k1")

    assert (Kind.REPLAYED, 1) == (outcome.kind, outcome.value)
    assert State.COMPLETED is run.stores.slots[0].intent.state


def test_a_lost_request_is_unknown(play) -> None:
    """A request that never arrived looks like a silent sink; reconciling gives the attempt and the approval back."""
    run = play()
    assert Kind.UNKNOWN is run.do(*READY, "dispatch w1 k1 lost").kind

    run.do("acknowledge w1 k1", "reconcile w1 k1")

    slot = run.stores.slots[0]
    assert (State.PENDING, 1, Grant.GRANTED) == (slot.intent.state, slot.intent.attempts, slot.approval.status)


def test_a_changed_payload_is_refused(play) -> None:
    """A changed payload under a key is refused, cold and after completion, and the first is replayed."""
    run = play()
    run.do("submit k1 p1")
    assert Kind.REFUSED is run.do("submit k1 p2").kind
    run.do("approve k1 p1", "claim w1 k1", "dispatch w1 k1 done", "acknowledge w1 k1")

    assert Kind.REFUSED is run.do("submit k1 p2").kind
    assert Kind.REPLAYED is run.do("submit k1 p1").kind


def test_a_key_that_the_sink_holds_for_another_payload_is_lost(play) -> None:
    """After a power cut a key may come back with another payload: the sink says so, and no attempt is left."""
    run = play()
    run.do(*READY)
    slot = evolve(run.stores.slots[0], effects=(Effect("p2", token=1, at_ms=0),))
    run.world = with_slot(run.world, 0, slot)

    outcome = run.do("dispatch w1 k1 done")
    run.do("acknowledge w1 k1")

    intent = run.stores.slots[0].intent
    assert (Kind.ERROR, "conflict", State.FAILED, 1) == (outcome.kind, outcome.reason, intent.state, intent.attempts)


def test_the_first_world_is_empty() -> None:
    """Two workers and two keys unless told otherwise, and nothing known of any."""
    world = fresh_world()

    assert (2, 2) == (len(world.workers), len(world.stores.slots))
    assert {(0, 0)} == {worker.tokens for worker in world.workers}


@pytest.mark.parametrize("how", ["signature", "approver"])
def test_a_forged_grant_opens_nothing(play, how: str) -> None:
    """A grant that the approver did not give is refused, and the gate stays shut."""
    run = play()
    run.do("submit k1 p1", "claim w1 k1")

    assert Kind.REFUSED is run.do(f"forge k1 {how}").kind
    assert Kind.REFUSED is run.do("dispatch w1 k1 done").kind


def test_a_denial_is_final(play) -> None:
    """After a denial there is no lease to be had and no grant to be given."""
    run = play()
    run.do("submit k1 p1", "deny k1")

    assert Kind.REFUSED is run.do("claim w1 k1").kind
    assert Kind.REFUSED is run.do("approve k1 p1").kind
    assert State.DENIED is run.stores.slots[0].intent.state


def test_a_newer_policy_closes_the_gate(play) -> None:
    """A grant under an older policy revision opens nothing; a new grant under the new one does."""
    run = play()
    run.do(*READY, "bump_policy")
    assert Kind.REFUSED is run.do("dispatch w1 k1 done").kind

    assert Kind.OK is run.do("approve k1 p1", "dispatch w1 k1 done").kind


def test_attempts_run_out(play) -> None:
    """After the last permitted attempt the intent has failed and nothing can be sent."""
    run = play()
    run.do(*READY)
    for _ in range(run.model.limits.max_attempts):
        run.do("dispatch w1 k1 transient", "acknowledge w1 k1")

    assert State.FAILED is run.stores.slots[0].intent.state
    assert run.model.limits.max_attempts == run.stores.slots[0].calls


def test_a_permanent_error_ends_it(play) -> None:
    """A permanent error is not retried."""
    run = play()
    run.do(*READY, "dispatch w1 k1 permanent", "acknowledge w1 k1")

    assert State.FAILED is run.stores.slots[0].intent.state


def test_a_cancellation_before_the_send_wins(play) -> None:
    """A cancellation of a waiting intent ends it, with clean-up done and the lease given back."""
    run = play()
    assert Kind.OK is run.do(*READY, "cancel k1").kind

    slot = run.stores.slots[0]
    assert (State.CANCELLED, True, None) == (slot.intent.state, slot.intent.cleaned, slot.lease)
    assert Kind.REFUSED is run.do("dispatch w1 k1 done").kind


def test_a_cancellation_after_the_send_is_unknown(play) -> None:
    """A cancellation that comes while an effect is in flight is noted and promises nothing."""
    run = play()
    run.do(*READY, "stall w1 k1")

    assert Kind.UNKNOWN is run.do("cancel k1").kind
    run.do("wake w1 done", "acknowledge w1 k1")
    assert State.COMPLETED is run.stores.slots[0].intent.state


def test_a_wall_clock_moves_nothing(play) -> None:
    """A wall clock that jumps leaves leases and deadlines alone."""
    run = play()
    run.do(*READY, "jump_wall w2 ahead")

    assert Kind.REFUSED is run.do("claim w2 k1").kind
    assert Kind.OK is run.do("dispatch w1 k1 done").kind


def test_other_settings_shorten_the_lease(play) -> None:
    """A worker that was restarted with other settings takes leases of the other length."""
    run = play()
    run.do("submit k1 p1", "kill w1", "restart w1 other-settings", "claim w1 k1")

    assert run.model.limits.other_lease_ms == run.stores.slots[0].lease.expiry_ms


def test_the_reaper_spares_what_has_moved_on(play) -> None:
    """A lease that was renewed or taken over between reading and clearing is left alone."""
    run = play()
    run.do("submit k1 p1", "claim w1 k1", "advance k1 lease")
    assert 1 == run.do("reap_read w1").value

    assert 0 == run.do("claim w2 k1", "reap_apply w1").value
    assert 2 == run.stores.slots[0].lease.token


@pytest.mark.parametrize(("to", "kind"), [("lease-1", Kind.REFUSED), ("lease", Kind.OK), ("lease+1", Kind.OK)])
def test_a_lease_can_be_taken_over_at_its_expiry(play, to: str, kind: Kind) -> None:
    """Another worker gets the lease at the tick of its expiry and not one tick before."""
    run = play()

    assert kind is run.do(*READY, f"advance k1 {to}", "claim w2 k1").kind


@pytest.mark.parametrize("act", ["dispatch w1 k1 done", "stall w1 k1", "renew w1 k1", "release w1 k1"])
@pytest.mark.parametrize(("to", "kind"), [("lease-1", Kind.OK), ("lease", Kind.REFUSED), ("lease+1", Kind.REFUSED)])
def test_a_lease_ends_at_its_expiry(play, to: str, kind: Kind, act: str) -> None:
    """The owner may act until one tick before the expiry."""
    run = play()

    assert kind is run.do(*READY, f"advance k1 {to}", act).kind


@pytest.mark.parametrize(
    ("to", "kind"), [("approval-1", Kind.OK), ("approval", Kind.REFUSED), ("approval+1", Kind.REFUSED)]
)
def test_an_approval_ends_at_its_expiry(play, to: str, kind: Kind) -> None:
    """An approval opens the gate until one tick before its expiry."""
    run = play()

    outcome = run.do("submit k1 p1", "approve k1 p1", f"advance k1 {to}", "claim w1 k1", "dispatch w1 k1 done")

    assert kind is outcome.kind


@pytest.mark.parametrize(
    ("to", "kind"), [("deadline-1", Kind.OK), ("deadline", Kind.REFUSED), ("deadline+1", Kind.REFUSED)]
)
def test_the_deadline_ends_everything(play, to: str, kind: Kind) -> None:
    """A send may start until one tick before the deadline."""
    run = play()

    outcome = run.do("submit k1 p1", f"advance k1 {to}", "approve k1 p1", "claim w1 k1", "dispatch w1 k1 done")

    assert kind is outcome.kind


@pytest.mark.parametrize(
    ("to", "kind", "effects"),
    [("deadline-1", Kind.OK, 1), ("deadline", Kind.ERROR, 0), ("deadline+1", Kind.ERROR, 0)],
)
def test_a_send_that_froze_meets_the_deadline_at_the_sink(play, to: str, kind: Kind, effects: int) -> None:
    """A send that was authorised in time and woke too late is turned away by the sink."""
    run = play()
    run.do("submit k1 p1", "advance k1 deadline-1", "approve k1 p1", "claim w1 k1", "stall w1 k1")
    if to != "deadline-1":
        run.do(f"advance k1 {to}")

    assert kind is run.do("wake w1 done").kind
    assert effects == len(run.stores.slots[0].effects)


def test_the_capabilities_are_all_used() -> None:
    """Every capability is needed by a verb or by a property; one that is needed by nothing says nothing."""
    from model import ALPHABET, PROPERTIES, WITNESSES

    used = {form.needs for form in ALPHABET.values()}
    for prop in (*PROPERTIES.values(), *WITNESSES.values()):
        used |= prop.needs

    assert set(Capability) == used - {None}
