"""What happened in the lanes, line by line: a whole call in one line, statement by statement where it was interrupted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from attrs import frozen

from model.words import Kind, Outcome, Stores
from stateful.judge import told
from stateful.schedules.calls import Said


@frozen
class Spoken:
    """One line of a lane, or (lane -1) of time."""

    lane: int
    text: str
    before: Stores
    after: Stores


def spoken(story: Iterable[Said]) -> Iterator[Spoken]:
    """The lines of a run. A call that nobody interrupted is one line."""
    pieces = [list(piece) for _, piece in groupby(story, key=lambda said: (said.lane, said.call))]
    parts: dict[tuple[int, int], int] = {}
    for piece in pieces:
        place = piece[0].lane, piece[0].call
        parts[place] = parts.get(place, 0) + 1
    for piece in pieces:
        first, last = piece[0], piece[-1]
        if first.lane < 0:
            yield from (_line(said, said, f"time: {said.action.label}" if said.action else "time") for said in piece)
        elif first.action is None:
            yield from (_line(said, said, "dies" if _died(said.outcome) else "ends") for said in piece)
        elif parts[first.lane, first.call] == 1 and last.outcome is not None and not _died(last.outcome):
            yield _line(first, last, f"{first.action.label} -> {told(last.outcome)}")
        else:
            yield from _statements(piece)


def _statements(piece: list[Said]) -> Iterator[Spoken]:
    for said in piece:
        assert said.action is not None
        if _died(said.outcome):
            yield _line(said, said, f"{said.action.label}: DIES before {said.did}")
        else:
            answer = f" -> {told(said.outcome)}" if said.outcome else ""
            yield _line(said, said, f"{said.action.label}: {said.did}{answer}")


def _died(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.kind is Kind.KILLED


def _line(first: Said, last: Said, text: str) -> Spoken:
    return Spoken(first.lane, text, first.before, last.after)
