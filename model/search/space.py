"""The model's state space within bounds, each state one integer.

A world falls apart into components: the rows of each key, what each worker knows, and the environment (policy
revision, kills left). Each distinct component has a small number, and a state is these numbers side by side
(``model.search.layout``). A move changes one key and one worker at most, so that it is an addition to the integer,
found once for each combination of components and then looked up (``model.search.tables``).

What a worker saw overdue is one bit for each key, set as long as its view would still clear the key
(``model.search.normal``). A move on a key clears these bits of every worker, if it changes what a reaper looks at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import field, frozen

from model.actions import Action, Verb
from model.search.bounds import ModelBounds
from model.search.local import KILLED
from model.search.system import Edge, System
from model.search.tables import LEFT_OUT, Entry, Tables, dies_in
from model.step import Model
from model.words import Kind, Outcome


@frozen
class ModelEdge(Edge[int]):
    """A labelled transition of the model.

    ``action`` is what was done, ``outcome`` what it answered, and ``died_after`` how many of its stages were done when
    its process died, -1 if it lived.
    """

    action: Action = field(kw_only=True)
    outcome: Outcome = field(kw_only=True)
    died_after: int = field(default=-1, kw_only=True)


class ModelSpace(Tables, System[int]):
    """The transition system of a model within bounds.

    Its workers, keys and limits are those of ``bounds``; all else is ``model``'s. A space grows as it is walked: what
    it has numbered stays numbered, and the same walk always gives the same integers.
    Raises SpaceTooLargeError, while it is walked, where a state has no room for what the bounds allow.
    """

    def __init__(self, model: Model, bounds: ModelBounds = ModelBounds()) -> None:  # noqa: B008 - frozen
        super().__init__(model, bounds)
        self._initial = self.encode(self.model.first(), bounds.kills)

    @property
    def initial(self) -> int:
        """Empty stores, every worker alive, every kill left."""
        return self._initial

    def successors(self, state: int) -> list[int]:
        """The states that one move leads to, ``state`` itself left out; a state may come twice."""
        has_kills = state >= self._one_kill
        has_views = state & self._every_view
        found: list[int] = []
        for mask, worker, key, entries in self._parts:
            entry = entries.get(state & mask)
            if entry is None:
                entry = entries[state & mask] = self._entry(state, worker, key)
            if has_views:
                for kept, additions, needs_kill in entry.groups:
                    if has_kills or not needs_kill:
                        base = state & kept
                        found += [base + addition for addition in additions]
            else:
                found += [state + addition for addition in entry.calm[has_kills]]
        overdue = (
            self._passing(state, found) if self._one_key is None else self._one_key[state & self._slot_mask].overdue
        )
        if overdue:
            self._reap(state, overdue, found)
        return found

    def _reap(self, state: int, overdue: int, found: list[int]) -> None:
        """Add the ways to reap; ``overdue`` has a bit for each key."""
        has_kills = state >= self._one_kill
        for index, (mask, known) in enumerate(self._reapers):
            additions = known.get(state & mask)
            if additions is None:
                additions = known[state & mask] = self._reaper(state, index, overdue)
            found += [state + addition for addition in additions[has_kills]]

    def bad(self, state: int) -> str:
        """The first property that a move out of ``state`` breaks, "" if none."""
        if not self._suspect:
            return ""  # no combination that was ever met breaks anything
        has_kills = state >= self._one_kill
        for entry in self._entries(state):
            if entry.breaks[has_kills]:
                return entry.breaks[has_kills][0]
        if state & self._every_view:
            return next((edge.breaks for edge in self._edges_together(state) if edge.breaks), "")
        return ""

    def broken(self, state: int) -> tuple[Sequence[str], Sequence[str]]:
        """What the moves out of ``state`` break. No state of the model is bad by itself."""
        has_kills = state >= self._one_kill
        found = [id_ for entry in self._entries(state) for id_ in entry.breaks[has_kills]]
        if state & self._every_view:
            found += [id_ for edge in self._edges_together(state) for id_ in edge.broken]
        return (), [*dict.fromkeys(found)]

    def shows(self, state: int) -> list[str]:
        """The witnesses that the moves out of ``state`` are."""
        has_kills = state >= self._one_kill
        return [id_ for entry in self._entries(state) for id_ in entry.shows[has_kills]]

    def _entries(self, state: int) -> Iterator[Entry]:
        for mask, worker, key, entries in self._parts:
            entry = entries.get(state & mask)
            if entry is None:
                entry = entries[state & mask] = self._entry(state, worker, key)
            yield entry

    # -- labels -----------------------------------------------------------------------------------------------

    def edges(self, state: int, *, all_labels: bool = False) -> list[ModelEdge]:
        """The labelled moves out of ``state``, refusals included, each with its action and its outcome.

        With ``all_labels`` also what a search leaves out: an equal payload in another order, the last grant handed in
        again, a restart under a new name, a wall clock that jumps, a reaper that clears nothing, and a client that
        dies in the middle of a call. Such a death leads to what the call itself leads to, with one kill less: a search
        that has seen the one need not see the other, and may not have numbered it among its states.
        """
        found = []
        for _, worker, key, _ in self._parts:
            for move in self._local_moves(state, worker, key):
                dies = dies_in(move)
                if dies and not self.kills_left(state):
                    continue
                left_out = move.action.choice in LEFT_OUT or (dies and worker < 0)
                if left_out and not all_labels and not move.breaks:
                    continue
                at = -1 if move.action.key < 0 else key
                action = Action(move.action.verb, worker, at, move.action.choice)
                target = self._target(state, move, worker, key)
                found.append(_edge(action, target, move.died_after, move.outcome, move.breaks, move.shows))
        found += self._edges_together(state)
        if all_labels:
            found += self._idle(state)
        return found

    def _edges_together(self, state: int) -> list[ModelEdge]:
        verbs, lay = self.bounds.verbs, self.layout
        self._passing(state, [])  # so that each key's part is there
        rests = [self._rests[key][self._slot_number(state, key)] for key in range(lay.keys)]
        found = []
        if Verb.ADVANCE in verbs:
            tick = Action(Verb.ADVANCE, choice="tick")
            found.append(_edge(tick, state + sum(rest.tick for rest in rests), -1, Outcome(Kind.OK)))
        if self._revision(state) <= self._bumps:
            revision = Outcome(Kind.OK, value=self._revision(state) + 1)
            found.append(_edge(Action(Verb.BUMP_POLICY), state + (1 << lay.revision_at), -1, revision))
        overdue = sum(rest.overdue << key for key, rest in enumerate(rests))
        for worker in range(lay.workers):
            live = state >> lay.view_shift(worker) & ((1 << lay.keys) - 1)
            has_kills = bool(self.kills_left(state))
            for verb, died_after, target in self._reaping(state, worker, overdue, has_kills=has_kills):
                reaps = verb is Verb.REAP_APPLY
                breaks = [id_ for key, rest in enumerate(rests) if reaps and live >> key & 1 for id_ in rest.breaks]
                outcome = Outcome(Kind.OK, value=(live if reaps else overdue).bit_count())
                outcome = outcome if died_after < 0 else KILLED
                found.append(_edge(Action(verb, worker), target, died_after, outcome, tuple(dict.fromkeys(breaks))))
        return found

    def _idle(self, state: int) -> Iterator[ModelEdge]:
        """What changes nothing that a search looks at."""
        lay, verbs = self.layout, self.bounds.verbs
        for index in range(lay.workers):
            worker = self._workers.values[self._worker_number(state, index)]
            if Verb.JUMP_WALL in verbs:
                for choice in ("back", "ahead"):
                    yield _edge(Action(Verb.JUMP_WALL, index, choice=choice), state, -1, Outcome(Kind.OK))
            if worker.alive and worker.stalled < 0 and self.kills_left(state):
                for verb in {Verb.REAP_READ, Verb.REAP_APPLY} & verbs:
                    is_enabled = verb is Verb.REAP_READ or state & lay.views_of(index)
                    if is_enabled:
                        yield _edge(Action(verb, index), self._killed(state, index), 0, KILLED)


def _edge(
    action: Action,
    target: int,
    died_after: int,
    outcome: Outcome,
    breaks: tuple[str, ...] = (),
    shows: tuple[str, ...] = (),
) -> ModelEdge:
    label = action.label if died_after < 0 else f"{action.label} killed after stage {died_after}"
    return ModelEdge(
        label,
        target,
        breaks[0] if breaks else "",
        breaks[1:],
        shows,
        action=action,
        outcome=outcome,
        died_after=died_after,
    )
