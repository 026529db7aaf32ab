"""An order on a called system against the system's own start and call; a sweep of 35 statements against two minutes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.rows import Row, by_turns
from stateful.foreign.adapter import Adapter
from stateful.foreign.examine import Examination
from stateful.foreign.naming import adapter_named
from stateful.foreign.order import Do, Order, Step
from stateful.foreign.stage import Stage
from stateful.medium import fast_folder

TOY = Path(__file__).parents[1] / "examples" / "adapters" / "toy.py"
ORDERS = 10
SWEEP_S = 120.0
STATEMENTS = 35
BARE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1] + "/toy.sqlite3", isolation_level=None)
db.execute("CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, payload TEXT, receipt TEXT)")
db.execute("INSERT OR IGNORE INTO calls VALUES ('k1', 'p', NULL)")
db.execute("SELECT payload, receipt FROM calls WHERE key = 'k1'").fetchone()
db.execute("UPDATE calls SET receipt = 'r' WHERE key = 'k1'")
"""
"""What the toy does, without a wire."""
LONG = """
import sqlite3
from survives_adapter import Claim, System, serve

class Long(System):
    name, claims = "long", [Claim("at-most-once", "...")]

    def open(self):
        self.db = sqlite3.connect(self.folder / "long.sqlite3", isolation_level=None)
        self.db.execute("CREATE TABLE IF NOT EXISTS calls (key TEXT, step INTEGER, PRIMARY KEY (key, step))")

    def start(self, key, payload):
        for step in range({statements}):
            self.db.execute("INSERT OR IGNORE INTO calls VALUES (?, ?)", (key, step))
        return self.effect(key, payload)

serve(Long)
"""


def rows() -> list[Row]:
    """Seconds an order, and seconds a sweep."""
    scratch = fast_folder("survives-bench-")
    try:
        toy = adapter_named([str(TOY)])
        toy.ask(scratch)
        ours, bare = by_turns(_seconds(lambda: _orders(toy, scratch)), _seconds(lambda: _bare(scratch)))
        return [
            Row(
                "foreign, an order of two processes",
                "its system's own starts and calls",
                "s",
                ours,
                bare,
                1.5,
                higher_is_better=False,
            ),
            Row(
                f"foreign, a sweep of {STATEMENTS} statements",
                f"{SWEEP_S:g} s on two cores",
                "s",
                _sweep(scratch),
                SWEEP_S,
                1,
                higher_is_better=False,
            ),
        ]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _seconds(work: Callable[[], None]) -> Callable[[], float]:
    def measured() -> float:
        began = time.perf_counter()
        work()
        return (time.perf_counter() - began) / ORDERS

    return measured


def _orders(adapter: Adapter, scratch: Path) -> None:
    """An order with one process of its own, and the one that brings everything to rest."""
    for _ in range(ORDERS):
        facts = Stage(adapter, scratch).run(Order("once", (Step(Do.START, 1, 1, "p1"),)))
        assert not facts.trouble, facts.trouble


def _bare(scratch: Path) -> None:
    for _ in range(ORDERS):
        folder = scratch / "bare"
        folder.mkdir()
        for _ in range(2):
            subprocess.run([sys.executable, "-c", BARE, str(folder)], check=True)  # noqa: S603 - ours
        shutil.rmtree(folder)


def _sweep(scratch: Path) -> float:
    path = scratch / "long.py"
    path.write_text(LONG.format(statements=STATEMENTS), "utf-8")
    began = time.perf_counter()
    examined = Examination(adapter_named([str(path)]), scratch, workers=2).run()
    assert examined.statements == STATEMENTS, examined.troubles
    return time.perf_counter() - began
