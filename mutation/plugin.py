"""What pytest does differently for a mutant: the fastest tests first, within a budget, and none for ever.

Copied beside the mutants, and loaded there by name.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

BUDGET_S = 15.0
"""A mutant meets the fastest tests that reach it, of together so many seconds on the unchanged code. So does the
unchanged code itself, before any mutant: all tests have passed when their times were taken."""
GRACE_S = 5.0
"""A test may take so much longer than ten times its time on the unchanged code, in seconds of its own CPU time."""
LAST = ("tests/stateful/", "tests/traces/")
"""Engines guard their process for good against what a lane must not do, so what runs without them runs first."""
TIMED_OUT = 36
"""mutmut's exit status for a timeout."""


@cache
def _durations() -> dict[str, float]:
    found: dict[str, float] = json.loads(Path("mutmut-stats.json").read_text())["duration_by_test"]
    return found


def _is_for_a_mutant() -> bool:
    return "__mutmut_" in os.environ.get("MUTANT_UNDER_TEST", "")


def _end(number: int, frame: object) -> None:
    os._exit(TIMED_OUT)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort what reaches the mutant by its time, and keep what is within the budget."""
    if (
        os.environ.get("MUTANT_UNDER_TEST") == "stats"
        or not Path("mutmut-stats.json").exists()
        or config.option.collectonly
    ):
        return
    seconds = _durations()
    items.sort(key=lambda item: seconds.get(item.nodeid, 0.0))
    total, kept = 0.0, 0
    for item in items:
        total += seconds.get(item.nodeid, 0.0)
        if kept and total > BUDGET_S:
            break
        kept += 1
    config.hook.pytest_deselected(items=items[kept:])
    del items[kept:]
    items.sort(key=lambda item: item.nodeid.startswith(LAST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End the process of a mutant that makes a test run for ever. Tests use SIGALRM themselves, so this does not."""
    if not _is_for_a_mutant():
        return (yield)
    signal.signal(signal.SIGVTALRM, _end)
    signal.setitimer(signal.ITIMER_VIRTUAL, GRACE_S + 10 * _durations().get(item.nodeid, 0.0))
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
