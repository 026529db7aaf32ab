"""What a campaign has tried: pairs, triples and deaths are counted, and too little is vacuous."""

from __future__ import annotations

import pytest

from model.actions import Alphabet, Step, Verb
from model.contracts import Contracts
from model.words import Capability, Kind, Outcome
from stateful.campaign import Budget, Campaign
from stateful.coverage import PAIRS_FLOOR, Coverage
from stateful.engines.walk import STEERED, walk
from stateful.order import Rig, Told
from stateful.subject import load_subject
from stateful.verdict import Status, Tally

BY_LABEL = Alphabet(2, 2).by_label
ALL = frozenset(Capability)


def told(*labels, kill_at=0):
    return [Told(Step(BY_LABEL[label], kill_at), Outcome(Kind.OK)) for label in labels]


@pytest.fixture
def coverage():
    return Coverage()


def test_what_follows_is_a_pair_and_what_follows_that_a_triple(coverage):
    """Three actions are two pairs and a triple; workers and keys make no difference, and orders do not run on."""
    coverage.take(told("submit k1 p1", "claim w1 k1", "submit k2 p2"))
    coverage.take(told("claim w2 k2", "submit k1 p1"))
    done = coverage.summary(ALL)

    assert (2, len(Verb) ** 2, 1) == (done.pairs, done.pairs_possible, done.triples)
    assert "submit > claim" not in done.unseen
    assert "claim > claim" in done.unseen


def test_a_death_counts_by_operation_and_boundary(coverage):
    """Two places in one operation are two places of one operation; the others are named."""
    coverage.take(told("submit k1 p1", kill_at=1))
    coverage.take(told("submit k1 p1", kill_at=2))
    done = coverage.summary(ALL)

    assert (2, 1) == (done.boundaries, done.operations)
    assert "dispatch" in done.never_died
    assert "submit" not in done.never_died


def test_a_subject_is_asked_for_no_more_than_it_has(coverage):
    """Pairs of actions for which it has no part are none that it could have had."""
    assert coverage.summary(frozenset()).pairs_possible < coverage.summary(ALL).pairs_possible


def test_parts_add_up(coverage):
    """What two shards have seen is what a campaign has seen."""
    other = Coverage()
    coverage.take(told("submit k1 p1", "claim w1 k1"))
    other.take(told("claim w1 k1", "submit k1 p1"))
    coverage.add(other)

    assert 2 == coverage.summary(ALL).pairs


def test_too_little_is_vacuous(monkeypatch):
    """A campaign that broke nothing and tried too little says that nothing follows from it."""
    campaign = Campaign(load_subject(), Contracts(), Budget(seconds=1))
    tally = Tally("walk", orders=1)
    tally.witnesses.update({"replay": 1})
    monkeypatch.setattr("stateful.campaign.unseen", lambda *_: ())

    verdict = campaign._verdict([tally], 1, "", 0.0)
    assert (Status.VACUOUS, True, ()) == (verdict.status, verdict.coverage().is_little, verdict.missing)

    with Rig(load_subject(), Contracts(), in_memory=True) as rig:
        walk(rig, 1, 60, tally)
    verdict = campaign._verdict([tally], 1, "", 0.0)
    assert (Status.SURVIVED, False) == (verdict.status, verdict.coverage().is_little)
    assert PAIRS_FLOOR == verdict.to_json()["bound"]["coverage"]["floor"]


def test_a_steered_walk_tries_more_in_as_many_steps():
    """Over a few seeds it has more triples, and dies at more places, than uniform choice."""
    found = {}
    for steered in (0, STEERED):
        tally = Tally("walk")
        with Rig(load_subject(), Contracts(), in_memory=True) as rig:
            for seed in range(3):
                walk(rig, seed, 40, tally, steered=steered)
        done = tally.coverage.summary(ALL)
        found[steered] = (done.triples / tally.steps, done.boundaries)

    assert found[STEERED][0] > 1.03 * found[0][0]
    assert found[STEERED][1] > found[0][1]
