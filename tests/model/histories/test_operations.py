"""The dispatcher's operations stage by stage: alone they do what the model's step does, together they may do more."""

from __future__ import annotations

from collections import Counter

import pytest
from attrs import evolve

from model.contracts import CHOICES, Contracts, Idempotency
from model.histories import DispatcherHistory, Done, Operation, Verdict, explain, merged, said
from model.histories.memos import Asking, Claiming, Found
from model.step import Model
from model.words import Grant, Kind, Outcome, Reply, State
from tests.model.histories.generated import PRELUDES, WEIGHTS, chance_of

READY = ("submit k1 p1", "approve k1 p1", "claim w1 k1")
UNKNOWN = (*READY, "dispatch w1 k1 silent", "acknowledge w1 k1")
TAKEN_OVER = (*UNKNOWN, "advance k1 lease", "claim w2 k1")
EVERY_CONTRACT = [Contracts()] + [
    evolve(Contracts(), **{name: choice}) for name, choices in CHOICES.items() for choice in choices[1:]
]
UNANSWERED = Outcome(Kind.UNKNOWN)


def _only(specification: DispatcherHistory, world, label: str, memo=None):
    """The one thing that the next stage of an operation may do."""
    operation = Operation(specification.model.alphabet.by_label[label], 0)
    ((world, memo),) = specification.stages(world, operation, memo)
    return world, memo


def _alone(specification: DispatcherHistory, world, label: str):
    """An operation from its first stage to its last: how many there were, the world, and the answer."""
    memo, stages = None, 0
    while not isinstance(memo, Done):
        world, memo = _only(specification, world, label, memo)
        stages += 1
    return stages, world, memo.outcome


@pytest.mark.parametrize("contracts", EVERY_CONTRACT, ids=lambda c: " ".join(c.weakened().values()) or "default")
def test_alone_an_operation_does_what_the_model_does(contracts) -> None:
    """When nobody interferes, all stages of any operation in any world add up to the model's step."""
    model = Model(contracts)
    for seed, prelude in enumerate(PRELUDES):
        chance, world = chance_of(seed), model.first()
        for label in prelude:
            world, _outcome = model.step(world, model.alphabet.by_label[label])
        specification = DispatcherHistory(model, world)
        for _ in range(25):
            actions = model.alphabet.all_enabled(world, contracts)
            for action in actions:
                assert model.step(world, action) == _alone(specification, world, action.label)[1:], action.label
            world, _outcome = model.step(world, chance.choices(actions, [WEIGHTS.get(a.verb, 1) for a in actions])[0])


@pytest.mark.parametrize(
    ("before", "label", "stages"),
    [
        ((), "submit k1 p1", 1),
        ((), "claim w1 k1", 1),
        (READY[:2], "claim w1 k1", 1),
        ((*UNKNOWN, "advance k1 lease"), "claim w2 k1", 3),
        (READY[:1], "approve k1 p1", 2),
        (READY, "approve k1 again", 2),
        (READY, "deny k1", 2),
        (READY, "forge k1 signature", 1),
        (READY, "dispatch w1 k1 done", 2),
        (("submit k1 p1", "claim w1 k1"), "dispatch w1 k1 done", 1),
        (READY, "reconcile w1 k1", 1),
        (UNKNOWN, "reconcile w1 k1", 3),
        ((*READY, "stall w1 k1"), "wake w1 done", 1),
    ],
)
def test_an_operation_has_its_stages(history_of, before, label, stages) -> None:
    """An operation has as many stages as it takes transactions, of the ledger and of the sink."""
    specification = history_of(*before)

    assert stages == _alone(specification, specification.first_world, label)[0]


# -- a dispatch between its stages --------------------------------------------------------------------------------


def _dispatch_and(history_of, calls_of, *rows, accepts=None) -> Verdict:
    specification = history_of(*READY)
    calls = calls_of(specification, [(0, "dispatch w1 k1 done", 1, 9, "ok 1"), *rows])
    return explain(specification, calls, accepts=accepts).verdict


def test_a_cancel_while_sending_comes_too_late(history_of, calls_of) -> None:
    """A cancel between the two stages of a dispatch is answered UNKNOWN; OK is explained by no order."""
    verdicts = [
        _dispatch_and(history_of, calls_of, (2, "cancel k1", 3, 4, answer)) for answer in ("unknown", "ok", "refused")
    ]

    assert [Verdict.EXPLAINED, Verdict.UNEXPLAINED, Verdict.UNEXPLAINED] == verdicts


def test_a_cancel_before_the_dispatch_is_final(history_of, calls_of) -> None:
    """A dispatch that began after a cancel was answered OK sends nothing."""
    specification = history_of(*READY)
    rows = [(2, "cancel k1", 1, 2, "ok"), (0, "dispatch w1 k1 done", 3, 4, "ok 1")]

    explanation = explain(specification, calls_of(specification, rows))

    assert ["cancel k1 -> ok"] == [said(call) for call in explanation.prefix]
    assert "dispatch w1 k1 done -> ok 1" == said(explanation.stuck)


def test_a_sender_that_was_overtaken_is_stale(history_of, calls_of, environment) -> None:
    """A sender whose key was granted to another between its stages is answered *stale*, and only there."""
    specification = history_of(*READY)
    rows = [
        (0, "dispatch w1 k1 done", 1, 9, "error"),
        (environment, "advance k1 lease", 2, 3, "ok"),
        (1, "claim w2 k1", 4, 5, "ok 2"),
    ]
    calls = calls_of(specification, rows)
    alone = [evolve(calls[0], begin=10, end=11), *calls[1:]]

    assert Verdict.EXPLAINED == explain(specification, calls).verdict
    assert Verdict.UNEXPLAINED == explain(specification, alone).verdict


def test_an_effect_has_the_time_of_the_sink(history_of, calls_of, environment) -> None:
    """Time that passes between the stages of a dispatch is the time of the effect, or passes before or after both."""
    specification = history_of(*READY)
    rows = [(0, "dispatch w1 k1 done", 1, 9, "ok 1"), (environment, "advance tick", 2, 3, "ok")]

    explanation = explain(specification, calls_of(specification, rows))

    assert {0, 1} == {world.stores.slots[0].effects[0].at_ms for world in merged(explanation)}


# -- claims -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [READY[:2], (*UNKNOWN, "advance k1 lease")], ids=["cold", "in flight"])
def test_a_token_is_granted_once(history_of, calls_of, before) -> None:
    """Two claims that were both answered OK with the same token are explained by no order; one of them is."""
    specification = history_of(*before)
    token = specification.first_world.stores.slots[0].token_high + 1
    verdicts = [
        explain(
            specification,
            calls_of(specification, [(0, "claim w1 k1", 1, 3, f"ok {token}"), (1, "claim w2 k1", 2, 4, answer)]),
        ).verdict
        for answer in (f"ok {token}", "refused", f"ok {token + 1}")
    ]

    assert [Verdict.UNEXPLAINED, Verdict.EXPLAINED, Verdict.UNEXPLAINED] == verdicts


def test_a_claim_that_was_outrun_is_refused(history_of) -> None:
    """A claim whose token another got, and gave back, while the sink was told is refused and changes nothing."""
    specification = history_of(*UNKNOWN, "advance k1 lease")
    world, memo = _only(specification, specification.first_world, "claim w2 k1")
    world, memo = _only(specification, world, "claim w2 k1", memo)
    for label in ("claim w1 k1", "release w1 k1"):
        _stages, world, _outcome = _alone(specification, world, label)

    then, done = _only(specification, world, "claim w2 k1", memo)

    assert (Claiming(2, is_told=True), world, Done(Outcome(Kind.REFUSED))) == (memo, then, done)


def test_an_outrun_claim_lowers_no_fence(history_of) -> None:
    """A claim that tells the sink of its token after a newer one was told changes nothing there."""
    specification = history_of(*UNKNOWN, "advance k1 lease")
    world, memo = _only(specification, specification.first_world, "claim w2 k1")
    for label in ("claim w1 k1", "release w1 k1", "claim w1 k1"):
        _stages, world, _outcome = _alone(specification, world, label)

    then, _memo = _only(specification, world, "claim w2 k1", memo)

    assert (3, world) == (then.stores.slots[0].fence, then)


def test_a_claim_is_granted_where_nothing_is_in_flight_any_more(history_of) -> None:
    """A claim that told the sink of a token gets the next one, untold, once the key was settled and given back."""
    specification = history_of(*READY, "dispatch w1 k1 lost", "acknowledge w1 k1", "advance k1 lease")
    world, memo = _only(specification, specification.first_world, "claim w2 k1")
    world, memo = _only(specification, world, "claim w2 k1", memo)
    for label in ("claim w1 k1", "reconcile w1 k1", "release w1 k1"):
        _stages, world, _outcome = _alone(specification, world, label)

    then, done = _only(specification, world, "claim w2 k1", memo)

    assert (Outcome(Kind.OK, "", 3), 2) == (done.outcome, then.stores.slots[0].fence)


def test_a_dead_claimant_may_have_told_the_sink(history_of, calls_of) -> None:
    """A claim that died leaves nothing, or a sink that refuses older tokens, or a lease as well."""
    specification = history_of(*UNKNOWN, "advance k1 lease")

    explanation = explain(specification, calls_of(specification, [(1, "claim w2 k1", 1, 2, "")]))

    slots = [world.stores.slots[0] for world in merged(explanation)]
    assert {(1, 1), (2, 1), (2, 2)} == {(slot.fence, slot.token_high) for slot in slots}


# -- reconciling --------------------------------------------------------------------------------------------------


def test_a_reconcile_settles_what_the_sink_said(history_of) -> None:
    """What was found at the sink is what is recorded, whatever came there since."""
    specification = history_of(*READY, "dispatch w1 k1 lost", "acknowledge w1 k1")
    world, memo = _only(specification, specification.first_world, "reconcile w1 k1")
    world, memo = _only(specification, world, "reconcile w1 k1", memo)
    asked = memo
    _stages, world, _outcome = _alone(specification, world, "dispatch w1 k1 done")

    then, done = _only(specification, world, "reconcile w1 k1", memo)

    assert (Found(()), Done(Outcome(Kind.OK)), State.PENDING) == (asked, done, then.stores.slots[0].intent.state)
    assert world.stores.slots[0].effects == then.stores.slots[0].effects


def test_a_reconcile_checks_its_guards_again(history_of) -> None:
    """A reconcile whose lease ran out while it asked is refused, and the sink has heard of its token all the same."""
    specification = history_of(*TAKEN_OVER)
    world, memo = _only(specification, specification.first_world, "reconcile w2 k1")
    world, memo = _only(specification, world, "reconcile w2 k1", memo)
    _stages, world, _outcome = _alone(specification, world, "advance k1 lease")

    then, done = _only(specification, world, "reconcile w2 k1", memo)

    assert (world, Done(Outcome(Kind.REFUSED)), 2) == (then, done, then.stores.slots[0].fence)


def test_the_ledger_knows_no_fence(history_of) -> None:
    """Whatever the sink was told of newer tokens, the ledger's stages of a reconcile go by the lease alone."""
    specification = history_of(*UNKNOWN)
    world = specification.first_world
    slot = evolve(world.stores.slots[0], fence=9)
    world = evolve(world, stores=evolve(world.stores, slots=(slot, *world.stores.slots[1:])))

    begun = _only(specification, world, "reconcile w1 k1")
    then, done = _only(specification, world, "reconcile w1 k1", Found((True,)))

    assert ((world, Asking("p1")), Outcome(Kind.REPLAYED, "", 1), 9) == (
        begun,
        done.outcome,
        then.stores.slots[0].fence,
    )


def test_an_older_token_asks_in_vain(history_of) -> None:
    """A reconcile that comes to the sink after a newer token is refused and changes nothing."""
    specification = history_of(*UNKNOWN)
    world, memo = _only(specification, specification.first_world, "reconcile w1 k1")
    _stages, world, _outcome = _alone(specification, world, "advance k1 lease")
    _stages, world, _outcome = _alone(specification, world, "claim w2 k1")

    assert (world, Done(Outcome(Kind.REFUSED))) == _only(specification, world, "reconcile w1 k1", memo)


# -- decisions ----------------------------------------------------------------------------------------------------


def test_a_grant_keeps_the_time_and_policy_it_was_signed_under(history_of) -> None:
    """A grant that is handed in late expires when it was signed to, and is for the revision that it names."""
    specification = history_of("submit k1 p1")
    world, memo = _only(specification, specification.first_world, "approve k1 p1")
    for label in ("advance tick", "bump_policy"):
        _stages, world, _outcome = _alone(specification, world, label)

    then, done = _only(specification, world, "approve k1 p1", memo)

    approval = then.stores.slots[0].approval
    assert (250, 1, Kind.OK) == (approval.expiry_ms, approval.revision, done.outcome.kind)
    assert (1, 2) == (then.now_ms, then.stores.revision)


def test_a_grant_older_than_the_last_is_refused(history_of) -> None:
    """A grant that is handed in after a later one is refused: it may have been spent before."""
    specification = history_of("submit k1 p1")
    world, memo = _only(specification, specification.first_world, "approve k1 p1")
    for label in ("advance tick", "approve k1 p2"):
        _stages, world, _outcome = _alone(specification, world, label)

    assert (world, Done(Outcome(Kind.REFUSED))) == _only(specification, world, "approve k1 p1", memo)


def test_the_last_grant_may_be_outdated_when_it_comes_again(history_of) -> None:
    """The last grant, handed in again after a denial took its place, is refused."""
    specification = history_of(*READY[:2])
    world, memo = _only(specification, specification.first_world, "approve k1 again")
    refused = []
    for label in ("deny k1", "approve k1 p2"):
        _stages, between, _outcome = _alone(specification, world, "advance tick")
        _stages, between, _outcome = _alone(specification, between, label)
        refused.append(
            (between, Done(Outcome(Kind.REFUSED))) == _only(specification, between, "approve k1 again", memo)
        )

    assert [True, True] == refused


def test_a_denial_is_never_too_old(history_of) -> None:
    """A denial that is handed in after a later grant takes its place all the same."""
    specification = history_of("submit k1 p1")
    world, memo = _only(specification, specification.first_world, "deny k1")
    for label in ("advance tick", "approve k1 p1"):
        _stages, world, _outcome = _alone(specification, world, label)

    then, done = _only(specification, world, "deny k1", memo)

    assert (Kind.OK, Grant.DENIED) == (done.outcome.kind, then.stores.slots[0].approval.status)


@pytest.mark.parametrize("before", [(), ("submit k1 p1",)], ids=["of nothing known", "of another payload"])
def test_a_denial_names_the_payload_it_was_signed_for(history_of, before) -> None:
    """A denial names what stood under the key when it was signed, and leaves the key what it is now."""
    specification = history_of(*before, contracts=Contracts(idempotency=Idempotency.NONE))
    world, memo = _only(specification, specification.first_world, "deny k1")
    _stages, world, _outcome = _alone(specification, world, "submit k1 p2")

    then, _done = _only(specification, world, "deny k1", memo)

    assert ("p1", "p2") == (then.stores.slots[0].approval.digest, then.stores.slots[0].intent.digest)


def test_the_same_grant_twice_is_a_replay(history_of, calls_of) -> None:
    """Of two equal grants at once one is stored and the other is a replay; not both are stored."""
    specification = history_of("submit k1 p1")
    verdicts = [
        explain(
            specification,
            calls_of(specification, [(2, "approve k1 p1", 1, 3, "ok"), (3, "approve k1 p1", 2, 4, answer)]),
        ).verdict
        for answer in ("replayed", "ok")
    ]

    assert [Verdict.EXPLAINED, Verdict.UNEXPLAINED] == verdicts


# -- busy stores, the dead ----------------------------------------------------------------------------------------


def test_a_busy_ledger_refuses_and_changes_nothing(history_of) -> None:
    """Where stores may be busy each ledger stage may refuse, and then the stores are as they were."""
    specification = history_of(*READY, busy=True)
    world, model = specification.first_world, specification.model
    kinds: Counter[Kind] = Counter()
    for label in ("submit k1 p2", "cancel k1", "renew w1 k1", "release w1 k1", "claim w2 k1", "stall w1 k1"):
        _usual, (then, done) = specification.stages(world, Operation(model.alphabet.by_label[label], 0), None)
        kinds[done.outcome.kind] += then == world

    assert {Kind.REFUSED: 6} == kinds


def test_a_busy_sink_is_silent(history_of) -> None:
    """A send to a busy sink is answered UNKNOWN and never arrived; to one that lost it anyway nothing is added."""
    specification = history_of(*READY, "stall w1 k1", busy=True)
    labels = specification.model.alphabet.by_label
    answers = [
        [
            (done.outcome.kind, len(then.stores.slots[0].effects))
            for then, done in specification.stages(specification.first_world, Operation(labels[label], 0), None)
        ]
        for label in (f"wake w1 {Reply.DONE}", f"wake w1 {Reply.LOST}")
    ]

    assert [[(Kind.OK, 1), (Kind.UNKNOWN, 0)], [(Kind.UNKNOWN, 0)]] == answers


@pytest.mark.parametrize("label", ["claim w2 k1", "reconcile w1 k1"])
def test_a_question_to_a_busy_sink_goes_unanswered(history_of, label) -> None:
    """A claim and a reconcile whose question the sink does not answer end UNKNOWN and change nothing."""
    before = (*UNKNOWN, "advance k1 lease") if label.startswith("claim") else UNKNOWN
    specification = history_of(*before, busy=True)
    world, operation = specification.first_world, Operation(specification.model.alphabet.by_label[label], 0)
    (begun, _busy) = specification.stages(world, operation, None)

    _answered, silent = specification.stages(world, operation, begun[1])

    assert (world, Done(UNANSWERED)) == silent


def test_a_busy_ledger_shows_nothing_overdue(history_of) -> None:
    """A look for overdue leases in a busy ledger sees none."""
    specification = history_of(*READY, "advance k1 lease", busy=True)
    operation = Operation(specification.model.alphabet.by_label["reap_read w2"], 1)

    usual, busy = specification.stages(specification.first_world, operation, None)

    assert [(1, ((1, 100), None)), (0, (None, None))] == [
        (done.outcome.value, then.workers[1].view) for then, done in (usual, busy)
    ]


def test_what_was_seen_overdue_is_used_up(history_of) -> None:
    """A reaping that a busy ledger refused has used up what was seen, as any other, and no store has changed."""
    specification = history_of(*READY, "advance k1 lease", "reap_read w2", busy=True)
    operation = Operation(specification.model.alphabet.by_label["reap_apply w2"], 1)

    _usual, (then, done) = specification.stages(specification.first_world, operation, None)

    assert (Kind.REFUSED, None) == (done.outcome.kind, then.workers[1].view)
    assert specification.first_world.stores == then.stores


def test_time_never_goes_back(history_of) -> None:
    """An instant that has passed already is no move of time."""
    specification = history_of("submit k1 p1", "advance tick")
    action = specification.model.alphabet.by_label["advance k1 deadline"]

    times = [
        then.now_ms
        for at_ms in (0, 7)
        for then, _done in specification.stages(specification.first_world, Operation(action, 9, at_ms), None)
    ]

    assert [1, 7] == times


def test_the_dead_do_nothing(history_of, calls_of, environment) -> None:
    """What a dispatch had not done when its worker died it never does: the death cuts it off."""
    specification = history_of(*READY)
    rows = [
        (0, "dispatch w1 k1 done", 1, None, ""),
        (environment, "kill w1", 2, 3, "killed"),
        (2, "cancel k1", 4, 5, "ok"),
    ]

    explanation = explain(specification, calls_of(specification, rows))

    assert [()] == [world.stores.slots[0].effects for world in merged(explanation)]
    assert [False] == [world.workers[0].alive for world in merged(explanation)]


def test_nothing_told_is_no_answer(history_of) -> None:
    """A worker that acknowledges without having been told anything leaves the outcome unknown."""
    specification = history_of(
        *READY, "stall w1 k1", "kill w1", "restart w1 same-name", "advance k1 lease", "claim w1 k1"
    )

    _stages, world, outcome = _alone(specification, specification.first_world, "acknowledge w1 k1")

    assert (Kind.OK, State.UNKNOWN) == (outcome.kind, world.stores.slots[0].intent.state)
