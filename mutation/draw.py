"""Which mutants were asked for: of the modules that match, all, or of each so many, drawn by a seed."""

from __future__ import annotations

import hashlib
import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from mutation.results import UNCOUNTED, module_of, statuses
from mutation.tree import WORK

LAST = WORK / "draw.json"


@frozen
class Draw:
    """What one run is about. The same seed draws the same mutants, as long as a module has the same."""

    patterns: tuple[str, ...] = ()
    """Modules, as shell patterns; all where there are none."""
    sample: int | None = None
    """Of each module so many; all where it is None."""
    seed: int = 0

    def of(self, path: Path) -> frozenset[str]:
        """The names that are drawn from a module's file of results. What is not counted is never drawn."""
        if self.patterns and not any(fnmatch(module_of(path), pattern) for pattern in self.patterns):
            return frozenset()
        counted = [name for name, status in statuses(path).items() if status not in UNCOUNTED]
        return frozenset(sorted(counted, key=self._rank)[: self.sample])

    def _rank(self, name: str) -> bytes:
        return hashlib.sha256(f"{self.seed} {name}".encode()).digest()

    def keep(self) -> None:
        """Keep it for a later report."""
        LAST.write_text(json.dumps(asdict(self)))


def last() -> Draw:
    """What the last run was about: a report is of that, as whoever survived outside of it has been forgotten."""
    if not LAST.exists():
        return Draw()
    kept: dict[str, Any] = json.loads(LAST.read_text())
    return Draw(tuple(kept["patterns"]), kept["sample"], kept["seed"])
