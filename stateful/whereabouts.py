"""Where an order has led: all that the rest of it can depend on, so that two orders that lead to the same are told.

That is the worlds that are still possible, every row and file, and the head of every process, with what its dispatcher
and that one's parts hold as attributes. What a subject keeps in its module, or behind an object of its own, is not
looked at: no seeded mistake keeps anything there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stateful.bench import SINK_FILE, Process
from stateful.medium import View
from stateful.oracle import LEDGER_FILE
from stateful.order import Rig

_PLAIN = (bool, int, str, bytes, type(None))
_PARTS = ("impl.sqlite", "impl.mistakes")
_OF_THE_LAST_TRANSACTION = "_looked"
"""What the ledger's last transaction has read; the next one forgets it before it reads anything."""
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"


class Whereabouts:
    """Tells where a rig's order has led. Close it when the rig is not closed with it."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._views: list[tuple[View, tuple[str, ...]]] = []
        self._generation = -1

    def close(self) -> None:
        """Let go of the stores."""
        for view, _ in self._views:
            view.close()
        self._views = []
        self._generation = -1

    def now(self) -> object:
        """What is equal for two orders only if they can go on alike."""
        rig = self._rig
        return (
            rig.judge.worlds,
            rig.bench.time.now_ms,
            tuple(self._rows()),
            tuple(rig.medium.snapshot().items()),
            tuple(_head(process) for process in rig.bench.processes),
        )

    def _rows(self) -> Iterator[object]:
        medium = self._rig.medium
        if self._generation != medium.generation:
            self.close()
            self._generation = medium.generation
            for file in (Path(LEDGER_FILE), SINK_FILE):
                view = medium.look(medium.folder / file)
                tables = tuple(f"SELECT * FROM {name}" for (name,) in view.rows(_TABLES).fetchall())  # noqa: S608
                self._views.append((view, tables))
        for view, tables in self._views:
            for sql in tables:
                yield tuple(view.rows(sql).fetchall())


def _head(process: Process) -> object:
    """What one process has in its head, and what its dispatcher and its parts hold."""
    return (
        process.name,
        process.other_settings,
        process.clock.wall_offset_ms,
        tuple(process.tokens),
        tuple(process.answers),
        tuple(process.receipts),
        repr(process.permit) if process.permit else "",
        process.overdue,
        getattr(process.sink, "reply", None),
        None if process.dispatcher is None else _held(process.dispatcher, depth=2),
    )


def _held(part: Any, depth: int) -> tuple[object, ...]:
    """The attributes that tell one state of an object from another: plain values, collections, and those of its parts."""
    held: list[object] = []
    for name, value in vars(part).items():
        if isinstance(value, _PLAIN):
            held.append((name, value))
        elif isinstance(value, list | tuple | dict | set | frozenset):
            if name != _OF_THE_LAST_TRANSACTION:
                held.append((name, repr(value)))
        elif depth > 0 and type(value).__module__.startswith(_PARTS) and hasattr(value, "__dict__"):
            held.append((name, _held(value, depth - 1)))
    return tuple(held)
