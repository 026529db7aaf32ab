"""One power cut as data: where in the storage log it came, and what of the pending writes survived."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import frozen

from stateful.storage.crashes import CrashState
from stateful.storage.disk import Disk, Pending
from stateful.storage.log import Files, Log, Mark, Write

POSITION_MAX = 1_000_000
FIELD = "cut"


class CutError(ValueError):
    """A power cut cannot be read, or does not fit what was recorded: the message says where, why, and what to do."""


@frozen
class Piece:
    """A pending operation that survived: its place in the log, and of a torn write the bytes that did."""

    position: int
    begin: int = 0
    end: int | None = None

    def to_json(self) -> Any:
        """For a trace."""
        return self.position if self.end is None else [self.position, self.begin, self.end]


@frozen
class Cut:
    """A power cut after so many operations of the log, and what was pending then and survived."""

    position: int
    survivors: tuple[Piece, ...] = ()
    answered: int = 0
    """How many steps had been answered."""

    def to_json(self) -> dict[str, Any]:
        """For a trace."""
        survived = [piece.to_json() for piece in self.survivors]
        return {"answered": self.answered, "position": self.position, "survived": survived}

    def fitting(self, log: Log) -> Cut:
        """The cut as it is if the log has such operations; else everything is lost when as many steps are answered.

        Another dispatcher, or another contract, has other storage operations.
        """
        if answered_by(log, self.position) == self.answered and self._is_pending(log):
            return self
        marks = [n for n, operation in enumerate(log.operations, start=1) if isinstance(operation, Mark)]
        return Cut(marks[min(self.answered, len(marks) - 1)] if marks else 0, (), self.answered)

    def _is_pending(self, log: Log) -> bool:
        try:
            left_by(log, self)
        except CutError:
            return False
        return True


def answered_by(log: Log, position: int) -> int:
    """How many steps had been answered after so many operations; the first mark stands before the first step."""
    return max(0, sum(isinstance(operation, Mark) for operation in log.operations[:position]) - 1)


def cut_of(state: CrashState) -> Cut:
    """The cut that leaves a crash state."""
    whole = {p.serial for p in state.pending}
    starts = {p.position: p.operation for p in state.pending}
    survivors = tuple(_piece(p, starts, whole=p.serial in whole) for p in state.survivors)
    return Cut(state.position, survivors, state.mark if isinstance(state.mark, int) else 0)


def _piece(pending: Pending, starts: dict[int, Any], *, whole: bool) -> Piece:
    if whole or not isinstance(pending.operation, Write):
        return Piece(pending.position)
    begin = pending.operation.offset - starts[pending.position].offset
    return Piece(pending.position, begin, begin + len(pending.operation.data))


def left_by(log: Log, cut: Cut) -> Files:
    """The files that a cut leaves of a log. Raises CutError where the log has no such operations pending."""
    if cut.position > len(log):
        raise CutError(f"the cut comes after {cut.position} storage operations, and there are only {len(log)}")
    disk = Disk.after(log, cut.position)
    pending = {p.position: p for p in disk.pending}
    survivors = []
    for piece in cut.survivors:
        found = pending.get(piece.position)
        if found is None:
            raise CutError(f"storage operation {piece.position} is not pending when the power is cut")
        survivors.append(found if piece.end is None else _torn(disk, found, piece))
    return disk.files(survivors)


def lost_by(log: Log, cut: Cut) -> Iterator[str]:
    """What was pending when the power failed and did not, or not wholly, survive, in words."""
    kept = {piece.position: piece.end is not None for piece in cut.survivors}
    for pending in Disk.after(log, cut.position).pending:
        if kept.get(pending.position, True):
            yield f"{'torn' if pending.position in kept else 'lost'}: {log.tell(pending.position)}"


def _torn(disk: Disk, whole: Pending, piece: Piece) -> Pending:
    if not isinstance(whole.operation, Write):
        raise CutError(f"storage operation {piece.position} is no write, and only a write can be torn")
    inode, offset, data = whole.operation
    part = Write(inode, offset + piece.begin, data[piece.begin : piece.end])
    return Pending(disk.next_serial(), whole.position, part)


def cut_from_json(raw: Any) -> Cut:
    """The cut in a trace. Raises CutError."""
    names = {"answered", "position", "survived"}
    if not isinstance(raw, dict) or set(raw) != names or not isinstance(raw["survived"], list):
        raise CutError(f'"cut" is {raw!r}; it has answered, position, and a list of what survived')
    for name in ("answered", "position"):
        if not _is_number(raw[name]):
            raise CutError(f'"cut": {name} is {raw[name]!r}, not a number from 0 to {POSITION_MAX:,}')
    survived = tuple(_piece_from_json(one) for one in raw["survived"])
    return Cut(raw["position"], survived, raw["answered"])


def _piece_from_json(raw: Any) -> Piece:
    if _is_number(raw):
        return Piece(raw)
    if isinstance(raw, list) and len(raw) == 3 and all(map(_is_number, raw)) and raw[1] < raw[2]:
        return Piece(*raw)
    raise CutError(f'"cut": {raw!r} is neither the number of a storage operation nor [number, first byte, end]')


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= POSITION_MAX
