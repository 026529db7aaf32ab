"""The default run leaves out what is deep: it is run where CI is set, and with the profiles that are."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out deep tests, unless they are asked for by profile or by name."""
    named = any("::" in argument for argument in config.args)
    if named or os.environ.get("CI") or config.getoption("survives_profile", None) in {"ci", "nightly"}:
        return
    deep = [item for item in items if item.get_closest_marker("deep")]
    if deep:
        config.hook.pytest_deselected(items=deep)
        items[:] = [item for item in items if item not in deep]
