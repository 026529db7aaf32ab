"""Symmetry: one state stands for all that differ only in what interchangeable parts are called.

A search through it sees each such class once. Its traces are still traces of the plain system: they are spelled by
walking the plain system along the classes, never by renaming labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, permutations

from attrs import evolve

from model.search.space import ModelSpace
from model.search.system import Bounds, Edge, S, System


class Symmetric(System[S]):
    """``system`` up to ``canonical``, which maps a state to the representative of its class.

    Sound if states of one class have the same properties and transitions into the same classes. ``canonical`` must be
    a pure function, and ``canonical(canonical(s)) == canonical(s)``.
    """

    def __init__(self, system: System[S], canonical: Callable[[S], S]) -> None:
        self.system = system
        self.canonical = canonical

    @property
    def initial(self) -> S:
        """The representative of the plain initial state."""
        return self.canonical(self.system.initial)

    def successors(self, state: S) -> Sequence[S]:
        """The representatives of the plain successors."""
        return [*map(self.canonical, self.system.successors(state))]

    def edges(self, state: S) -> Sequence[Edge[S]]:
        """The plain transitions out of a representative, their targets replaced by representatives."""
        return [evolve(edge, target=self.canonical(edge.target)) for edge in self.system.edges(state)]

    def bad(self, state: S) -> str:
        """What the representative breaks, and so every state of its class."""
        return self.system.bad(state)

    def broken(self, state: S) -> tuple[Sequence[str], Sequence[str]]:
        """What the representative breaks, by itself and by its transitions."""
        return self.system.broken(state)

    def shows(self, state: S) -> Sequence[str]:
        """What the representative shows."""
        return self.system.shows(state)

    def spell(self, path: Sequence[S], last: Callable[[Edge[S]], bool] | None = None) -> tuple[str, ...]:
        """Labels of the plain system, from its initial state, that go through the classes of ``path``.

        Raises ValueError where no plain transition leads into the next class: ``canonical`` is unsound.
        """
        here = self.system.initial
        labels = []
        for _, there in pairwise(path):
            edge = next((e for e in self.system.edges(here) if self.canonical(e.target) == there), None)
            if edge is None:
                raise ValueError(
                    f"{here!r} has no transition into the class of {there!r}: canonical() joins states that are not "
                    "interchangeable; let it join fewer"
                )
            labels.append(edge.label)
            here = edge.target
        if last is not None:
            labels += [edge.label for edge in self.system.edges(here) if last(edge)][:1]
        return tuple(labels)


def unsound(system: System[S], canonical: Callable[[S], S], bounds: Bounds) -> str:
    """Why ``canonical`` is no symmetry of ``system`` on the states within ``bounds``; "" if nothing speaks against it.

    Visits each plain state: a state and its representative must lead into the same classes and break the same.
    ``bounds.depth`` and ``bounds.states`` are heeded.
    """
    seen = {system.initial}
    layer, depth = [system.initial], 0
    while layer and (bounds.depth is None or depth < bounds.depth):
        following = []
        for state in layer:
            if bounds.states is not None and len(seen) > bounds.states:
                return ""
            found = _difference(system, canonical, state)
            if found:
                return found
            for target in system.successors(state):
                if target not in seen:
                    seen.add(target)
                    following.append(target)
        layer, depth = following, depth + 1
    return ""


def _difference(system: System[S], canonical: Callable[[S], S], state: S) -> str:
    other = canonical(state)
    if canonical(other) != other:
        return f"the representative {other!r} of {state!r} has another representative: {canonical(other)!r}"
    if _classes(system, canonical, state) != _classes(system, canonical, other):
        return f"{state!r} and its representative {other!r} lead into different classes"
    if set(_broken(system, state)) != set(_broken(system, other)):
        return f"{state!r} and its representative {other!r} break different properties"
    return ""


def _classes(system: System[S], canonical: Callable[[S], S], state: S) -> set[S]:
    # A transition inside the class is none to a search; which of its members has one is of no matter.
    return {canonical(target) for target in system.successors(state)} - {canonical(state)}


def _broken(system: System[S], state: S) -> list[str]:
    return [id_ for edge in system.edges(state) for id_ in edge.broken] if system.bad(state) else []


def interchangeable(space: ModelSpace) -> Callable[[int], int]:
    """The representative of a state of the model whose workers and keys are interchangeable.

    For each order of the keys the workers are sorted, and the least integer is taken. Workers differ in nothing but
    what they know, and keys in nothing but their rows: no action, answer or promise looks at a name or a number.
    """
    layout = space.layout
    if layout.keys == 1 and layout.workers == 2:
        return _two_workers(space)
    orders = list(permutations(range(layout.keys)))
    slot_masks = [(layout.slot_mask(k), layout.slot_shift(k)) for k in range(layout.keys)]
    field_mask = (1 << layout.worker_bits) - 1
    shifts = [layout.worker_shift(w) for w in range(layout.workers)]
    rest = -1 << layout.revision_at
    fields: list[dict[int, int]] = [{} for _ in orders]

    def renamed(field: int, number: int) -> int:
        known = fields[number].get(field)
        if known is None:
            known = fields[number][field] = space.with_keys_in_order(field, orders[number])
        return known

    def canonical(state: int) -> int:
        least = -1
        slots = [(state & mask) >> shift for mask, shift in slot_masks]
        workers = [state >> shift & field_mask for shift in shifts]
        for number, order in enumerate(orders):
            moved = workers if not number else [renamed(worker, number) for worker in workers]
            packed = 0
            for worker in sorted(moved, reverse=True):
                packed = packed << layout.worker_bits | worker
            for key in reversed(order):
                packed = packed << (layout.slot_mask(0).bit_length()) | slots[key]
            least = packed if least < 0 or packed < least else least
        return state & rest | least

    return canonical


def _two_workers(space: ModelSpace) -> Callable[[int], int]:
    """The common case, for a loop that does nothing else: two fields, put in order."""
    layout = space.layout
    first, width = layout.worker_shift(0), layout.worker_bits
    low = ((1 << width) - 1) << first
    rest = ~(low | low << width)

    def canonical(state: int) -> int:
        a, b = state & low, state >> width & low
        return state if a <= b else state & rest | a << width | b

    return canonical
