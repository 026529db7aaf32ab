"""How short a planted failure can be: a table, and the exhaustive search that it comes from.

``python -m benchmarks.minima M016 M090`` searches all shorter orders again, for minutes where the minimum is 6 or 7.
The search shares nothing with the reducer: it goes through orders breadth-first and runs every one of them. Of two
that leave the same state it goes on from the first; workers, keys and payloads appear in the order of their names. One
process dies inside an operation at most, in orders of up to ``DEATHS_LENGTH_MAX`` steps; up to ``TWO_KEYS_MAX`` steps
there are two keys, beyond that one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from impl.mistakes import MISTAKES
from model.actions import ALPHABET, Step
from model.contracts import Contracts
from model.properties import CONFORMS
from model.words import PAYLOADS
from stateful.engines.walk import BOUNDARY_MAX
from stateful.judge import Finding
from stateful.order import Rig
from stateful.subject import load_subject

Order = tuple[Step, ...]
MINIMA = {
    one: length
    for length, ids in {
        1: "M033 M036 M077",
        2: "M002 M003 M037 M040 M065 M069 M071 M072 M087 M089",
        3: "M016 M018 M021 M025 M035 M067 M093 M114 M115",
        4: "M009 M015 M020 M024 M026 M027 M032 M039 M042 M044 M047 M056 M085 M090 M091 M095 M108 M117 M118 M120 M126 "
        "M136",
        5: "M008 M022 M023 M038 M045 M046 M051 M075 M082 M084 M088 M092 M094 M096 M097 M100 M104 M105 M107",
        6: "M014 M028 M034 M059 M061 M070 M098 M099 M111",
        7: "M005 M058 M103 M110",
    }.items()
    for one in ids.split()
}
"""The steps of the shortest order that breaks a mistake's promise.

Of those of 6 and 7 steps the orders up to ``SEARCHED_MAX`` have been searched: their minimum is the shortest known.
"""
WEAK = {
    ("approval", "advisory", "valid-approval"): 2,
    ("approval", "caller", "valid-approval"): 2,
    ("cancellation", "forceful", "cancel-honoured"): 2,
    ("checkpoint", "before-effect", "true-completion"): 3,
    ("deadline", "per-attempt", "deadline-kept"): 3,
    ("fencing", "claim-only", "no-stale-token"): 5,
    ("fencing", "claim-only", "one-lease"): 4,
    ("fencing", "none", "no-stale-token"): 5,
    ("fencing", "none", "one-lease"): 3,
    ("idempotency", "client", "one-effect"): 5,
    ("idempotency", "none", "one-effect"): 5,
    ("idempotency", "none", "progress"): 6,
    ("idempotency", "none", "right-payload"): 2,
    ("retry", "every-error", "bounded-attempts"): 5,
}
"""The same for what breaks under a contract's weaker choice.

Of ``idempotency`` and ``retry`` the orders up to 3 have been searched: the 5 and 6 steps are the shortest known.
"""
SEARCHED_MAX = 4
DEATHS_LENGTH_MAX = 3
PROGRESS = "progress"
TWO_KEYS_MAX = 3


class Shorter:
    """Searches the orders of up to a number of steps for one that breaks a promise."""

    def __init__(self, rig: Rig, property_id: str) -> None:
        self._rig = rig
        self._property_id = property_id
        self._seen: set[Any] = set()
        self.runs = 0

    def search(self, length: int) -> Order | None:
        """The first of the shortest orders that break the promise, or None if none of up to ``length`` steps does."""
        layer: list[Order] = [()]
        for _ in range(length):
            following: list[Order] = []
            for order in layer:
                for candidate in self._longer(order):
                    finding, is_new = self._run(candidate)
                    if finding is not None and finding.property_id == self._property_id:
                        return candidate
                    if is_new:
                        following.append(candidate)
            layer = following
        return None

    def _longer(self, order: Order) -> Iterator[Order]:
        rig = self._rig
        rig.guarded(lambda: self._begin(order))
        dies = len(order) < DEATHS_LENGTH_MAX and not any(step.kill_at for step in order)
        for action in rig.model.alphabet.all_enabled(rig.judge.world, rig.model.contracts):
            places = BOUNDARY_MAX if dies and ALPHABET[action.verb].stores else 0
            if rig.has_part_for(action) and self._comes_by_name((*order, Step(action))):
                yield from ((*order, Step(action, place)) for place in range(places + 1))

    def _begin(self, order: Order) -> Finding | None:
        rig = self._rig
        finding = rig.start()
        for step in order:
            finding = finding or rig.do(step)
            if finding is None and self._property_id == CONFORMS.id:
                finding = rig.judge.divergence
        return finding

    def _run(self, order: Order) -> tuple[Finding | None, bool]:
        """What an order breaks, and whether it leaves a state that none before it has left."""
        self.runs += 1
        is_new = False

        def body() -> Finding | None:
            nonlocal is_new
            finding = self._begin(order)
            state = self._state()
            if finding is not None or state in self._seen:
                return finding
            self._seen.add(state)
            is_new = True
            return self._rig.finish()

        finding = self._rig.guarded(body).finding
        return finding, is_new

    def _state(self) -> Any:
        bench = self._rig.bench
        heads = tuple(
            (*p.tokens, *p.receipts, p.other_settings, p.dispatcher is None, repr((p.answers, p.permit, p.overdue)))
            for p in bench.processes
        )
        walls = tuple(p.clock.wall_offset_ms for p in bench.processes)
        return self._rig.judge.worlds, self._rig.judge.stores, bench.time.now_ms, heads, walls

    def _comes_by_name(self, order: Order) -> bool:
        """Whether the first worker, key and payload are the first by name; at rest it is w1 that does all the work."""
        attributes = ("key",) if self._property_id == PROGRESS else ("worker", "key")
        if any(next((n for s in order if (n := getattr(s.action, a)) >= 0), 0) for a in attributes):
            return False
        return next((s.action.choice for s in order if s.action.choice in PAYLOADS), PAYLOADS[0]) == PAYLOADS[0]


def main(ids: list[str]) -> int:
    """Search for orders shorter than the table says; 1 if there is one."""
    wrong = 0
    for one in ids or MINIMA:
        length = min(MINIMA[one] - 1, SEARCHED_MAX)
        keys = 2 if length <= TWO_KEYS_MAX else 1
        with Rig(load_subject(mistake=one), Contracts(), keys=keys) as rig:
            shorter = Shorter(rig, MISTAKES[one].breaks)
            found = shorter.search(length)
        said = "none shorter" if found is None else ", ".join(step.label for step in found)
        print(f"{one}: {MINIMA[one]} steps; {shorter.runs:,} orders of up to {length}: {said}", flush=True)
        wrong += found is not None
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
