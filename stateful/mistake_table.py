"""The power of the engines: which of them catches which seeded mistake, after how many orders, in how few steps."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

from attrs import evolve, field, frozen

from impl.mistakes import MISTAKES, UnknownMistakeError
from model.actions import Step, Verb
from model.contracts import Contracts
from model.properties import CONFORMS
from stateful import medium
from stateful.children import die_with_parent
from stateful.shard import ENGINES, Shard, shard_seed
from stateful.shortest import Shortest, shortest
from stateful.subject import DEFAULT_SUBJECT, load_subject
from stateful.verdict import Broken, Tally
from stateful.workers import Interrupted, run_shards, terminating

ORDERS = {"walk": 3_000, "machine": 400, "kills": 1, "interleavings": 100, "faults": 8, "power": 1, "attempts": 2}
"""The most that an engine tries: orders; for kills one whole catalogue; for interleavings schedules of a program; for
faults one of so many parts of its catalogue, or all of it for what only faults show; for attempts every script of so
many, with an event."""
ALONE = {"faults": 1, "interleavings": 1_000}
"""The same where no other engine shows it."""
SECOND = "kills"
"""Who is asked where one engine alone catches what any order of whole operations may show."""
SECONDS_MAX = 3_600


@frozen
class Caught:
    """How one engine caught a mistake: the promise that broke, after how many orders, in how many steps."""

    engine: str
    property_id: str
    orders: int
    steps: int
    order: tuple[Step, ...] = ()
    """The reduced order, if it is one of whole operations and nothing else."""
    seconds: float = field(default=0.0, eq=False)
    """From the engine's start to the reduced order."""


@frozen
class Row:
    """One mistake and the engines that caught it, the one with the shortest trace first."""

    id: str
    kind: str
    sentence: str
    expected: str
    caught: tuple[Caught, ...]
    ran: tuple[str, ...] = ()
    """The engines that were tried."""
    shown_by: str = ""
    """What alone shows it; empty where orders of whole operations do."""
    shortest: Shortest | None = None
    """What a search of all shorter orders came to, if there was one."""

    def by(self, engine: str) -> Caught | None:
        """How ``engine`` caught it, if it did."""
        return next((c for c in self.caught if c.engine == engine), None)

    @property
    def searchable(self) -> tuple[Step, ...]:
        """The order that a search of shorter ones can be held against: nothing in it that stores in memory lack."""
        order = self.caught[0].order if self.caught else ()
        return () if any(s.action.verb is Verb.POWER_CUT for s in order) else order


def engines_for(mistake_id: str, asked: Iterable[str]) -> tuple[str, ...]:
    """The engines that were asked for; if none, the two that are fast, and the one that alone shows the mistake.

    Of a runner the fast ones know nothing: its mistakes are left to the engine that runs it.
    """
    alone = MISTAKES[mistake_id].shown_by
    chosen = set(asked) or ({alone} if alone == "attempts" else {"walk", "machine", alone})
    return tuple(e for e in ENGINES if e in chosen)


def mistake_table(
    ids: Iterable[str], seed: int, engines: Iterable[str], workers: int, *, search: bool = False
) -> list[Row]:
    """Run engines on every mistake (or on those of ``ids``) until it is caught or the engine's bound is reached.

    Where no engines are asked for, and one alone catches what others may catch too, another is tried. With ``search``
    each reduced order is held against all shorter ones. Raises UnknownMistakeError for an id that does not exist.
    """
    chosen, asked = tuple(ids) or tuple(MISTAKES), tuple(engines)
    for one in chosen:
        if one not in MISTAKES:
            raise UnknownMistakeError(one)
    scratch = medium.fast_folder("survives-run-")
    try:
        rows, ended = _rows([(one, engines_for(one, asked)) for one in chosen], seed, workers, scratch)
        if not asked and not ended:
            rows, ended = _second_opinions(rows, seed, workers, scratch)
        return searched(rows, workers, scratch) if search and not ended else rows
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _rows(
    names: Sequence[tuple[str, tuple[str, ...]]], seed: int, workers: int, scratch: Path
) -> tuple[list[Row], bool]:
    """A row for each mistake and its engines; True if somebody has ended it before the last."""
    shards = [shard_for(one, engine, seed, scratch) for one, engines in names for engine in engines]
    ended = False
    try:
        tallies = run_shards(shards, workers, time.monotonic() + SECONDS_MAX, None, [])
    except Interrupted as stop:
        tallies = [*stop.tallies, *(Tally(s.engine) for s in shards[len(stop.tallies) :])]
        ended = True
    left = iter(tallies)
    return [row_of(one, [next(left) for _ in engines]) for one, engines in names], ended


def _second_opinions(rows: list[Row], seed: int, workers: int, scratch: Path) -> tuple[list[Row], bool]:
    """The same, but that another engine was tried wherever one alone caught what is not said to need it."""
    alone = [(r.id, (SECOND,)) for r in rows if len(r.caught) == 1 and not r.shown_by]
    tried, ended = _rows(alone, seed, workers, scratch)
    more = {r.id: r.caught for r in tried}
    return [
        evolve(r, caught=_best_first([*r.caught, *more[r.id]]), ran=(*r.ran, SECOND)) if r.id in more else r
        for r in rows
    ], ended


def shard_for(mistake: str, engine: str, seed: int, scratch: Path) -> Shard:
    """What an engine is to try on a mistake."""
    return Shard(
        engine=engine,
        index=0,
        seed=shard_seed(seed, engine, 0),
        size=_size(engine, alone=MISTAKES[mistake].shown_by == engine),
        part=-1 if engine in {"interleavings", "attempts"} else 0,
        subject=DEFAULT_SUBJECT,
        mistake=mistake,
        contracts=Contracts(),
        folder=Path.cwd(),
        scratch=scratch,
        stop_at_first=True,
    )


def _size(engine: str, *, alone: bool) -> int:
    """How much an engine tries: more where it alone shows the mistake."""
    return ALONE.get(engine, ORDERS[engine]) if alone else ORDERS[engine]


def row_of(one: str, tallies: list[Tally]) -> Row:
    """A mistake's row, from what each engine came to."""
    mistake = MISTAKES[one]
    caught = [_caught(t, min(t.broken.values(), key=_worth)) for t in tallies if t.broken]
    ran = tuple(t.engine for t in tallies)
    return Row(one, mistake.kind, mistake.sentence, mistake.breaks, _best_first(caught), ran, mistake.shown_by)


def _best_first(caught: list[Caught]) -> tuple[Caught, ...]:
    return tuple(sorted(caught, key=lambda c: (c.property_id == CONFORMS.id, c.steps, c.orders, c.engine)))


def _worth(broken: Broken) -> tuple[bool, int]:
    """A named promise says more than a difference from the model, and a short order more than a long one."""
    return broken.property_id == CONFORMS.id, broken.length


def _caught(tally: Tally, broken: Broken) -> Caught:
    whole = broken.scheduled is None and broken.cut is None and broken.attempts is None and tally.engine != "faults"
    return Caught(
        tally.engine,
        broken.property_id,
        broken.found_after,
        broken.length,
        broken.steps if whole else (),
        tally.seconds + tally.reducing_seconds,
    )


# -- the shortest ---------------------------------------------------------------------------------------------


def searched(rows: list[Row], workers: int, scratch: Path) -> list[Row]:
    """The rows, each with what a search of all orders shorter than its own came to, where it has one to search.

    Ctrl-C ends it with what there is.
    """
    wanted = [(r.id, r.searchable, r.caught[0].property_id == CONFORMS.id) for r in rows if r.searchable]
    found: dict[str, Shortest] = {}
    with suppress(KeyboardInterrupt), terminating(), get_context("spawn").Pool(workers, _is_born, (scratch,)) as pool:
        for (id_, *_), one in zip(wanted, pool.imap(_searched, wanted), strict=True):
            found[id_] = one
    return [evolve(r, shortest=found.get(r.id)) for r in rows]


def _is_born(scratch: Path) -> None:
    """In a process of the pool: it leaves Ctrl-C to its parent, and does not outlive it."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    medium.scratch = scratch


def _searched(wanted: tuple[str, tuple[Step, ...], bool]) -> Shortest:
    mistake, order, conforms = wanted
    return shortest(load_subject(mistake=mistake, probe=False), Contracts(), order, conforms=conforms)
