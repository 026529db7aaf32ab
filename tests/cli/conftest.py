"""The command, called in this process or started as one of its own, and campaigns that are small."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from stateful import campaign, cli

ROOT = Path(__file__).parents[2]
ORDERS = {"machine": 20, "walk": 150, "kills": 2}


@frozen
class Said:
    """What came of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def survives(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Said]:
    """The command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["survives", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return Said(int(ended.value.code or 0), said.out, said.err)

    return call


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Campaigns of one wave and few orders, with the named engines alone."""
    whole = campaign.plan

    def make(*engines: str, orders: int = 0) -> None:
        def plan(*args: Any, **kwargs: Any) -> Any:
            shards = [s for s in whole(*args, **kwargs)[0] if s.engine in engines]
            return [[evolve(s, size=orders or ORDERS[s.engine]) for s in shards]]

        monkeypatch.setattr(campaign, "plan", plan)

    return make


@pytest.fixture
def started(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """A script in a process and a session of its own; it finds our packages where this process does."""

    def start(script: str, *arguments: object) -> subprocess.Popen[str]:
        script = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{script}"
        command = [sys.executable, "-c", script, *map(str, arguments)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, start_new_session=True)

    return start
