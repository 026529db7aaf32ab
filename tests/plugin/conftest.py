"""A user's project with a dispatcher of its own, and pytest run in it as a process."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = """
from attrs import evolve
from stateful import campaign

whole = campaign.plan
ORDERS = {"walk": 30, "machine": 20}

def plan(*args, **kwargs):
    waves = whole(*args, **kwargs)
    return [[evolve(s, size=ORDERS[s.engine]) for s in wave if s.engine in ORDERS] for wave in waves[:2]]

campaign.plan = plan
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with one test and the toy dispatcher, whose campaigns are small."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeconftest(SMALL)
    toy = (ROOT / "examples" / "toy_dispatcher.py").read_text("utf-8")
    pytester.makepyfile(mine=toy, test_users="def test_of_the_user(): pass")
    return pytester
