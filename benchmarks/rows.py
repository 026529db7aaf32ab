"""One measured row, and how it is measured: ours and its floor by turns, several times, medians taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from attrs import frozen

REPEATS = 3
Rate = Callable[[], float]
"""Measures once, and returns a rate (higher is better) or a time in seconds (lower is better)."""


@frozen
class Row:
    """What was measured against which floor. ``target`` is for the ratio; None where there is none to meet."""

    what: str
    against: str
    unit: str
    ours: float
    floor: float
    target: float | None = None
    higher_is_better: bool = True

    @property
    def ratio(self) -> float:
        """Ours in units of the floor."""
        return self.ours / self.floor

    @property
    def met(self) -> bool | None:
        """Whether the target is met."""
        if self.target is None:
            return None
        return self.ratio >= self.target if self.higher_is_better else self.ratio < self.target

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "what": self.what,
            "against": self.against,
            "unit": self.unit,
            "ours": self.ours,
            "floor": self.floor,
            "ratio": self.ratio,
            "target": self.target,
            "higher_is_better": self.higher_is_better,
            "met": self.met,
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Row:
        """What ``to_json`` wrote."""
        return cls(**{name: value for name, value in row.items() if name not in {"ratio", "met"}})


def by_turns(*rates: Rate) -> list[float]:
    """The median of each rate. They take turns, so that a noisy minute hits all of them."""
    measured = [[rate() for rate in rates] for _ in range(REPEATS)]
    return [median(column) for column in zip(*measured, strict=True)]


def rate_of(work: Callable[[], int]) -> float:
    """How many times a second ``work`` does what it counts."""
    began = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - began)
