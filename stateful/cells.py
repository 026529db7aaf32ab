"""The cells of the survival matrix: what each says, for people and for machines."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from attrs import field, frozen

from model.actions import Step
from stateful.columns import COLUMNS


class Mark(StrEnum):
    """What a cell says."""

    SURVIVES = "survives"
    VIOLATED = "violated"
    AS_LESS = "as with less"
    """What breaks here breaks with less too: without any failure, or by the mere passing of time."""
    BOUNDED = "bounded"
    """A bound cut the search: nothing was found so far."""
    UNSUPPORTED = "unsupported"
    """It was searched, and cannot be executed here."""
    NOT_APPLICABLE = "not applicable"


@frozen
class Cell:
    """One contract choice under one kind of failure.

    ``executed`` counts transitions on the real dispatcher, ``crashes`` crash states of its storage, ``faults`` storage
    calls that failed, and ``runs`` those of a runner on a virtual clock; ``agrees`` says whether they were as the model
    has them.
    """

    row: str
    column: str
    mark: Mark
    states: int = 0
    transitions: int = 0
    property_id: str = ""
    labels: tuple[str, ...] = ()
    steps: tuple[Step, ...] = field(default=(), repr=False)
    answers: tuple[str, ...] = ()
    executed: int = 0
    crashes: int = 0
    faults: int = 0
    runs: int = 0
    agrees: bool = True
    note: str = ""
    less: str = ""
    """The column with less in it in which the same breaks."""

    @property
    def text(self) -> str:
        """The cell in a few words."""
        match self.mark:
            case Mark.VIOLATED:
                return f"{self.property_id} ({len(self.labels)})"
            case Mark.SURVIVES:
                return f"survives ({self.states:,})"
            case Mark.BOUNDED:
                return f"bounded ({self.states:,})"
            case Mark.AS_LESS:
                return f"as {self.less}"
            case Mark.UNSUPPORTED:
                return "unsupported"
        return "-"

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "contract": self.row,
            "failure": self.column,
            "verdict": str(self.mark),
            "states": self.states,
            "transitions": self.transitions,
            "property": self.property_id,
            "trace": list(self.labels),
            "executed_on_sqlite": self.executed,
            "crash_states_judged": self.crashes,
            "storage_calls_failed": self.faults,
            "runs_judged": self.runs,
            "agrees": self.agrees,
            "as": self.less,
            "note": self.note,
        }


@frozen
class Matrix:
    """The cells, row by row."""

    cells: tuple[Cell, ...]

    def cell(self, row: str, column: str) -> Cell:
        """One cell."""
        return next(c for c in self.cells if c.row == row and c.column == column)

    @property
    def agrees(self) -> bool:
        """Whether model and implementation agree in every cell."""
        return all(c.agrees for c in self.cells)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        bound = {c.name: c.says for c in COLUMNS.values()}
        return {
            "format": "survives-matrix",
            "version": 1,
            "bound": "2 workers, 1 key, 2 grants; lease and approval 1 tick, deadline 2 ticks, 2 attempts",
            "failures": bound,
            "cells": [c.to_json() for c in self.cells],
        }
