"""What pytest does differently for a mutant: the fastest tests first, within a budget, and none for ever.

And before any mutant, where mutmut takes the time of each test and sees which functions it calls: the time is that of
the processor, whatever else the machine is at, and what runs in processes of a test's own is not overlooked.

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
"""A mutant meets the fastest tests that reach it, of together so many seconds of the processor on the unchanged code.
So does the unchanged code itself, before any mutant: all tests have passed when their times were taken."""
GRACE_S = 5.0
"""A test may take so much longer than ten times its time on the unchanged code, in seconds of its own CPU time."""
LAST = ("tests/stateful/", "tests/traces/")
"""Engines guard their process for good against what a lane must not do, so what runs without them runs first."""
SPENT_S = pytest.StashKey[float]()
TIMED_OUT = 36
"""mutmut's exit status for a timeout."""


@cache
def _durations() -> dict[str, float]:
    found: dict[str, float] = json.loads(Path("mutmut-stats.json").read_text())["duration_by_test"]
    return found


def _takes_times() -> bool:
    return os.environ.get("MUTANT_UNDER_TEST") == "stats"


def _is_for_a_mutant() -> bool:
    return "__mutmut_" in os.environ.get("MUTANT_UNDER_TEST", "")


def _end(number: int, frame: object) -> None:
    os._exit(TIMED_OUT)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort what reaches the mutant by its time, and keep what is within the budget."""
    if _takes_times() or not Path("mutmut-stats.json").exists() or config.option.collectonly:
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


def _spent_s() -> float:
    return sum(os.times()[:4])  # of this process and of its children that have ended


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Take a test's time."""
    before = _spent_s()
    try:
        return (yield)
    finally:
        item.stash[SPENT_S] = _spent_s() - before


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Tell mutmut the time of the processor, and not that of the wall."""
    if _takes_times() and call.when == "call":
        call.duration = item.stash[SPENT_S]


def pytest_sessionfinish() -> None:
    """Give a function that was called in no test's own process to the tests of its module."""
    if not _takes_times():
        return
    from mutmut.state import state  # where mutmut runs the tests, and nowhere else

    reached = state().tests_by_mangled_function_name
    for path in [path for top in ("impl", "model") for path in Path(top).rglob("*.meta")]:
        functions = {name.rpartition("__mutmut_")[0] for name in json.loads(path.read_text())["exit_code_by_key"]}
        of_module = set().union(*(reached.get(function, set()) for function in functions))
        for function in functions:
            if of_module and not reached.get(function):
                reached[function] = set(of_module)


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
