"""The mutation score of the whole, told from a sample of each module: the estimate is right, its interval honest."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from mutation.estimate import estimate, told
from mutation.results import Row


def row(module, **counts):
    """The figures of a module; two words, such as "left out", are written with an underscore."""
    return Row(module, Counter({name.replace("_", " "): number for name, number in counts.items()}))


def test_a_module_has_the_weight_of_its_mutants():
    """Nine tenths of the mutants are of the module of which half die, so 55 % of all would."""
    large = row("large.py", killed=4, timeout=1, survived=3, no_tests=2, left_out=80, mistyped=500, reworded=7)
    small = row("small.py", killed=10)
    found = estimate([large, small])
    assert (0.55, 100, 20) == (found.share, found.of, found.run)


def test_what_was_run_wholly_is_no_estimate():
    """Where nothing was left out there is no interval."""
    found = estimate([row("a.py", killed=3, survived=1), row("b.py", killed=4)])
    assert 0.875 == found.share == found.low == found.high


def test_what_was_not_run_is_named():
    """A module of which nothing was run is not in the estimate, and said so; nothing at all gives none."""
    unknown = row("b.py", left_out=5)
    assert "Not in it, as nothing was run of them: b.py." in told([row("a.py", killed=1, left_out=1), unknown])
    assert None is estimate([unknown])


def test_all_dead_of_a_few_is_no_certainty():
    """Eight dead of eight that were drawn from a hundred leave doubt about the others."""
    found = estimate([row("a.py", killed=8, left_out=92)])
    assert (1.0, True) == (found.share, found.low < 0.95)


@pytest.mark.parametrize("drawn", [5, 20])
def test_the_interval_holds_the_truth(drawn):
    """Of 300 samples of modules whose mutants' fates are known, the interval holds the true share for 95 %."""
    random = Random(drawn)  # noqa: S311 - a seeded choice, no secret
    fates = [
        [random.random() < share for _ in range(random.randint(5, 300))]
        for share in [1.0, 1.0, 0.95, 0.9, 0.8, 0.6] * 8
    ]
    truth = sum(map(sum, fates)) / sum(map(len, fates))
    held = 0
    for _ in range(300):
        rows = []
        for n, known in enumerate(fates):
            sample = random.sample(known, min(drawn, len(known)))
            dead = sum(sample)
            rows.append(row(f"{n}.py", killed=dead, survived=len(sample) - dead, left_out=len(known) - len(sample)))
        found = estimate(rows)
        held += found.low <= truth <= found.high
    assert 0.93 <= held / 300
