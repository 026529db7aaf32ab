"""Possible worlds: what may be true after a crash, and how an observation narrows it."""

from __future__ import annotations

from attrs import evolve

from model import Outcome
from model.possible import after, after_crash, seen
from model.words import Effect, Kind, State, Stores


def _crashed_in_dispatch(play):
    run = play(keys=1)
    run.do("submit k1 p1", "approve k1 p1", "claim w1 k1")
    dispatch = run.model.alphabet.by_label["dispatch w1 k1 done"]
    return run, after_crash(run.model, [run.world], dispatch)


def test_a_crash_leaves_the_prefixes(play) -> None:
    """A crash inside dispatch leaves three worlds: nothing done, authorised, and authorised with the effect."""
    _run, worlds = _crashed_in_dispatch(play)

    slots = [w.stores.slots[0] for w in worlds]

    assert [
        (State.PENDING, 0, 0),
        (State.DISPATCHING, 1, 0),
        (State.DISPATCHING, 1, 1),
    ] == [(s.intent.state, s.intent.attempts, len(s.effects)) for s in slots]


def test_the_crashed_worker_knows_nothing(play) -> None:
    """In each of the worlds the worker is dead and has forgotten its token and its answer."""
    _run, worlds = _crashed_in_dispatch(play)

    assert [(False, (0,), (None,), (0,))] * 3 == [
        (w.workers[0].alive, w.workers[0].tokens, w.workers[0].results, w.workers[0].receipts) for w in worlds
    ]


def test_the_other_worker_lives(play) -> None:
    """A crash ends the worker that acted and nobody else."""
    _run, worlds = _crashed_in_dispatch(play)

    assert [True, True, True] == [w.workers[1].alive for w in worlds]


def test_reading_the_stores_narrows_to_one(play) -> None:
    """Whatever the crash left, reading the stores leaves the one world in which they read so."""
    _run, worlds = _crashed_in_dispatch(play)

    assert [(w,) for w in worlds] == [seen(worlds, w.stores) for w in worlds]


def test_a_contradiction_leaves_none(play) -> None:
    """Stores that no prefix explains leave no world: an effect without the authorisation that precedes it."""
    run, worlds = _crashed_in_dispatch(play)
    slot = evolve(run.stores.slots[0], effects=(Effect("p1", 1, 0),), calls=1, fence=1)

    assert () == seen(worlds, Stores(1, (slot,)))


def test_an_answer_narrows_too(play) -> None:
    """The answer of a later operation removes the worlds in which it would have been another one."""
    run, worlds = _crashed_in_dispatch(play)
    labels = run.model.alphabet.by_label
    for label, answer in [
        ("advance k1 lease", Outcome(Kind.OK)),
        ("claim w2 k1", Outcome(Kind.OK, value=2)),
    ]:
        worlds = after(run.model, worlds, labels[label], answer)
    assert 3 == len(worlds)

    # A reconcile that finds the effect is answered with its receipt in one of the three worlds alone.
    found = after(run.model, worlds, labels["reconcile w2 k1"], Outcome(Kind.REPLAYED, value=1))

    assert [State.COMPLETED] == [w.stores.slots[0].intent.state for w in found]


def test_an_impossible_answer_leaves_none(play) -> None:
    """A token that the model would not give contradicts every world."""
    run, worlds = _crashed_in_dispatch(play)
    labels = run.model.alphabet.by_label
    worlds = after(run.model, worlds, labels["advance k1 lease"], Outcome(Kind.OK))

    assert () == after(run.model, worlds, labels["claim w2 k1"], Outcome(Kind.OK, value=1))


def test_a_refusal_has_one_prefix(play) -> None:
    """A crash inside an operation that would have been refused leaves the stores as they were, in one world."""
    run = play(keys=1)
    run.do("submit k1 p1", "claim w1 k1")

    worlds = after_crash(run.model, [run.world], run.model.alphabet.by_label["dispatch w1 k1 done"])

    assert [run.stores] == [w.stores for w in worlds]


def test_a_crashed_client_ends_no_worker(play) -> None:
    """A crash inside a client's submit leaves two worlds, and every worker alive in both."""
    run = play(keys=1)

    worlds = after_crash(run.model, [run.world], run.model.alphabet.by_label["submit k1 p1"])

    assert [False, True] == [w.stores.slots[0].intent is not None for w in worlds]
    assert all(worker.alive for w in worlds for worker in w.workers)


def test_worlds_are_kept_once(play) -> None:
    """Worlds that have become equal are counted as one."""
    run = play(keys=1)
    tick = run.model.alphabet.by_label["advance tick"]

    assert 1 == len(after(run.model, [run.world, run.world], tick, Outcome(Kind.OK)))
