"""``python -m mutation``: mutate a copy of ``model/`` and ``impl/``, run the tests that reach each mutant, keep score.

What is known from an earlier run is not run again: of a function that changed, all its mutants are; where tests
changed, those that had survived.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path

from mutation import results, tree
from mutation.types import rejected
from mutation.wording import difference, reworded

GENERATE = """
import mutmut.__main__ as m
m.set_mutant_under_test("mutant_generation")
m.copy_src_dir(); m.copy_also_copy_files(); m.setup_source_paths(); m.create_mutants(2)
"""
"""The first step of ``mutmut run`` alone, so that a choice can be made among the mutants before the second."""


def _generate() -> None:
    tree.MUTANTS.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", GENERATE]
    subprocess.run(command, cwd=tree.WORK, check=True, stdout=subprocess.DEVNULL)


def _forget_what_tests_may_change() -> None:
    mark, now = tree.WORK / "judges", tree.judges_hash()
    if mark.exists() and mark.read_text() == now:
        return
    (tree.MUTANTS / "mutmut-stats.json").unlink(missing_ok=True)
    for path in results.files():
        results.rewrite(path, lambda _, was: None if was in results.ADRIFT else was)
    mark.write_text(now)


def _rank(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed} {name}".encode()).digest()


def _choose(patterns: list[str], sample: int | None, seed: int) -> int:
    """Mark what is to be run, and return how many that is. What has run keeps its result."""
    mistyped = rejected()
    waiting = 0
    for path in results.files():
        known = results.statuses(path)
        words = reworded(path)
        uncounted = {n: results.REWORDED for n in known if n.rpartition(".")[2] in words}
        uncounted |= {n: results.MISTYPED for n in known if n in mistyped}
        typed = sorted((name for name in known if name not in uncounted), key=lambda name: _rank(seed, name))
        asked = not patterns or any(fnmatch(results.module_of(path), pattern) for pattern in patterns)
        chosen = set(typed[:sample]) if asked else set()

        def status(
            name: str, was: results.Status, uncounted: dict[str, int] = uncounted, chosen: set[str] = chosen
        ) -> results.Status:
            if name in uncounted:
                return uncounted[name]
            has_run = was not in {None, results.LEFT_OUT, results.MISTYPED, results.REWORDED}
            return was if has_run else None if name in chosen else results.LEFT_OUT

        results.rewrite(path, status)
        waiting += sum(was is None for was in results.statuses(path).values())
    return waiting


def _run(jobs: int) -> None:
    shared = Path("/dev/shm")  # noqa: S108 -- a folder of its own is made there: a sync costs nothing in memory
    scratch = tempfile.mkdtemp(prefix="mutation-", dir=shared if shared.is_dir() else None)
    environment = {**os.environ, "TMPDIR": scratch, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-c", "from mutmut.__main__ import cli; cli()", "run", "--max-children", str(jobs)]
    try:
        subprocess.run(command, cwd=tree.WORK, check=True, env=environment)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _show_survivors() -> None:
    for path in results.files():
        for name, status in results.statuses(path).items():
            if status in {results.SURVIVED, results.NO_TESTS}:
                print(f"{name}: {results.kind_of(status)}\n{difference(path, name.rpartition('.')[2])}\n")


def main() -> int:
    """Run what was asked for, and print the figures of all that has ever run on this code."""
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("pattern", nargs="*", help="modules, as 'impl/sqlite/*'; all unless told")
    parser.add_argument("--sample", type=int, metavar="N", help="of each module only N mutants, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0, help="of the draw; 0 unless told")
    parser.add_argument("--jobs", type=int, default=2, help="processes; 2 unless told")
    parser.add_argument("--fresh", action="store_true", help="forget all results first")
    parser.add_argument("--report", action="store_true", help="run nothing, print the figures")
    parser.add_argument("--survivors", action="store_true", help="run nothing, print each survivor as a difference")
    asked = parser.parse_args()
    if asked.fresh:
        shutil.rmtree(tree.WORK, ignore_errors=True)
    if asked.survivors:
        _show_survivors()
        return 0
    if not asked.report:
        tree.refresh()
        _generate()
        _forget_what_tests_may_change()
        if _choose(asked.pattern, asked.sample, asked.seed):
            _run(asked.jobs)
    print(results.table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
