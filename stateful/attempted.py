"""Attempts of one operation on a virtual clock, whatever its sink answers; what ``survives attempts`` runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from attrs import frozen

from model.attempts import EventKind, Said
from model.contracts import Contracts
from model.properties import ANSWERS, CONFORMS
from stateful.shard import NamedScripts
from stateful.subject import Subject
from stateful.swept import Piece, Swept, sweep
from stateful.workers import Report

RANDOM_RUNS = 1_000
"""In a shard."""
RANDOM_EVENTS = 4
JUDGED = frozenset(
    {
        *("one-effect", "bounded-attempts", "deadline-kept", "true-completion", "unknown-kept", "cancel-honoured"),
        *("first-receipt", "lease-kept", CONFORMS.id, ANSWERS.id),
    }
)
"""The promises that attempts can break, and that are looked at here."""


@frozen
class Attempted(Swept):
    """What the attempts came to."""

    FORMAT: ClassVar[str] = "survives-attempts"

    attempts: int = 0
    events: int = 0
    random: int = 0
    kinds: tuple[str, ...] = ()

    @property
    def totals(self) -> Counter[str]:
        """Runs, turns of the loop, sends, and events by kind."""
        total: Counter[str] = Counter()
        for tally in self.tallies:
            total.update(tally.attempts)
        return total

    @property
    def is_complete(self) -> bool:
        """Whether anything was run."""
        return self.totals["runs"] > 0

    @property
    def events_by_kind(self) -> dict[str, int]:
        """How often something came from outside."""
        return {str(kind): self.totals[kind] for kind in EventKind if self.totals[kind]}

    def bound(self) -> dict[str, Any]:
        """How many answers and events, and how much that was."""
        return {
            "answers": self.attempts,
            "events": self.events,
            "event_kinds": list(self.kinds),
            "random_runs": self.random,
            "exhausted": bool(self.attempts) and not self.cut_short and not any(t.failed for t in self.tallies),
            "totals": dict(sorted(self.totals.items())),
        }


def attempt_everything(
    subject: Subject,
    contracts: Contracts,
    scripts: NamedScripts,
    seed: int,
    *,
    workers: int = 2,
    report: Callable[[Report], None] | None = None,
) -> Attempted:
    """Every script of up to so many answers with at most so many events of some kinds, and so many random runs besides.

    ``workers`` processes at a time; Ctrl-C ends it with what was found.
    """
    pieces = list(_pieces(scripts))
    done = sweep("attempts", subject, contracts, seed, pieces, workers=workers, report=report)
    bound = (scripts.attempts, scripts.events, scripts.random, scripts.kinds)
    looked_at = tuple(p for p in done.properties if p.property_id in JUDGED)
    return Attempted(subject, contracts, seed, looked_at, done.tallies, done.seconds, done.cut_short, *bound)


def _pieces(scripts: NamedScripts) -> Iterator[Piece]:
    """Short scripts first, so that what they show is not looked for in long ones; a shard has one first answer."""
    for number in range(1, scripts.attempts + 1):
        for said in Said:
            yield Piece(scripts=NamedScripts(number, scripts.events, str(said), kinds=scripts.kinds))
    for start in range(0, scripts.random, RANDOM_RUNS):
        yield Piece(scripts=NamedScripts(4, RANDOM_EVENTS, random=min(RANDOM_RUNS, scripts.random - start)))
