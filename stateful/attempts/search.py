"""All runs within bounds: every script of so many answers, and before every turn whatever may come from outside."""

from __future__ import annotations

import random
from collections.abc import Iterator

from model.attempts import Said
from stateful.attempts.asked import Asked, asked_by_search
from stateful.attempts.choices import Choices
from stateful.attempts.plan import Planned
from stateful.attempts.ran import Ran
from stateful.attempts.system import AttemptSystem

AGAIN = 1
"""How often each operation is run once more: another layer that retries."""
ANSWERS = tuple(Said)
EVENT_SHARE = 0.04
"""How likely an event is before a turn of a random run."""


def every_run(
    system: AttemptSystem,
    attempts: int,
    events: int,
    first: Said | None = None,
    *,
    again: int = AGAIN,
    kinds: tuple[str, ...] = (),
) -> Iterator[Ran]:
    """Every run with a budget of so many attempts and at most so many events; of one first answer, or of all."""
    choices = Choices()
    while True:
        yield system.run(attempts, asked_by_search(choices, events, ANSWERS, first, kinds), again=again)
        if not choices.advance():
            return


def random_runs(system: AttemptSystem, attempts: int, events: int, seed: int, count: int) -> Iterator[Ran]:
    """So many runs with random answers, events and ties."""
    rng = random.Random(seed)  # noqa: S311 - a seed must give the same run
    for _ in range(count):
        yield system.run(attempts, _drawn(rng, events), again=rng.randint(0, 2))


def _drawn(rng: random.Random, events: int) -> Asked:
    left = [rng.randint(0, events)]

    def event(_now_ms: int, _turn: int, possible: list[Planned]) -> Planned | None:
        if not left[0] or rng.random() >= EVENT_SHARE:
            return None
        left[0] -= 1
        return rng.choice(possible)

    return Asked(lambda _n: rng.choice(ANSWERS), event, rng.randrange)
