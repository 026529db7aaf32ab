"""What became of each mutant, as mutmut keeps it between runs: an exit status by the mutant's name."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from attrs import frozen

from mutation.tree import MUTANTS, ROOT

SURVIVED, NO_TESTS, LEFT_OUT, MISTYPED, REWORDED = 0, 33, 34, 37, 38
TIMEOUTS = frozenset({36, -24, 24, 152, 255})
KILLS = frozenset({1, 3, -9, -11})
"""A failed test, an error inside pytest, and a process that is killed or crashes."""
ADRIFT = frozenset({SURVIVED, NO_TESTS, LEFT_OUT, *TIMEOUTS})
"""What may come out otherwise when the tests change."""
UNCOUNTED = frozenset({MISTYPED, REWORDED})
Status = int | None


def kind_of(status: Status) -> str:
    """An exit status in one word."""
    if status is None:
        return "not run"
    if status in KILLS or status in TIMEOUTS:
        return "killed" if status in KILLS else "timeout"
    words = {SURVIVED: "survived", NO_TESTS: "no tests", LEFT_OUT: "left out", MISTYPED: "mistyped"}
    words[REWORDED] = "reworded"
    return words.get(status, f"status {status}")


def files() -> Iterator[Path]:
    """The files in which mutmut keeps results, one a module; not those of modules that are not mutated any more."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]["do_not_mutate"]
    paths = sorted(path for top in ("impl", "model") for path in (MUTANTS / top).rglob("*.meta"))
    return (path for path in paths if not any(fnmatch(module_of(path), pattern) for pattern in told))


def module_of(path: Path) -> str:
    """The module of a file of results, as a path from the root."""
    return str(path.relative_to(MUTANTS)).removesuffix(".meta")


def statuses(path: Path) -> dict[str, Status]:
    """Of each mutant of a module, its status."""
    found: dict[str, Status] = json.loads(path.read_text())["exit_code_by_key"]
    return found


def rewrite(path: Path, change: Callable[[str, Status], Status]) -> None:
    """Give each mutant of a module the status that ``change`` makes of its name and its status."""
    content = json.loads(path.read_text())
    content["exit_code_by_key"] = {name: change(name, was) for name, was in content["exit_code_by_key"].items()}
    path.write_text(json.dumps(content, indent=4))


Choice = Callable[[Path], frozenset[str]]
"""The names that are asked about, of a module's file of results."""


@frozen
class Row:
    """The figures of one module."""

    module: str
    counts: Counter[str]

    @property
    def made(self) -> int:
        """How many mutants there are."""
        return sum(self.counts.values())

    @property
    def counted(self) -> int:
        """How many of them count."""
        return self.made - self.counts["mistyped"] - self.counts["reworded"]

    @property
    def run(self) -> int:
        """How many were run, or would have been had a test reached them."""
        return self.counted - self.counts["left out"] - self.counts["not run"]

    @property
    def dead(self) -> int:
        """How many died."""
        return self.counts["killed"] + self.counts["timeout"]

    @property
    def score(self) -> str:
        """Of those that were run, how many died."""
        return f"{100 * self.dead / self.run:.1f} %" if self.run else "-"


def _row(path: Path, choice: Choice) -> Row:
    chosen = choice(path)
    kinds = (
        kind_of(status if name in chosen or status in UNCOUNTED else LEFT_OUT)
        for name, status in statuses(path).items()
    )
    return Row(module_of(path), Counter(kinds))


def rows(choice: Choice) -> list[Row]:
    """The figures of every module that has a mutant, of what is asked about."""
    return [row for row in (_row(path, choice) for path in files()) if row.made]


COLUMNS = ("mistyped", "reworded", "left out", "killed", "timeout", "survived", "no tests")


def table(modules: list[Row]) -> str:
    """The figures as a Markdown table, and of all modules together."""
    lines: list[tuple[str, ...]] = [
        ("module", "mutants", "mistyped", "reworded", "left out", "run", *COLUMNS[3:], "score")
    ]
    for row in [*modules, Row("together", sum((row.counts for row in modules), Counter()))]:
        numbers = (row.made, *(row.counts[c] for c in COLUMNS[:3]), row.run)
        lines.append((row.module, *map(str, numbers), *(str(row.counts[c]) for c in COLUMNS[3:]), row.score))
        strange = set(row.counts) - {*COLUMNS, "not run"}
        if strange and row.module != "together":
            print(
                f"{row.module}: {', '.join(f'{row.counts[k]} {k}' for k in strange)}, counted as run, not as killed"
            )
    head, *body = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([head, "|---" * len(lines[0]) + "|", *body])
