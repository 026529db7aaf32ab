"""Adapters that are tiny scripts of their own, without the helper, and the proof that nothing of them is left."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stateful import medium
from stateful.foreign import catalogue, examine
from stateful.foreign.adapter import Adapter
from stateful.foreign.examine import Examination, Examined
from stateful.foreign.facts import Facts
from stateful.foreign.order import Order
from stateful.foreign.stage import Stage
from tests.foreign.scripts import PREAMBLE, QUICK

MARK = "SURVIVES_TESTED"
"""In the environment of whatever a test starts."""


def _marked(mark: str) -> list[str]:
    """The processes that have a mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(f"{folder.name} {(folder / 'cmdline').read_bytes()!r}")
        except OSError:
            continue  # another's, or it has just ended
    return found


@pytest.fixture
def nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """After each test there is no process that it started, and no temporary folder."""
    mark, folders = uuid.uuid4().hex, tmp_path_factory.mktemp("folders")
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setattr(medium, "scratch", folders)
    yield folders
    assert ([], []) == (_marked(mark), list(folders.rglob("system-*")))
    assert [] == [f for f in folders.iterdir() if f.name.startswith("survives-")]


@pytest.fixture
def scratch(nothing_is_left: Path) -> Path:
    """Where a system's folders go."""
    return nothing_is_left


@pytest.fixture
def tiny(tmp_path: Path, nothing_is_left: Path) -> Callable[..., Adapter]:
    """An adapter that is the preamble and a few lines; without the helper, so that it starts in 10 ms."""

    def make(body: str, *arguments: object, patience: float = 60, name: str = "tiny.py") -> Adapter:
        path = tmp_path / name
        path.write_text(PREAMBLE + body, "utf-8")
        command = (sys.executable, "-I", "-S", str(path), *map(str, arguments))
        return Adapter(name, command, tmp_path, patience)

    return make


@pytest.fixture
def quick(tiny: Callable[..., Adapter]) -> Callable[..., Adapter]:
    """A small system, honest or with one sin, that makes some claims."""

    def make(way: str, *claims: str, abilities: tuple[str, ...] = ()) -> Adapter:
        return tiny(QUICK, way, ",".join(claims), *abilities, name="quick.py")

    return make


@pytest.fixture
def examined(scratch: Path) -> Callable[..., Examined]:
    """An examination, without the sweep and in one worker if nothing else is said."""

    def run(adapter: Adapter, **how: Any) -> Examined:
        return Examination(adapter, scratch, **{"workers": 1, "sweep": False, "slow": False, **how}).run()

    return run


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Examinations of the orders alone whose names these words match."""

    def choose(*patterns: str) -> None:
        def chosen(*recipe: Any) -> list[Order]:
            return [o for o in catalogue.orders(*recipe) if any(re.fullmatch(p, o.name) for p in patterns)]

        monkeypatch.setattr(examine, "orders", chosen)

    return choose


@pytest.fixture
def staged(scratch: Path) -> Callable[[Adapter, Order], Facts]:
    """One order on an adapter."""

    def run(adapter: Adapter, order: Order, **how: Any) -> Facts:
        adapter.ask(scratch)
        return Stage(adapter, scratch, **how).run(order)

    return run
