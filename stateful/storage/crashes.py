"""Every state in which a power cut may leave the disk, at each point of a log, within stated bounds.

Four families. *Tail*: of what is pending, the last operations are lost. *Subset*: any of it is lost. *Torn*: of one
write, some of the 512-byte sectors arrive. *Names*: of creations, deletions and renames any are lost or come before
the data. Up to ``Bounds.exhaustive`` pending operations all subsets are made, which contain the tails and the names;
above it a sample, drawn with a seed. The same log, bounds and seed give the same states in the same order.

A state costs what its files hold. Where all of them would come to more than ``Bounds.bytes_max``, a sample of the points
is cut instead, evenly spread, with those right before and after each mark first, and few states at each.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from enum import StrEnum
from hashlib import blake2b
from itertools import combinations

from attrs import define, field, frozen

from stateful.storage.disk import Disk, Pending
from stateful.storage.log import Files, Log, Mark, Write

SECTOR_BYTES = 512
_CACHE_BYTES = 64 << 20
_FILE_BYTES = 4 << 10
"""What a file costs besides its content."""
Choice = tuple[Pending, ...]


class Family(StrEnum):
    """What kind of loss made a state."""

    TAIL = "tail"
    SUBSET = "subset"
    TORN = "torn"
    NAMES = "names"


@frozen
class Bounds:
    """How much is enumerated at a point of the log."""

    exhaustive: int = 8
    """Up to so many pending operations all their subsets are made."""
    samples: int = 48
    """How many subsets are drawn where there are more."""
    window: int = 24
    """Where there are more: how many of the last are lost, and kept, one by one."""
    names: int = 6
    """Where there are more: up to so many pending operations on names all subsets are made, else folder by folder."""
    torn: int = 12
    """How many of the last pending writes are torn."""
    bytes_max: int = 16 << 30
    """How much all states together may hold, before only some of the points are cut."""


FEW = Bounds(exhaustive=3, samples=3, window=2, names=2, torn=1)
"""What is made at a point that was picked because not all of them can be cut."""
_STATES_A_POINT, _FEW_A_POINT = 24, 16
"""How many states a point comes to, about: they are counted before they are known."""


@frozen
class CrashState:
    """What a power cut may leave."""

    files: Files = field(repr=False)
    family: Family
    position: int
    """How many of the log's operations had been done."""
    last: str
    """The last of them, in words; empty before the first."""
    mark: Hashable | None
    """The value of the last mark before the cut."""
    pending: Choice = field(repr=False, eq=False)
    survivors: Choice = field(repr=False, eq=False)

    def lost(self, log: Log) -> list[str]:
        """What was pending and did not, or not wholly, survive, in words."""
        whole = {s.serial for s in self.survivors}
        partly = {s.position for s in self.survivors}
        return [
            f"{'torn' if p.position in partly else 'lost'}: {log.tell(p.position)}"
            for p in self.pending
            if p.serial not in whole
        ]


@define
class Counts:
    """What was enumerated. ``sampled`` of the ``points`` had more pending than ``Bounds.exhaustive``."""

    points: int = 0
    passed: int = 0
    """Points that were not cut, for what is stored is too large to cut all of them."""
    sampled: int = 0
    drawn: int = 0
    """How many subsets were drawn at those."""
    generated: int = 0
    distinct: int = 0
    pending_max: int = 0
    families: Counter[Family] = field(factory=Counter)
    """The distinct states by the family that came upon them first."""

    @property
    def is_exhaustive(self) -> bool:
        """Whether every subset of what was pending was made, at every point. Of torn writes only some ever are."""
        return not self.sampled and not self.passed

    def __str__(self) -> str:
        states = f"{self.distinct:,} crash states at {self.points:,} points"
        if self.passed:
            states += f" of {self.points + self.passed:,}"
        if self.is_exhaustive:
            return f"{states}, every subset of what was pending"
        return (
            f"{states}, {self.sampled:,} of them sampled ({self.drawn:,} subsets drawn, {self.pending_max:,} pending)"
        )


class Crashes:
    """The crash states of one log. Iterate over it once; ``counts`` grows meanwhile.

    With ``ignore_syncs`` the disk lies: every sync is as if it had done nothing.
    """

    def __init__(self, log: Log, bounds: Bounds | None = None, *, seed: int = 0, ignore_syncs: bool = False) -> None:
        self.log = log
        self.bounds = bounds or Bounds()
        self.seed = seed
        self._picked = _picked(log, self.bounds.bytes_max)
        if self._picked is not None:
            self.bounds = FEW
        self.counts = Counts()
        self._disk = Disk(log.base, ignore_syncs=ignore_syncs)
        self._tears: dict[int, list[Choice]] = {}
        self._contents: dict[tuple[int, ...], tuple[bytes, bytes]] = {}
        self._cached_bytes = 0
        self._seen: set[tuple[Hashable, bytes]] = set()

    def __iter__(self) -> Iterator[CrashState]:
        """The distinct states, in the order of the log."""
        mark: Hashable | None = None
        last, before, was_complete = "", 0, False
        for position in range(len(self.log) + 1):
            renewed = not position
            if position:
                operation = self.log.operations[position - 1]
                self._disk.apply(operation)
                last = self.log.tell(position - 1)
                if isinstance(operation, Mark):
                    mark, renewed = operation.value, True
            if self._picked is not None and position not in self._picked:
                self.counts.passed += 1
                continue
            pending = tuple(self._disk.pending)
            grew = len(pending) > before and not renewed
            is_complete = self._count(len(pending))
            if self._picked is None:
                choices = self._choices(position, pending, grew, was_complete and not renewed)
            else:
                choices = self._few(position, pending)
            for family, choice in choices:
                files = self._new_files(mark, choice)
                if files is not None:
                    self.counts.distinct += 1
                    self.counts.families[family] += 1
                    yield CrashState(files, family, position, last, mark, pending, choice)
            before, was_complete = len(pending), is_complete

    def _count(self, pending: int) -> bool:
        counts = self.counts
        counts.points += 1
        counts.pending_max = max(counts.pending_max, pending)
        is_complete = pending <= self.bounds.exhaustive
        counts.sampled += not is_complete
        return is_complete

    # -- choices ----------------------------------------------------------------------------------------------

    def _choices(
        self, position: int, pending: Choice, grew: bool, was_complete: bool
    ) -> Iterator[tuple[Family, Choice]]:
        """What may survive at a point, without what the point before had already.

        After one more operation only what contains it is new; after a sync nothing is, if the point before was
        complete: its states are those of before in which the synced data had survived.
        """
        for kept in (len(pending),) if grew else range(len(pending) + 1):
            yield Family.TAIL, pending[:kept]
        if len(pending) <= self.bounds.exhaustive:
            if grew or not was_complete:
                newest = pending[-1:] if grew and was_complete else ()
                for choice in _subsets(pending[: len(pending) - len(newest)]):
                    yield Family.SUBSET, choice + newest
        else:
            for choice in self._sampled(position, pending):
                yield Family.SUBSET, choice
            for choice in self._names(pending):
                yield Family.NAMES, choice
        for choice in self._torn(pending):
            yield Family.TORN, choice

    def _few(self, position: int, pending: Choice) -> Iterator[tuple[Family, Choice]]:
        """What may survive at a point that was picked: nothing, all, all but the last, and some of the others."""
        for kept in sorted({0, max(0, len(pending) - 1), len(pending)}):
            yield Family.TAIL, pending[:kept]
        for choice in self._sampled(position, pending):
            yield Family.SUBSET, choice
        for choice in self._names(pending):
            yield Family.NAMES, choice
        for choice in self._torn(pending):
            yield Family.TORN, choice

    def _sampled(self, position: int, pending: Choice) -> Iterator[Choice]:
        for at in range(max(0, len(pending) - self.bounds.window), len(pending)):
            yield pending[:at] + pending[at + 1 :]
            yield (pending[at],)
        rng = random.Random(f"{self.seed}:{position}")  # noqa: S311 - a sample, no secret
        self.counts.drawn += self.bounds.samples
        for _ in range(self.bounds.samples):
            share = rng.random()
            yield tuple(p for p in pending if rng.random() < share)

    def _names(self, pending: Choice) -> Iterator[Choice]:
        """Any of the operations on names, with all the data and with none."""
        names = tuple(p for p in pending if not p.is_data)
        if len(names) <= self.bounds.names:
            choices = list(_subsets(names))
        else:
            choices = [c for folder in sorted(_folders(names)) for c in self._names_of(folder, names)]
        for choice in choices:
            kept = {p.serial for p in choice}
            yield choice
            yield tuple(p for p in pending if p.is_data or p.serial in kept)

    def _names_of(self, folder: str, names: Choice) -> Iterator[Choice]:
        """Any of a folder's last names lost, all of the others kept."""
        mine = [p for p in names if folder in _folders((p,))][-self.bounds.names :]
        for choice in _subsets(mine):
            lost = {p.serial for p in mine} - {p.serial for p in choice}
            yield tuple(p for p in names if p.serial not in lost)

    def _torn(self, pending: Choice) -> Iterator[Choice]:
        """One write torn, with everything before it, and everything after it lost or kept."""
        for at in range(max(0, len(pending) - self.bounds.torn), len(pending)):
            for pieces in self._tears_of(pending[at]):
                yield pending[:at] + pieces
                if at + 1 < len(pending):
                    yield pending[:at] + pieces + pending[at + 1 :]

    def _tears_of(self, pending: Pending) -> list[Choice]:
        """The ways in which a write is torn: some of its sectors, cut where the file's sectors end."""
        known = self._tears.get(pending.serial)
        if known is None:
            known = self._tears[pending.serial] = self._torn_apart(pending)
        return known

    def _torn_apart(self, pending: Pending) -> list[Choice]:
        if not isinstance(pending.operation, Write):
            return []
        inode, offset, data = pending.operation
        inner = range(offset + SECTOR_BYTES - offset % SECTOR_BYTES, offset + len(data), SECTOR_BYTES)
        edges = [0, *(edge - offset for edge in inner), len(data)]
        sectors = len(edges) - 1
        if sectors < 2:
            return []
        spans: list[tuple[int, int]] = []
        for cut in sorted({1, sectors // 2, sectors - 1}):
            spans += [(0, cut), (cut, sectors)]
        tears = [(self._piece(pending, inode, offset, data, edges[a], edges[b]),) for a, b in spans]
        rng = random.Random(f"{self.seed}:torn:{pending.position}")  # noqa: S311
        drawn = [n for n in range(sectors) if rng.random() < 0.5]
        some = [self._piece(pending, inode, offset, data, edges[n], edges[n + 1]) for n in drawn]
        return [*tears, tuple(some)]

    def _piece(self, whole: Pending, inode: int, offset: int, data: bytes, begin: int, end: int) -> Pending:
        return Pending(self._disk.next_serial(), whole.position, Write(inode, offset + begin, data[begin:end]))

    # -- contents ---------------------------------------------------------------------------------------------

    def _new_files(self, mark: Hashable, survivors: Choice) -> Files | None:
        """The files that are left if these survive; None if they have been met after the same mark."""
        self.counts.generated += 1
        mine: dict[int, list[Pending]] = {}
        for survivor in survivors:
            if survivor.is_data:
                mine.setdefault(survivor.operation.inode, []).append(survivor)
        files: dict[str, bytes] = {}
        digest = blake2b(digest_size=16)
        for path, inode in sorted(self._disk.tree(survivors).items()):
            digest_of_content, content = self._content(inode, mine.get(inode, ()))
            files[path] = content
            digest.update(f"{path}\0".encode())
            digest.update(digest_of_content)
        key = (mark, digest.digest())
        if key in self._seen:
            return None
        self._seen.add(key)
        return files

    def _content(self, inode: int, survivors: Sequence[Pending]) -> tuple[bytes, bytes]:
        """An inode's digest and content; the same selection is asked for again and again."""
        key = (inode, self._disk.epochs.get(inode, 0), *(s.serial for s in survivors))
        known = self._contents.get(key)
        if known is None:
            content = self._disk.content(inode, survivors)
            if self._cached_bytes > _CACHE_BYTES:
                self._contents.clear()
                self._cached_bytes = 0
            self._cached_bytes += len(content)
            known = self._contents[key] = blake2b(content, digest_size=16).digest(), content
        return known


def _picked(log: Log, bytes_max: int) -> frozenset[int] | None:
    """The points that are cut, of a log whose states would hold more than so many bytes; None if all are."""
    points = len(log) + 1
    written = sum(len(operation.data) for operation in log.operations if isinstance(operation, Write))
    size = sum(map(len, log.base.values())) + min(written, _CACHE_BYTES) + _FILE_BYTES * len(log.base)
    if points * _STATES_A_POINT * size <= bytes_max:
        return None
    wanted = max(1, bytes_max // (_FEW_A_POINT * size))
    marks = [n for n, operation in enumerate(log.operations) if isinstance(operation, Mark)]
    beside = [*marks, *(n + 1 for n in marks)]  # right after an acknowledgement there is most to lose
    picked = set(_spread(beside, max(1, wanted // 2)))
    others = [n for n in range(points) if n not in picked]
    return frozenset(picked | set(_spread(others, wanted - len(picked))))


def _spread(points: Sequence[int], count: int) -> list[int]:
    """So many of the points, evenly spread, the last among them."""
    if count >= len(points):
        return list(points)
    return [points[len(points) - 1 - n * len(points) // count] for n in range(count)]


def _folders(names: Choice) -> set[str]:
    """The folders that some operations on names belong to."""
    folders: set[str] = set()
    for pending in names:
        folders |= pending.folders
    return folders


def _subsets(pending: Sequence[Pending]) -> Iterator[Choice]:
    """All subsets, small ones first, each in order."""
    for size in range(len(pending) + 1):
        yield from combinations(pending, size)
