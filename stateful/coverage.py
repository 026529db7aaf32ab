"""What of all failure orders a campaign has tried: ordered pairs and triples of actions, shapes of the world, deaths.

Two actions are a pair if one came right after the other in an order. A campaign that has tried little says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from attrs import define, field

from model.actions import ALPHABET, DEATHS, Verb
from model.words import Capability
from stateful.order import Told

PAIRS_FLOOR = 0.5
"""A campaign that has seen a smaller share of the pairs is vacuous."""
UNSEEN_SHOWN = 6
_NUMBER = {verb: number for number, verb in enumerate(Verb)}
_VERBS = tuple(Verb)
_COUNT = len(_VERBS)


@define
class Coverage:
    """How often which pairs and triples of verbs were seen, and how many deaths there were inside which operation."""

    pairs: Counter[int] = field(factory=Counter)
    triples: set[int] = field(factory=set)
    deaths: Counter[str] = field(factory=Counter)
    """By operation and boundary."""

    def take(self, told: Iterable[Told]) -> None:
        """Count one order."""
        before = last = -1
        for one in told:
            step = one.step
            number = _NUMBER[step.action.verb]
            if step.kill_at:
                self.deaths[f"{step.action.verb}:{step.kill_at}"] += 1
            if last >= 0:
                pair = last * _COUNT + number
                self.pairs[pair] += 1
                if before >= 0:
                    self.triples.add(before * _COUNT * _COUNT + pair)
            before, last = last, number

    def add(self, other: Coverage) -> None:
        """Count what another campaign, or another part of one, has tried."""
        self.pairs.update(other.pairs)
        self.triples |= other.triples
        self.deaths.update(other.deaths)

    def summary(self, capabilities: frozenset[Capability]) -> Summary:
        """What was tried of what could be, for a subject with these parts."""
        verbs = [v for v in _VERBS if ALPHABET[v].needs is None or ALPHABET[v].needs in capabilities]
        every = [(a, b) for a in verbs for b in verbs]
        unseen = [f"{a} > {b}" for a, b in every if not self.pairs[_NUMBER[a] * _COUNT + _NUMBER[b]]]
        operations = {v for v in verbs if ALPHABET[v].stores and v not in DEATHS}
        died = {name.partition(":")[0] for name in self.deaths}
        return Summary(
            pairs=len(every) - len(unseen),
            pairs_possible=len(every),
            triples=len(self.triples),
            triples_possible=len(verbs) ** 3,
            boundaries=len(self.deaths),
            operations=len(died & {str(v) for v in operations}),
            operations_possible=len(operations),
            never_died=tuple(sorted(str(v) for v in operations if str(v) not in died)),
            unseen=tuple(unseen),
        )


@define
class Summary:
    """A coverage in numbers, and what is missing."""

    pairs: int
    pairs_possible: int
    triples: int
    triples_possible: int
    boundaries: int
    """Different places in operations at which a process died."""
    operations: int
    operations_possible: int
    never_died: tuple[str, ...]
    """The operations in which nobody ever died."""
    unseen: tuple[str, ...]
    """The pairs that never came."""

    @property
    def is_little(self) -> bool:
        """Whether so few pairs were seen that nothing follows from what did not break."""
        return self.pairs < PAIRS_FLOOR * self.pairs_possible

    def told(self) -> str:
        """In a line."""
        shown = ", ".join(self.unseen[:UNSEEN_SHOWN]) + (", ..." if len(self.unseen) > UNSEEN_SHOWN else "")
        return (
            f"{self.pairs} of {self.pairs_possible} ordered pairs of actions, {self.triples:,} of "
            f"{self.triples_possible:,} triples; deaths at {self.boundaries} places of {self.operations} of "
            f"{self.operations_possible} operations" + (f"; never: {shown}" if shown else "")
        )

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "pairs": self.pairs,
            "pairs_possible": self.pairs_possible,
            "triples": self.triples,
            "triples_possible": self.triples_possible,
            "boundaries": self.boundaries,
            "operations_with_deaths": self.operations,
            "operations_possible": self.operations_possible,
            "operations_without_deaths": list(self.never_died),
            "pairs_never_seen": list(self.unseen),
            "floor": PAIRS_FLOOR,
        }
