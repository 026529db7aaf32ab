"""The score of the whole, from a sample of each module."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from attrs import frozen

from mutation.results import Row

Z = 1.96
"""A normal distribution has 95 % within so many standard deviations."""


@frozen
class Estimate:
    """A share between 0 and 1 with the ends of its 95 % interval. ``of`` mutants, ``run`` of which were run."""

    share: float
    low: float
    high: float
    of: int
    run: int


def estimate(modules: Sequence[Row]) -> Estimate | None:
    """What share of all mutants that count would die, were all run; None where nothing was.

    Each module's share has the weight of the module's number of mutants: a stratified sample. The deviation takes
    each share as one more died and one more survived (Laplace): eight dead of eight do not say that all will die. A
    module of which all were run adds no doubt. Modules of which nothing was run are left out.
    """
    known = [row for row in modules if row.run]
    of = sum(row.counted for row in known)
    if not of:
        return None
    share = sum(row.counted * row.dead / row.run for row in known) / of
    variance = 0.0
    for row in known:
        smooth = (row.dead + 1) / (row.run + 2)
        unseen = 1 - row.run / row.counted
        variance += (row.counted / of) ** 2 * unseen * smooth * (1 - smooth) / row.run
    reach = Z * sqrt(variance)
    return Estimate(share, max(0.0, share - reach), min(1.0, share + reach), of, sum(row.run for row in known))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def told(modules: Sequence[Row]) -> str:
    """The estimate in a sentence or two."""
    found = estimate(modules)
    if found is None:
        return "Nothing was run."
    if found.run == found.of:
        return f"All {found.of} mutants that count were run: {_percent(found.share)} died."
    silent = [row.module for row in modules if not row.run and row.counted]
    interval = f"{_percent(found.low)} to {_percent(found.high)}"
    sentence = (
        f"{found.run} of {found.of} mutants that count were run. Estimate for all of them, each module weighted by its "
        f"number of mutants: {_percent(found.share)} would die, 95 % interval {interval}."
    )
    return sentence + (f" Not in it, as nothing was run of them: {', '.join(silent)}." if silent else "")
