"""The timed automaton by itself: what it allows keeps every promise, at the times that a reader can reckon."""

from __future__ import annotations

import pytest
from attrs import evolve

from model.attempts import BACK_MS, RETRY_AFTER_MS, TRAVEL_MS, End, Event, EventKind, Said, Setup, Told, outcomes
from model.attempts.promises import breaks
from model.attempts.search import found
from model.contracts import contracts_from
from model.words import State

START, CANCEL, INTERRUPT, KILL, STALL = (
    EventKind.START,
    EventKind.CANCEL,
    EventKind.INTERRUPT,
    EventKind.KILL,
    EventKind.STALL,
)
CLAIM = EventKind.CLAIM
INSTANTS = (*range(26), *range(85, 92))
"""Around the first attempt and the second, and around the deadline."""
DEFAULT = Setup()
ROUND_MS = TRAVEL_MS + BACK_MS
OVER = frozenset({State.FAILED, State.EXPIRED, State.CANCELLED, State.DENIED})
"""Where an intent is over, and had no effect."""


def begun(*events):
    """The events, after a start at 0 ms."""
    return (Event(START, 0), *events)


def under(**choices):
    """The setup under these choices."""
    return Setup(contracts_from(choices))


def lies(told, setup):
    """What an outcome says of a promise that it breaks; written here once more, apart from ``promises``."""
    said = {end for end, _at_ms in told.ends}
    return {
        "two effects": told.effects > 1,
        "too late": any(at_ms >= setup.deadline_ms for at_ms in told.sends_ms),
        "not counted": not len(told.sends_ms) <= told.attempts <= setup.max_attempts,
        "completed, and no effect": told.state is State.COMPLETED and not told.effects,
        "over, and an effect": told.state in OVER and told.effects,
        "told of an effect, and none": bool(said & {End.EFFECT, End.REPLAYED}) and not told.effects,
        "told of none, and an effect": End.NO_EFFECT in said and told.effects,
        "out of order": list(told.sends_ms) != sorted(told.sends_ms),
    }


def occasions(kind, setup):
    """One event of a kind at each instant that matters, and whoever takes over after it."""
    if kind is START:
        yield from (begun(Event(kind, at_ms)) for at_ms in (setup.deadline_ms, 2 * setup.deadline_ms))
        return
    if kind is CLAIM:  # it changes something where a lease has run out
        until = ((at_ms, at_ms + setup.lease_ms) for at_ms in INSTANTS[:26:5])
        yield from (begun(Event(STALL, at_ms, end_ms), Event(kind, end_ms)) for at_ms, end_ms in until)
        return
    for at_ms in INSTANTS:
        if kind is STALL:
            ends = (setup.attempt_ms, setup.deadline_ms - 1, setup.deadline_ms)
            yield from (begun(Event(kind, at_ms, until_ms)) for until_ms in ends if until_ms > at_ms)
        elif kind is CANCEL:
            yield begun(Event(kind, at_ms))
        else:
            after_ms = setup.lease_ms if kind is KILL else setup.grace_ms + 1
            yield begun(Event(kind, at_ms), Event(START, at_ms + after_ms))


def scripts(setup, events):
    """Every script of two answers; the second stands only where it is asked for."""
    for first in Said:
        told = outcomes(setup, (first, Said.DONE), events)
        needs = any(len(one.sends_ms) > 1 for one in told)
        yield from ((first, second) for second in (Said if needs else (Said.DONE,)))


@pytest.mark.parametrize(
    ("kind", "cases"),
    [(START, 222), (CANCEL, 1_606), (INTERRUPT, 2_915), (KILL, 2_805), (CLAIM, 259), (STALL, 5_097)],
    ids=str,
)
def test_whatever_comes_is_no_lie(kind, cases):
    """Under the default contracts every outcome of every script keeps every promise, whenever the event comes."""
    setup = evolve(DEFAULT, max_attempts=2)
    lied, seen = set(), 0
    for events in occasions(kind, setup):
        for answers in scripts(setup, events):
            told = outcomes(setup, answers, events)
            assert told, (answers, events)
            seen += 1
            lied |= {name for one in told for name, has in lies(one, setup).items() if has}

    assert (set(), cases) == (lied, seen)


def told(sends, effects, state, attempts, *ends, cleaned=0, claims=()):
    """An outcome, its ends as pairs."""
    return Told(
        sends, effects, State(state), attempts, tuple((End(end), at_ms) for end, at_ms in ends), cleaned, claims
    )


SCENES = {
    "done": (DEFAULT, "done", (), {told((0,), 1, "completed", 1, ("effect", 5))}),
    "a timeout, then done": (
        DEFAULT,
        "silent done",
        (),
        {told((0, 30), 1, "completed", 2, ("replayed", 35), cleaned=1)},
    ),
    "a reset before it acts": (
        DEFAULT,
        "reset-before done",
        (),
        {told((0, 12), 1, "completed", 2, ("effect", 17))},
    ),
    "a hang, then done": (
        DEFAULT,
        "hang done",
        (),
        {told((0, 42), 1, "completed", 2, ("effect", 47))},
    ),
    "what is late is refused or there before": (
        DEFAULT,
        "late done",
        (),
        {told((0, 30), 1, "completed", 2, ("replayed", 35), cleaned=1)},
    ),
    "the sink says when": (
        DEFAULT,
        "429-retry-after done",
        (),
        {told((0, ROUND_MS + RETRY_AFTER_MS), 1, "completed", 2, ("effect", 40))},
    ),
    "a 400": (DEFAULT, "400", (), {told((0,), 0, "failed", 1, ("no effect", 5))}),
    "nobody understands, and the sink is asked": (
        DEFAULT,
        "malformed",
        (),
        {told((0,), 1, "completed", 1, ("replayed", 10))},
    ),
    "the deadline cuts the wait": (
        Setup(deadline_ms=12),
        "429",
        (),
        {told((0,), 0, "expired", 1, ("no effect", 12))},
    ),
    "the deadline cuts the attempt": (
        Setup(deadline_ms=12),
        "silent",
        (),
        {told((0,), 1, "completed", 1, ("replayed", 17), cleaned=1)},
    ),
    "the budget is used up": (
        Setup(max_attempts=2),
        "429 429",
        (),
        {told((0, 15), 0, "failed", 2, ("no effect", 20))},
    ),
    "both orders of a tie": (
        Setup(max_attempts=1),
        "edge",
        (),
        {
            told((0,), 1, "completed", 1, ("effect", 20)),
            told((0,), 1, "completed", 1, ("replayed", 35), cleaned=1),
        },
    ),
    "cancelled before it arrives": (
        DEFAULT,
        "done",
        (Event(CANCEL, 1),),
        {told((0,), 0, "cancelled", 1, ("no effect", 6), cleaned=1)},
    ),
    "cancelled as it arrives": (
        DEFAULT,
        "done",
        (Event(CANCEL, 2),),
        {
            told((0,), 0, "cancelled", 1, ("no effect", 7), cleaned=1),
            told((0,), 1, "completed", 1, ("replayed", 7), cleaned=1),
        },
    ),
    "cancelled too late": (
        DEFAULT,
        "done",
        (Event(CANCEL, 3),),
        {told((0,), 1, "completed", 1, ("replayed", 8), cleaned=1)},
    ),
    "cancelled between two": (
        DEFAULT,
        "429",
        (Event(CANCEL, 8),),
        {told((0,), 0, "cancelled", 1, ("no effect", 8))},
    ),
    "interrupted between two, and taken up": (
        DEFAULT,
        "429 done",
        (Event(INTERRUPT, 8), Event(START, 9)),
        {told((0, 9), 1, "completed", 2, ("interrupted", 8), ("effect", 14))},
    ),
    "killed, and taken up when the lease is over": (
        DEFAULT,
        "done",
        (Event(KILL, 3), Event(START, 63)),
        {told((0,), 1, "completed", 1, ("killed", 3), ("replayed", 68))},
    ),
    "killed, and taken up too soon": (
        DEFAULT,
        "done",
        (Event(KILL, 3), Event(START, 17)),
        {told((0,), 1, "dispatching", 1, ("killed", 3), ("unknown", 17))},
    ),
    "interrupted while an unfenced worker asks about the dead one's send": (
        under(fencing="none"),
        "done",
        (Event(KILL, 1), Event(START, 61), Event(INTERRUPT, 62)),
        {told((0,), 0, "unknown", 1, ("killed", 1), ("interrupted", 62))},
    ),
    "killed before it arrives": (
        DEFAULT,
        "done done",
        (Event(KILL, 1), Event(START, 61)),
        {told((0, 66), 1, "completed", 2, ("killed", 1), ("effect", 71))},
    ),
    "asleep until the deadline": (
        DEFAULT,
        "done",
        (Event(STALL, 0, 90),),
        {
            told((), 0, "expired", 1, ("no effect", 90)),
            told((), 0, "expired", 1, ("no effect", 95)),
            told((0,), 0, "expired", 1, ("no effect", 95), cleaned=1),
        },
    ),
    "interrupted as it expires": (
        Setup(deadline_ms=5),
        "429",
        (Event(INTERRUPT, 5),),
        {
            told((0,), 0, "expired", 1, ("interrupted", 5)),
            told((0,), 0, "expired", 1, ("no effect", 5)),
            told((0,), 0, "unknown", 1, ("interrupted", 5), cleaned=1),
        },
    ),
    "once more": (
        DEFAULT,
        "done",
        (Event(START, 10),),
        {told((0,), 1, "completed", 1, ("effect", 5), ("replayed", 10))},
    ),
    "another asks, and the lease is kept": (
        Setup(max_attempts=1),
        "silent",
        (Event(CLAIM, 19),),
        {told((0,), 1, "completed", 1, ("replayed", 35), cleaned=1, claims=((19, False),))},
    ),
    "another asks when it is over": (
        DEFAULT,
        "429",
        (Event(INTERRUPT, 8), Event(CLAIM, 9), Event(START, 26)),
        {told((0,), 0, "pending", 1, ("interrupted", 8), ("refused", 26), claims=((9, True),))},
    ),
    "another has the key of a worker that slept": (
        DEFAULT,
        "silent",
        (Event(STALL, 3, 18), Event(CLAIM, 18)),
        {told((0,), 1, "unknown", 1, ("unknown", 28), cleaned=1, claims=((18, True),))},
    ),
    "interrupted where nothing cleans up": (
        under(attempt_timeout="process"),
        "done",
        (Event(INTERRUPT, 1),),
        {told((0,), 0, "unknown", 1, ("interrupted", 1))},
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_comes_to_this_and_nothing_else(name):
    """Send times, effects, the intent's state, counted attempts, how each run ended and when, and what cleaned up."""
    setup, answers, events, expected = SCENES[name]

    assert expected == outcomes(setup, tuple(map(Said, answers.split())), begun(*events))


@pytest.mark.parametrize("answers", [(), (Said.TOO_MANY,), (Said.SILENT,), (Said.RESET_BEFORE,), (Said.HANG,)])
def test_what_has_no_answer_is_not_sent(answers):
    """A send that nothing answers leads to no outcome: the rule allows none of it."""
    assert frozenset() == outcomes(DEFAULT, answers, begun())


def test_events_of_one_instant_keep_their_order():
    """Whoever is interrupted in the instant of its start has begun by then, and another is not there yet."""
    events = begun(Event(INTERRUPT, 0), Event(START, 1))

    assert {2} == {len(one.ends) for one in outcomes(DEFAULT, (Said.DONE, Said.DONE), events)}


PRICES = {
    ("idempotency", "client"): ("one-effect", 2),
    ("idempotency", "none"): ("one-effect", 2),
    ("fencing", "claim-only"): ("cancel-honoured", 2),
    ("fencing", "none"): ("unknown-kept", 2),
    ("cancellation", "forceful"): ("cancel-honoured", 2),
    ("deadline", "per-attempt"): ("deadline-kept", 2),
    ("retry", "every-error"): ("bounded-attempts", 2),
}
"""What a weaker choice breaks by rule, and the length of the shortest case: its answers and its event."""


@pytest.mark.parametrize(("choice", "price"), PRICES.items(), ids=str)
def test_a_weaker_contract_has_its_price(choice, price):
    """By rule alone a promise breaks under it, in a case of two steps, and not under the default."""
    setup, (property_id, length) = under(**dict([choice])), price
    answers, events = found(setup).broken[property_id]
    sound = evolve(DEFAULT, max_attempts=len(answers))
    again = begun(*events, *(Event(START, e.at_ms + 60) for e in events if e.kind in {INTERRUPT, KILL}))

    assert length == len(answers) + len(events)
    assert set() == {
        broken
        for one in outcomes(sound, (*answers, Said.DONE), again)
        for broken, _why in breaks(one, sound, (*answers, Said.DONE), again)
    }


def test_the_search_sees_every_case():
    """Twelve answers, an event at 30 instants, and pairs of answers: so many cases, and so many outcomes in all."""
    all_cases = found(DEFAULT)

    assert (2532, 3087, {}) == (all_cases.cases, all_cases.outcomes, all_cases.broken)


@pytest.mark.parametrize("approval", ["bound", "advisory"])
def test_whoever_comes_after_the_effect_learns_of_it(approval):
    """A completed operation is not begun again, not even where its approval would allow it."""
    (one,) = outcomes(under(approval=approval), (Said.DONE, Said.DONE), begun(Event(START, 10)))

    assert told((0,), 1, "completed", 1, ("effect", 5), ("replayed", 10)) == one


def test_a_cancellation_outlives_the_run_that_it_came_to():
    """A client's word that comes in the instant at which a worker leaves is heard: the intent is over."""
    events = begun(Event(INTERRUPT, 8), Event(CANCEL, 8))

    assert {State.CANCELLED} == {one.state for one in outcomes(DEFAULT, (Said.TOO_MANY,), events)}


def test_the_isolations_cost_no_promise():
    """The search of the rule finds nothing under them: how an attempt is ended is told apart by what it leaves."""
    assert [{}] * 2 == [found(under(attempt_timeout=one)).broken for one in ("thread", "process")]


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [("cooperative", {(0, 1)}), ("thread", {(1, 0)}), ("process", {(0, 0)})],
)
def test_what_an_interrupted_attempt_leaves(isolation, expected):
    """An effect after the worker's end where a thread lives on; a clean-up only where the call can be interrupted."""
    left = outcomes(under(attempt_timeout=isolation), (Said.DONE,), begun(Event(INTERRUPT, 1)))

    assert expected == {(one.effects, one.cleaned) for one in left}


GOOD = told((0,), 1, "completed", 1, ("effect", 5))


@pytest.mark.parametrize(
    ("changes", "answers", "property_id"),
    [
        ({"effects": 2}, (Said.DONE,), "one-effect"),
        ({"sends_ms": (0, 30, 60)}, (Said.SILENT,) * 3, "bounded-attempts"),
        ({"sends_ms": (0, 15)}, (Said.BAD_REQUEST, Said.DONE), "bounded-attempts"),
        ({"sends_ms": (90,)}, (Said.DONE,), "deadline-kept"),
        ({"effects": 0}, (Said.DONE,), "true-completion"),
        ({"state": State.FAILED}, (Said.DONE,), "unknown-kept"),
        ({"state": State.EXPIRED}, (Said.DONE,), "unknown-kept"),
        ({"state": State.CANCELLED}, (Said.DONE,), "cancel-honoured"),
        ({"claims": ((1, True),)}, (Said.DONE,), "lease-kept"),
    ],
)
def test_each_promise_can_break(changes, answers, property_id):
    """What came of a run is told from what may come of one, promise by promise."""
    setup = evolve(DEFAULT, max_attempts=2)
    broken = [id_ for id_, _why in breaks(evolve(GOOD, **changes), setup, answers, begun())]

    assert ([], [property_id]) == (list(breaks(GOOD, setup, (Said.DONE,), begun())), broken)


@pytest.mark.parametrize(("event", "broken"), [(KILL, []), (INTERRUPT, []), (START, ["bounded-attempts"])])
def test_whoever_takes_over_need_not_know_of_a_refusal(event, broken):
    """A send after a 400 is wrong where no worker has died or left that had heard it, and alone there."""
    twice = evolve(GOOD, sends_ms=(0, 65), attempts=2)
    events = begun(Event(event, 4), Event(START, 65))

    assert broken == [id_ for id_, _why in breaks(twice, DEFAULT, (Said.BAD_REQUEST, Said.DONE), events)]
