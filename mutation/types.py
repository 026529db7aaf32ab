"""Mutants that mypy rejects: they would never get as far as a test, so they are neither run nor counted."""

from __future__ import annotations

import json
import subprocess
import sys
from bisect import bisect_right
from collections import defaultdict

from mutation.tree import MUTANTS

LOCAL = frozenset({"arg-type", "call-arg", "call-overload"})
"""Errors that speak of one call. Others can come from a mutant standing beside its siblings in one class."""


def _errors() -> dict[str, list[tuple[int, str]]]:
    """Of each file, the line and the code of what mypy says of it."""
    command = [sys.executable, "-m", "mypy", "--output", "json", "model", "impl"]
    out = subprocess.run(command, cwd=MUTANTS, check=False, capture_output=True, text=True)
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for line in out.stdout.splitlines():
        if line.startswith("{"):
            error = json.loads(line)
            found[error["file"]].append((error["line"], error["code"]))
    if not found:
        raise SystemExit(f"mypy said nothing of the mutants, so it did not run: {out.stderr or out.stdout}")
    return found


def _of_functions(path: str, errors: list[tuple[int, str]]) -> dict[str, set[str]]:
    spans = json.loads((MUTANTS / f"{path}.spans").read_text())["spans"]
    ordered = sorted((first, last, name) for name, (first, last) in spans.items())
    starts = [first for first, _, _ in ordered]
    found: dict[str, set[str]] = defaultdict(set)
    for line, code in errors:
        at = bisect_right(starts, line) - 1
        if at >= 0 and line <= ordered[at][1] and code in LOCAL:
            found[ordered[at][2]].add(code)
    return found


def rejected() -> set[str]:
    """The names of the mutants with an error that their original does not have, as mutmut spells them."""
    names: set[str] = set()
    for path, errors in _errors().items():
        if not (MUTANTS / f"{path}.spans").exists():
            continue
        by_function = _of_functions(path, errors)
        module = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for function, codes in by_function.items():
            original = function.rpartition("__mutmut_")[0] + "__mutmut_orig"
            if function != original and codes - by_function.get(original, set()):
                names.add(f"{module}.{function}")
    return names
