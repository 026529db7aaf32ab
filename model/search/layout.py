"""Where each component of a state stands in its integer.

::

    | kills left | revision | worker n: bits, number | ... | worker 1: bits, number | key m | ... | key 1 |

The bits of a worker say of which keys its view would still clear something. They stand beside its number, so that to
exchange two workers is to exchange two fields.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from attrs import field, frozen

SLOT_BITS = 20
WORKER_BITS = 16
REVISION_BITS = 2

T = TypeVar("T")


class SpaceTooLargeError(ValueError):
    """There are more distinct components than a state has room for."""


class Interned(Generic[T]):
    """Distinct values, numbered from 0 in the order in which they came."""

    def __init__(self, what: str, bits: int) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}
        self._what, self._bits = what, bits

    def __call__(self, value: T) -> int:
        """The number of a value. Raises SpaceTooLargeError where the field for it is full."""
        number = self._numbers.get(value)
        if number is None:
            number = len(self.values)
            if number >> self._bits:
                raise SpaceTooLargeError(
                    f"{number + 1:,} distinct {self._what} do not fit in {self._bits} bits; give smaller bounds"
                )
            self._numbers[value] = number
            self.values.append(value)
        return number


@frozen
class Layout:
    """Shifts and masks, in bits, for a number of workers and keys. Workers and keys count from 0."""

    workers: int
    keys: int
    worker_at: int = field(init=False)
    """Where the first worker's field begins; the keys' fields begin at 0."""
    worker_bits: int = field(init=False)
    """How wide a worker's field is, its number and its bits."""
    revision_at: int = field(init=False)
    kills_at: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        put = object.__setattr__
        put(self, "worker_at", SLOT_BITS * self.keys)
        put(self, "worker_bits", WORKER_BITS + self.keys)
        put(self, "revision_at", self.worker_at + self.worker_bits * self.workers)
        put(self, "kills_at", self.revision_at + REVISION_BITS)

    def slot_shift(self, key: int) -> int:
        """Where a key's number begins."""
        return SLOT_BITS * key

    def worker_shift(self, worker: int) -> int:
        """Where a worker's number begins."""
        return self.worker_at + self.worker_bits * worker

    def view_shift(self, worker: int) -> int:
        """Where a worker's bits begin, one for each key."""
        return self.worker_shift(worker) + WORKER_BITS

    def slot_mask(self, key: int) -> int:
        """The bits of a key's number."""
        return ((1 << SLOT_BITS) - 1) << self.slot_shift(key)

    def worker_mask(self, worker: int) -> int:
        """The bits of a worker's number."""
        return ((1 << WORKER_BITS) - 1) << self.worker_shift(worker)

    def revision_mask(self) -> int:
        """The bits of the policy revision."""
        return ((1 << REVISION_BITS) - 1) << self.revision_at

    def views_of(self, worker: int) -> int:
        """The bits of one worker's view."""
        return ((1 << self.keys) - 1) << self.view_shift(worker)

    def views_on(self, key: int) -> int:
        """The bits of every worker's view of one key."""
        return sum(1 << (self.view_shift(w) + key) for w in range(self.workers))
