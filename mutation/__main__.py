"""``python -m mutation``: mutate a copy of ``model/`` and ``impl/``, run the tests that reach each mutant, keep score.

What is known from an earlier run is not run again: of a function that changed, all its mutants are; where tests
changed, those that had survived.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mutation import draw, estimate, results, tree
from mutation.types import rejected
from mutation.wording import difference, reworded

GENERATE = """
import mutmut.__main__ as m
m.set_mutant_under_test("mutant_generation")
m.copy_src_dir(); m.copy_also_copy_files(); m.setup_source_paths(); m.create_mutants(2)
"""
"""The first step of ``mutmut run`` alone, so that a choice can be made among the mutants before the second."""
RUN = "from mutmut.__main__ import cli; cli()"
RUN_QUIETLY = (
    """
import mutmut.__main__, mutmut.stats
mutmut.__main__.print_status = mutmut.stats.print_status = lambda *told, **how: None
"""
    + RUN
)
"""Without the line that is written anew several times a second, which floods a file."""


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


def _choose(asked: draw.Draw) -> int:
    """Mark what is to be run, and return how many that is. What has run keeps its result."""
    mistyped = rejected()
    waiting = 0
    for path in results.files():
        words = reworded(path)

        def uncounted(name: str, was: results.Status, words: set[str] = words) -> results.Status:
            if name.rpartition(".")[2] in words:
                return results.REWORDED
            known = None if was in results.UNCOUNTED else was
            return results.MISTYPED if name in mistyped else known

        results.rewrite(path, uncounted)
        chosen = asked.of(path)

        def status(name: str, was: results.Status, chosen: frozenset[str] = chosen) -> results.Status:
            if was in {None, results.LEFT_OUT}:
                return None if name in chosen else results.LEFT_OUT
            return was

        results.rewrite(path, status)
        waiting += sum(was is None for was in results.statuses(path).values())
    return waiting


def _run(jobs: int) -> None:
    shared = Path("/dev/shm")  # noqa: S108 -- a folder of its own is made there: a sync costs nothing in memory
    scratch = tempfile.mkdtemp(prefix="mutation-", dir=shared if shared.is_dir() else None)
    environment = {**os.environ, "TMPDIR": scratch, "PYTHONHASHSEED": "0"}
    run = RUN if sys.stdout.isatty() else RUN_QUIETLY
    command = [sys.executable, "-c", run, "run", "--max-children", str(jobs)]
    try:
        subprocess.run(command, cwd=tree.WORK, check=True, env=environment)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _show_survivors(asked: draw.Draw) -> None:
    for path in results.files():
        chosen = asked.of(path)
        for name, status in results.statuses(path).items():
            if name in chosen and status in {results.SURVIVED, results.NO_TESTS}:
                print(f"{name}: {results.kind_of(status)}\n{difference(path, name.rpartition('.')[2])}\n")


def main() -> int:
    """Run what was asked for, and print its figures: also of what an earlier run has told of it."""
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("pattern", nargs="*", help="modules, as 'impl/sqlite/*'; all unless told")
    parser.add_argument("--sample", type=int, metavar="N", help="of each module only N mutants, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0, help="of the draw; 0 unless told")
    parser.add_argument("--jobs", type=int, default=2, help="processes; 2 unless told")
    parser.add_argument("--fresh", action="store_true", help="forget all results first")
    parser.add_argument(
        "--report", action="store_true", help="run nothing, print the figures of the last run, or of what is asked"
    )
    parser.add_argument("--survivors", action="store_true", help="as --report, each survivor as a difference")
    told = parser.parse_args()
    asked = draw.Draw(tuple(told.pattern), told.sample, told.seed)
    if told.fresh:
        shutil.rmtree(tree.WORK, ignore_errors=True)
    if (told.report or told.survivors) and asked == draw.Draw():
        asked = draw.last()
    if told.survivors:
        _show_survivors(asked)
        return 0
    if not told.report:
        tree.refresh()
        _generate()
        _forget_what_tests_may_change()
        asked.keep()
        if _choose(asked):
            _run(told.jobs)
    modules = results.rows(asked.of)
    print(f"{results.table(modules)}\n\n{estimate.told(modules)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
