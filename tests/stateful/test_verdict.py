"""Verdicts: how shards add up."""

from __future__ import annotations

from collections import Counter

import pytest

from model.properties import PROPERTIES, WITNESSES
from model.words import Capability
from stateful.verdict import EXIT_STATUS, Broken, PropertyVerdict, Status, Tally, checked, merged, overall, unseen

ALL = frozenset(Capability)
SEEN = Counter(dict.fromkeys(WITNESSES, 1))


def broken(property_id, steps, shard=0):
    return Broken(property_id, "detail", steps, "walk", shard, 1)


def statuses(verdicts):
    return {v.property_id: v.status for v in verdicts}


def test_the_shortest_trace_wins(steps):
    """Of several orders for one promise the shortest is told, then the first in the alphabet, then the first shard's."""
    long, late, first = steps("claim w1 k1", "claim w2 k1"), steps("submit k1 p2"), steps("submit k1 p1")
    tallies = [
        Tally("walk", n, broken={"one-effect": broken("one-effect", order, n)})
        for n, order in enumerate([long, late, first, first])
    ]
    (chosen,) = [v.broken for v in merged(tallies, ALL) if v.status is Status.VIOLATED]

    assert (first, 2) == (chosen.steps, chosen.shard)


def test_every_promise_has_a_verdict():
    """Each promise is in the verdict, in the order of the list."""
    assert list(PROPERTIES) == [v.property_id for v in merged([Tally("walk")], ALL)]


def test_what_is_not_declared_is_unsupported():
    """A promise that needs what a subject does not have is unsupported, neither kept nor broken."""
    found = statuses(merged([Tally("walk", orders=1)], frozenset()))

    assert {p.id: Status.UNSUPPORTED if p.needs else Status.SURVIVED for p in PROPERTIES.values()} == found


def test_a_failed_shard_leaves_doubt(steps):
    """Where a shard did not end, what it did not break is unknown; what another broke is broken."""
    tallies = [
        Tally("kills", failed="ended by signal 9"),
        Tally("walk", broken={"one-effect": broken("one-effect", ())}),
    ]
    found = Counter(statuses(merged(tallies, ALL)).values())

    assert {Status.VIOLATED: 1, Status.UNKNOWN: len(PROPERTIES) - 1} == found


@pytest.mark.parametrize(
    ("found", "missing", "failed", "status", "exit_status"),
    [
        (Status.SURVIVED, (), False, Status.SURVIVED, 0),
        (Status.VIOLATED, (), False, Status.VIOLATED, 1),
        (Status.VIOLATED, ("replay",), True, Status.VIOLATED, 1),
        (Status.SURVIVED, ("replay",), True, Status.UNKNOWN, 3),
        (Status.SURVIVED, ("replay",), False, Status.VACUOUS, 3),
        (Status.UNSUPPORTED, (), False, Status.SURVIVED, 0),
    ],
)
def test_a_violation_outweighs_doubt_and_doubt_survival(found, missing, failed, status, exit_status):
    """The verdict of all, and the exit status that goes with it."""
    whole = overall((PropertyVerdict("one-effect", found),), missing, failed=failed)

    assert (status, exit_status) == (whole, EXIT_STATUS[whole])


def test_what_was_never_seen_is_missing():
    """A witness that no shard saw is missing; one that any shard saw is not."""
    seen, rest = Counter(replay=2), SEEN - Counter(replay=1, takeover=1)

    assert ("takeover",) == unseen([Tally("walk", witnesses=seen), Tally("kills", witnesses=rest)], ALL)


def test_a_witness_that_cannot_be_is_not_missing():
    """What a subject has no part for cannot be seen, and is not asked for."""
    assert {w.id for w in WITNESSES.values() if not w.needs} == set(unseen([Tally("walk")], frozenset()))


def test_where_nothing_ran_nothing_is_known():
    """A campaign that ran no order knows of no promise."""
    assert {Status.UNKNOWN} == set(statuses(merged([Tally("walk")], ALL)).values())


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ({Status.SURVIVED: 20}, "20 of 20 promises"),
        ({Status.SURVIVED: 6, Status.UNSUPPORTED: 14}, "6 of 20 promises (14 unsupported)"),
        ({Status.SURVIVED: 5, Status.VIOLATED: 1, Status.UNSUPPORTED: 14}, "1 of 20 promises (14 unsupported)"),
        ({Status.UNKNOWN: 20}, "0 of 20 promises"),
    ],
)
def test_a_verdict_says_about_how_many_promises(ends, says):
    """The verdict line counts the promises that it is about, and those that nobody could check."""
    assert says == checked(ends)
