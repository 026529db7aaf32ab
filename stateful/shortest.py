"""The shortest failure order: breadth first over every order of a subject, each executed, judged and brought to rest.

A reduced order is one from which nothing can be taken away; another may be shorter still. Here all orders of one step
are run, then all of two, and so on, over every action that makes sense, so that the first to break a promise is among
the shortest, and the end of a layer says that no order of so many steps breaks one.

Of two orders that lead to the same (``stateful.whereabouts``) only the first is gone on with. Wall clocks jump only if
somebody reads one: until then no jump can change anything. Stores are in memory, where a power cut loses nothing, so
that one kind of it does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import frozen

from model.actions import ALPHABET, Step, Verb
from model.contracts import Contracts
from model.properties import CONFORMS
from stateful.bench import Bench, Process
from stateful.clock import LogicalClock, SharedTime
from stateful.judge import Finding
from stateful.order import Rig
from stateful.subject import Subject
from stateful.whereabouts import Whereabouts

Order = tuple[Step, ...]
STEPS_MAX = 60_000
"""So many executed steps a search may take: a quarter of a minute on an idle core, and all orders of four steps."""
BOUNDARIES_MAX = 200
RIGHT_AFTER = "right after it"


@frozen
class Shortest:
    """What a search came to: no order of fewer than ``steps`` steps breaks a promise within the bound.

    ``order`` is one of that many which does, and ``property_id`` what it breaks; empty where none was looked for or
    found. ``exhausted`` says that the search was not cut by its bound on executed steps.
    """

    steps: int
    order: Order = ()
    property_id: str = ""
    exhausted: bool = True
    states: int = 0
    executed: int = 0

    def proves(self, length: int) -> bool:
        """Whether an order of ``length`` steps that breaks a promise is shown to be the shortest."""
        return not self.order and self.steps == length


class WatchedClock(LogicalClock):
    """A clock that remembers whether the wall was looked at."""

    wall_was_read = False

    def wall_ms(self) -> int:
        """Milliseconds on this worker's wall clock."""
        WatchedClock.wall_was_read = True
        return super().wall_ms()


class _WatchedBench(Bench):
    """A bench whose processes have watched clocks."""

    def new_process(self, name: str) -> Process:
        """A process that has not been opened yet and has nothing in its head."""
        process = super().new_process(name)
        process.clock = WatchedClock(self.time)
        return process


class _WatchedRig(Rig):
    """A rig that tells whether anybody has read a wall clock."""

    def _new_bench(self, time: SharedTime) -> Bench:
        return _WatchedBench(self.subject, self.model, self.medium, time=time)


class _CutError(Exception):
    """The search has taken as many steps as it may."""


class _WallReadError(Exception):
    """Somebody has read a wall clock: its jumps matter."""


class Search:
    """One search on one rig, over the orders of fewer than ``below`` steps."""

    def __init__(self, rig: Rig, below: int, *, conforms: bool, dies: bool, jumps: bool, steps_max: int) -> None:
        self._rig = rig
        self._below = below
        self._conforms = conforms
        self._dies = dies
        self._jumps = jumps
        self._steps_max = rig.steps_done + steps_max
        self._seen: set[object] = set()
        self._whereabouts = Whereabouts(rig)
        self._place = ""
        self._here: Order | None = None

    def run(self) -> Shortest:
        """Every order, the shorter first. Raises _WallReadError where jumps of wall clocks have to be among them."""
        length = 0
        layer: list[Order] = [()] if self._below > 0 else []
        begun = self._rig.steps_done
        found: tuple[Order, str] | None = None
        exhausted = True
        try:
            found = self._root() if layer else None
            while layer and found is None and length + 1 < self._below:
                following: list[Order] = []
                for order in layer:
                    found = self._beyond(order, following)
                    if found is not None:
                        break
                length += 1
                layer = following
        except _CutError:
            exhausted = False
        finally:
            self._whereabouts.close()
        done = (len(self._seen), self._rig.steps_done - begun)
        if found is not None:
            return Shortest(len(found[0]), *found, True, *done)
        # The layer that was cut is the one after `length`; an order in it may still break something.
        return Shortest(self._below if exhausted else length + 1, (), "", exhausted, *done)

    # -- one order after the other ----------------------------------------------------------------------------

    def _root(self) -> tuple[Order, str] | None:
        def body() -> Finding | None:
            finding = self._go(())
            self._seen.add(self._whereabouts.now())
            return finding or self._named(self._rig.finish())

        finding = self._guarded(body)
        self._here = None
        return ((), finding.property_id) if finding is not None else None

    def _beyond(self, order: Order, following: list[Order]) -> tuple[Order, str] | None:
        """Every step after an order: the first that breaks a promise; what leads to something new is kept."""
        rig = self._rig
        if rig.steps_done >= self._steps_max:
            raise _CutError
        self._guarded(partial(self._go, order))
        steps, key = self._steps(), self._whereabouts.now()
        for step in steps:
            finding = self._guarded(partial(self._one, order, key, step, following))
            if WatchedClock.wall_was_read and not self._jumps:
                raise _WallReadError
            if finding is not None:
                return (*order, rig.told[len(order)].step), finding.property_id
        return None

    def _one(self, order: Order, key: object, step: Step, following: list[Order]) -> Finding | None:
        """One step after an order, and where that is new, rest after it; with deaths, at each of its boundaries too."""
        finding = self._step(order, key, step, following)
        if finding is not None or not self._dies or not ALPHABET[step.action.verb].stores:
            return finding
        for boundary in range(1, BOUNDARIES_MAX):
            finding = self._step(order, key, Step(step.action, boundary), following)
            if finding is not None or self._place == RIGHT_AFTER:
                return finding
        return None

    def _step(self, order: Order, key: object, step: Step, following: list[Order]) -> Finding | None:
        if self._here != order:
            self._go(order)
        rig = self._rig
        self._here = None
        finding = self._named(rig.do(step)) or self._diverged()
        self._place = rig.told[-1].place
        if finding is not None:
            return finding
        reached = self._whereabouts.now()
        if reached == key:
            self._here = order
            return None
        if reached in self._seen:
            return None
        self._seen.add(reached)
        following.append((*order, step))
        return self._named(rig.finish())

    def _go(self, order: Order) -> Finding | None:
        """Run an order that is known to break nothing before it comes to rest."""
        finding = self._rig.start()
        for step in order:
            finding = self._named(self._rig.do(step)) or finding
        self._here = order
        return finding

    def _guarded(self, body: Callable[[], Finding | None]) -> Finding | None:
        return self._rig.guarded(body).finding

    def _named(self, finding: Finding | None) -> Finding | None:
        """The finding, if it is one that is looked for: a difference from the model only where nothing else is."""
        return None if finding is None or (finding.property_id == CONFORMS.id and not self._conforms) else finding

    def _diverged(self) -> Finding | None:
        return self._rig.judge.divergence if self._conforms else None

    def _steps(self) -> list[Step]:
        """The steps that make sense now."""
        rig = self._rig
        return [
            Step(a)
            for a in rig.model.alphabet.all_enabled(rig.judge.world, rig.model.contracts)
            if (a.verb is not Verb.POWER_CUT or a.choice == "nothing")
            and (a.verb is not Verb.JUMP_WALL or self._jumps)
            and rig.has_part_for(a)
        ]


def shortest(
    subject: Subject,
    contracts: Contracts,
    order: Order,
    *,
    conforms: bool = False,
    steps_max: int = STEPS_MAX,
) -> Shortest:
    """Whether an order that breaks a promise is the shortest, or which one is: see ``Shortest``.

    The bound: two workers, as many keys as the order uses, deaths inside an operation only if the order has one, and
    ``steps_max`` executed steps. Orders that break any named promise count, with ``conforms`` also those that only
    differ from the model.
    """
    workers = max(2, *(s.action.worker + 1 for s in order)) if order else 2
    keys = max(1, *(s.action.key + 1 for s in order)) if order else 1
    dies = any(s.kill_at for s in order)
    with _WatchedRig(subject, contracts, workers=workers, keys=keys) as rig:
        for jumps in (False, True):
            WatchedClock.wall_was_read = False
            search = Search(rig, len(order), conforms=conforms, dies=dies, jumps=jumps, steps_max=steps_max)
            try:
                return search.run()
            except _WallReadError:
                continue
    raise AssertionError("a search with jumps does not end for want of them")
