"""Power cuts in the model: every order within bounds in which the power fails, at any point, so many times.

A power cut ends every worker, between two operations or after any stage of one. What stays is what is durable. Where
the durability contract keeps what was acknowledged, that is all of it. Where it does not, the ledger and the sink have
each lost up to ``LAG`` of their last transactions, one by itself or both; the checkpoint is no database, and is synced
under every contract. A power cut that loses something breaks a promise, and nothing is told of what comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from attrs import evolve

from model.actions import Action, Verb
from model.properties import ACK_DURABLE, PROPERTIES, Moment, Sort
from model.search.bounds import ModelBounds
from model.search.local import KILLED
from model.search.normal import NOW_MS
from model.search.space import ModelEdge, ModelSpace
from model.search.symmetry import interchangeable
from model.search.system import Edge, System
from model.step import Model, dead
from model.words import Slot, Stores

LAG = 2
"""So many of its last transactions a database loses at most, where durability does not keep them."""
CUT = "power cut"
_DEATHS = 1
"""In every state of the inner space a death is possible: its deaths are where the power may fail in an operation."""
_ALWAYS = tuple((p.id, p.holds) for p in PROPERTIES.values() if p.sort is Sort.ALWAYS)
_TICK = Action(Verb.ADVANCE, choice="tick")


class Powered(NamedTuple):
    """A state: a state of the inner space, the power cuts left, and what the databases may fall back to, newest first."""

    inner: int
    cuts: int
    ledger: tuple[Stores, ...] = ()
    sink: tuple[Stores, ...] = ()


class PowerSpace(System[Powered]):
    """The transition system of a model within bounds, with ``cuts`` power cuts and without any other death.

    Raises ValueError for bounds with kills, with more than one key, or with fewer than no cuts.
    """

    def __init__(self, model: Model, bounds: ModelBounds, cuts: int) -> None:
        if bounds.kills:
            raise ValueError(
                f"kills={bounds.kills}: a power cut is the only death here; search for kills in a ModelSpace, or give 0"
            )
        if bounds.keys != 1:
            raise ValueError(f"keys={bounds.keys}: what a database may lose is searched for one key; give 1")
        if cuts < 0:
            raise ValueError(f"cuts={cuts} is negative: a bound counts up from 0; give 0 or more")
        self.inner = ModelSpace(model, bounds)
        self.bounds = bounds
        self.model = self.inner.model
        self.cuts = cuts
        self._keeps = model.contracts.durability.keeps
        self._dark: dict[int, int] = {}
        self._inner_edges: dict[int, list[ModelEdge]] = {}
        self._last: tuple[Powered, list[Edge[Powered]], list[Powered]] | None = None

    @property
    def initial(self) -> Powered:
        """Empty stores, every worker alive, every power cut left."""
        return Powered(self.inner.encode(self.model.first(), _DEATHS), self.cuts)

    def successors(self, state: Powered) -> Sequence[Powered]:
        """Where one move or power cut leads, unless that loses something."""
        return self._told(state)[2]

    def edges(self, state: Powered) -> Sequence[Edge[Powered]]:
        """The labelled moves and power cuts, refusals and losses included."""
        return self._told(state)[1]

    def bad(self, state: Powered) -> str:
        """The first property that a move or a power cut out of ``state`` breaks."""
        return next((edge.breaks for edge in self.edges(state) if edge.breaks), "")

    def broken(self, state: Powered) -> tuple[Sequence[str], Sequence[str]]:
        """What the moves and power cuts out of ``state`` break. No state is bad by itself."""
        return (), [*dict.fromkeys(id_ for edge in self.edges(state) for id_ in edge.broken)]

    def canonical(self) -> Callable[[Powered], Powered]:
        """What joins states that differ only in how workers are called: no row names one."""
        of_inner = interchangeable(self.inner)
        return lambda state: state._replace(inner=of_inner(state.inner))

    def _told(self, state: Powered) -> tuple[Powered, list[Edge[Powered]], list[Powered]]:
        # A search asks for a state's successors and then at once for what they break.
        if self._last is None or self._last[0] != state:
            moves = [self._moved(state, edge) for edge in self._of_inner(state.inner) if self._is_move(state, edge)]
            cut = [Edge(CUT, Powered(self._darkened(state.inner), state.cuts - 1))] if state.cuts else []
            going_on = [*moves, *cut]
            losses = self._losses(state) if state.cuts else []
            targets = [edge.target for edge in going_on if edge.target != state]
            self._last = state, [*going_on, *losses], targets
        return self._last

    def _of_inner(self, inner: int) -> list[ModelEdge]:
        """The moves of the inner space, asked for again with each number of cuts; between two, a cut is told once."""
        known = self._inner_edges.get(inner)
        if known is None:
            edges = self.inner.edges(inner)
            known = [edge for edge in edges if edge.action.verb is not Verb.KILL and edge.died_after]
            self._inner_edges[inner] = known
        return known

    @staticmethod
    def _is_move(state: Powered, edge: ModelEdge) -> bool:
        """Whether a move of the inner space is one here: what is done, or a death where the power may fail."""
        return edge.died_after < 0 or state.cuts > 0

    def _moved(self, state: Powered, edge: ModelEdge) -> Edge[Powered]:
        if edge.died_after > 0:
            label = f"{edge.action.label}, {CUT} after stage {edge.died_after}"
            target = Powered(self._darkened(edge.target), state.cuts - 1)
        else:
            label, target = edge.label, self._after(state, edge)
        return Edge(label, target, edge.breaks, edge.also_breaks, edge.shows)

    def _darkened(self, inner: int) -> int:
        """A state of the inner space after every worker died."""
        known = self._dark.get(inner)
        if known is None:
            world = self.inner.world(inner)
            for index in range(self.model.workers):
                world = dead(world, index)
            known = self._dark[inner] = self.inner.encode(world, _DEATHS)
        return known

    # -- what is lost -----------------------------------------------------------------------------------------

    def _after(self, state: Powered, edge: ModelEdge) -> Powered:
        """The state after a move that was answered: what it changed may be lost from now on."""
        if self._keeps:
            return Powered(edge.target, state.cuts)
        was, now = self._stores(state.inner), self._stores(edge.target)
        ledger, sink = state.ledger, state.sink
        if edge.action.verb is Verb.ADVANCE:
            return Powered(edge.target, state.cuts, tuple(map(self._ticked, ledger)), sink)
        if _ledger(was) != _ledger(now):
            ledger = (_ledger(was), *ledger)[:LAG]
        if _sink(was) != _sink(now):
            sink = (_sink(was), *sink)[:LAG]
        return Powered(edge.target, state.cuts, ledger, sink)

    def _stores(self, inner: int) -> Stores:
        return self.inner.world(inner).stores

    def _ticked(self, stores: Stores) -> Stores:
        return Stores(stores.revision, tuple(self.inner.normal.slot(slot, -1) for slot in stores.slots))

    def _losses(self, state: Powered) -> list[Edge[Powered]]:
        """The power cuts that lose something, the smallest first."""
        now = self._stores(state.inner)
        ledgers, sinks = (_ledger(now), *state.ledger), (_sink(now), *state.sink)
        ways = [(a, b) for a in range(len(ledgers)) for b in range(len(sinks)) if a or b]
        found: list[Edge[Powered]] = []
        for a, b in sorted(ways, key=sum):
            left = _joined(ledgers[a], sinks[b], now)
            if left != now:
                breaks = self._broken_by(now, left)
                target = Powered(self._darkened(state.inner), state.cuts - 1)
                found.append(Edge(f"{CUT}: {_lost(a, b)}", target, breaks[0], breaks[1:]))
        return found

    def _broken_by(self, now: Stores, left: Stores) -> tuple[str, ...]:
        """What a loss breaks: no death leaves such rows, so that it is one, whatever else it breaks."""
        moment = Moment(now, left, NOW_MS, _TICK, KILLED, -1, 0, self.model.limits)
        pairs = list(zip(now.slots, left.slots, strict=True))
        named = [id_ for id_, holds in _ALWAYS if not all(holds(moment, was, then, False) for was, then in pairs)]
        return (*named, ACK_DURABLE.id)


def _ledger(stores: Stores) -> Stores:
    slots = (Slot(intent=s.intent, approval=s.approval, lease=s.lease, token_high=s.token_high) for s in stores.slots)
    return Stores(stores.revision, tuple(slots))


def _sink(stores: Stores) -> Stores:
    slots = (Slot(effects=s.effects, fence=s.fence, calls=s.calls, rejected=s.rejected) for s in stores.slots)
    return Stores(0, tuple(slots))


def _joined(ledger: Stores, sink: Stores, checkpoint: Stores) -> Stores:
    slots = zip(ledger.slots, sink.slots, checkpoint.slots, strict=True)
    return Stores(
        ledger.revision,
        tuple(
            evolve(a, effects=b.effects, fence=b.fence, calls=b.calls, rejected=b.rejected, progress=c.progress)
            for a, b, c in slots
        ),
    )


def _lost(ledger: int, sink: int) -> str:
    lost = [f"the {name} loses {n}" for name, n in (("ledger", ledger), ("sink", sink)) if n]
    return " and ".join(lost)
