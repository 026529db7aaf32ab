"""Which orders a system is put through: the same dangers for everybody, restricted to what it can do.

First a probe finds out what one call takes (a start, a decision, a recovery), in which of these steps the effect is
entered, and how many statements each runs: nothing about a system's inside is listed by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve, frozen

from model.claims import Ability
from stateful.foreign.adapter import Hello
from stateful.foreign.facts import Facts
from stateful.foreign.order import At, Do, Order, Spot, Step, Then

STATEMENTS_MAX = 400
"""No call has nearly as many; a thread that polls could make it endless."""
DEATHS = 3
"""How often a process is killed at the same place in a row, at the least."""
PAUSE, SLOW = "pause", "slow"


@frozen
class Recipe:
    """What one call takes until it sends: the steps, the last of which enters the effect."""

    steps: tuple[Step, ...]
    statements: tuple[tuple[Spot, ...], ...] = ()
    """For each step, the statements that it runs."""
    operations: tuple[int, ...] = ()
    """For each step, how many file operations it does, where they were counted."""

    @property
    def effect(self) -> Step:
        """The step that enters the effect."""
        return self.steps[-1]

    def stopped(self, at: At, then: Then, worker: int = 1, payload: str = "") -> tuple[Step, ...]:
        """The call by ``worker``, stopped at the effect."""
        steps = self.by(worker, payload)
        return (*steps[:-1], evolve(steps[-1], at=at, then=then))

    def by(self, worker: int, payload: str = "", key: int = 0) -> tuple[Step, ...]:
        """The whole call, by ``worker``."""
        return tuple(
            evolve(
                s,
                worker=worker,
                payload=(payload or s.payload) if s.payload else "",
                key=(key or s.key) if s.key else 0,
            )
            for s in self.steps
        )


START = Step(Do.START, 1, 1, "p1")
GRANT = Step(Do.DECIDE, 1, 1, "p1", "grant")
RECOVER = Step(Do.RECOVER, 1)


def probes(hello: Hello) -> Order:
    """The order that shows what a call takes."""
    decide = (GRANT,) if Ability.DECIDE in hello.abilities else ()
    recover = (RECOVER,) if Ability.RECOVER in hello.abilities else ()
    return Order("a call and nothing else", (START, *decide, *recover, START))


def recipe_of(order: Order, facts: Facts) -> Recipe | None:
    """What the probe has shown; None if it never came to an effect."""
    for n, call in enumerate(facts.calls[: len(order.steps)]):
        if call.last_entry:
            return Recipe(order.steps[: n + 1])
    return None


def sweep_probes(recipe: Recipe) -> Iterator[Order]:
    """For each step of the recipe, the order that counts its statements."""
    for n in range(len(recipe.steps)):
        yield Order(f"statements of step {n + 1}", recipe.steps[: n + 1])


def orders(hello: Hello, recipe: Recipe) -> list[Order]:
    """Every order for this system, the short ones first."""
    able = hello.abilities
    found = [
        *_plain(recipe),
        *_deaths(recipe, able, _budget(hello)),
        *_changed(recipe, able),
        *_failing(recipe),
        *_side_by_side(recipe),
        *_frozen(recipe, able),
        *_approvals(able),
        *_operators(recipe),
        *_cancelled(recipe),
        *_sweeps(recipe),
        *_file_sweeps(recipe),
        *(_recoveries(recipe) if hello.claimed("one-at-a-time") else ()),
    ]
    real_time = Ability.ADVANCE not in able
    return [evolve(o, slow=o.slow and real_time) for o in found if o.needs <= able]


def _budget(hello: Hello) -> int:
    claimed = hello.claimed("retry-budget")
    return claimed.limit if claimed is not None else 0


def _plain(recipe: Recipe) -> Iterator[Order]:
    yield Order("once", recipe.steps)
    yield Order("repeated", (*recipe.steps, START, START))
    yield Order("repeated by another process", (*recipe.steps, _start(2)))
    yield Order("two keys", (*recipe.steps, *recipe.by(1, key=2)))


def _start(worker: int, payload: str = "p1") -> Step:
    return evolve(START, worker=worker, payload=payload)


def _again(recipe: Recipe, able: frozenset[Ability], worker: int) -> tuple[Step, ...]:
    """What brings a call on after a death: recovery, and the client's repetition; the last may enter the effect."""
    if recipe.effect.do is Do.START:
        return (evolve(START, worker=worker),)
    if Ability.RECOVER in able:
        return (Step(Do.RECOVER, worker),)
    return (evolve(recipe.effect, worker=worker),)


def _deaths(recipe: Recipe, able: frozenset[Ability], budget: int) -> Iterator[Order]:
    for at, where in ((At.ENTER, "before the send"), (At.EXIT, "after the send")):
        first = recipe.stopped(at, Then.KILL)
        yield Order(f"killed {where}", first)
        again = _again(recipe, able, 2)
        yield Order(f"killed {where}, and again by a client", (*first, *again))
        for deaths in sorted({2, max(DEATHS, budget + 1)}):
            more = [
                (*s[:-1], evolve(s[-1], at=at, then=Then.KILL))
                for n in range(deaths - 1)
                for s in (_again(recipe, able, 2 + n % 2),)
            ]
            yield Order(f"killed {where} {deaths} times", (*first, *(x for s in more for x in s)))
        if {Ability.LEASE, Ability.ADVANCE} <= able:
            lapsed = Step(Do.ADVANCE, 2, choice="lease")
            yield Order(
                f"killed {where} {deaths} times, its lease run out each time",
                (*first, *(x for s in more for x in (lapsed, *s))),
            )
    after = (*recipe.stopped(At.ENTER, Then.KILL), *_again(recipe, able, 2)[:-1])
    last = evolve(_again(recipe, able, 2)[-1], at=At.EXIT, then=Then.KILL)
    yield Order("killed before the send, then after it", (*after, last))


def _changed(recipe: Recipe, able: frozenset[Ability]) -> Iterator[Order]:
    other = recipe.by(1, "p2")
    yield Order("another payload after success", (*recipe.steps, *other))
    yield Order("another payload after a restart", (*recipe.steps, Step(Do.CLOSE, 1), *recipe.by(2, "p2")))
    for at in (At.ENTER, At.EXIT):
        where = "before" if at is At.ENTER else "after"
        yield Order(
            f"another payload after a death {where} the send",
            (*recipe.stopped(at, Then.KILL), *recipe.by(2, "p2")),
        )
    yield Order(
        "another payload at once",
        (*recipe.stopped(At.ENTER, Then.HOLD), _start(2, "p2"), Step(Do.GO_ON, 1)),
        frozenset({Ability.TWO_PROCESSES}),
    )


def _failing(recipe: Recipe) -> Iterator[Order]:
    for at, where in ((At.ENTER, "without having acted"), (At.EXIT, "although it has acted")):
        yield Order(f"the sink does not answer, {where}", recipe.stopped(at, Then.FAIL))
        yield Order(f"the sink does not answer, {where}, and a repetition", (*recipe.stopped(at, Then.FAIL), START))


def _side_by_side(recipe: Recipe) -> Iterator[Order]:
    both = frozenset({Ability.TWO_PROCESSES})
    for at, where in ((At.ENTER, "before"), (At.EXIT, "after")):
        held = recipe.stopped(at, Then.HOLD)
        second = evolve(recipe.effect, worker=2)
        yield Order(f"two at once, the first is held {where} its send", (*held, second, Step(Do.GO_ON, 1)), both)
        yield Order(
            f"two at once, the first dies {where} its send",
            (*held, second, Step(Do.KILL, 1), _start(2)),
            both,
        )


def _frozen(recipe: Recipe, able: frozenset[Ability]) -> Iterator[Order]:
    needs = frozenset({Ability.TWO_PROCESSES, Ability.LEASE})
    for at, where in ((At.ENTER, "before"), (At.EXIT, "after")):
        again = _again(recipe, able, 2)
        yield Order(
            f"{PAUSE}: the owner is frozen {where} its send, its lease runs out, another takes over",
            (
                *recipe.stopped(at, Then.HOLD),
                Step(Do.FREEZE, 1),
                Step(Do.ADVANCE, 2, choice="lease"),
                *again,
                _start(2),
                Step(Do.THAW, 1),
                Step(Do.GO_ON, 1),
                _start(2),
            ),
            needs,
            slow=True,
        )


def _approvals(able: frozenset[Ability]) -> Iterator[Order]:
    if Ability.DECIDE not in able:
        return
    deny, other = evolve(GRANT, choice="deny"), evolve(GRANT, payload="p2")
    recover = (RECOVER,) if Ability.RECOVER in able else ()
    later = Step(Do.ADVANCE, 1, choice="expiry")
    two = frozenset({Ability.TWO_PROCESSES})
    clock = frozenset({Ability.ADVANCE})
    restart = Step(Do.KILL, 1)

    def at(step: Step, worker: int) -> Step:
        return evolve(step, worker=worker)

    yield Order("another payload while the first waits", (START, evolve(START, payload="p2"), GRANT, *recover))
    yield Order("not decided", (START, *recover, START))
    yield Order("not decided, after a restart", (START, restart, _start(2), *(at(r, 2) for r in recover)))
    yield Order("denied", (START, deny, *recover, START))
    yield Order("denied, after a restart", (START, deny, restart, _start(2), *(at(r, 2) for r in recover)))
    yield Order("denied, then granted", (START, deny, GRANT, *recover))
    yield Order("granted after a restart", (START, restart, at(GRANT, 2), *(at(r, 2) for r in recover)))
    yield Order("granted for another payload", (START, other, *recover, START))
    yield Order("granted for another payload, after a restart", (START, restart, at(other, 2), _start(2)))
    yield Order("granted before it was asked for", (GRANT, START, *recover))
    yield Order("granted twice", (START, GRANT, GRANT, *recover))
    yield Order("granted twice, with a restart in between", (START, GRANT, restart, at(GRANT, 2)))
    yield Order("granted, then denied", (START, GRANT, deny, *recover))
    yield Order(
        "granted twice at once",
        (START, evolve(GRANT, at=At.ENTER, then=Then.HOLD), at(GRANT, 2), Step(Do.GO_ON, 1)),
        two,
    )
    yield Order(
        "granted and denied at once",
        (START, evolve(GRANT, at=At.ENTER, then=Then.HOLD), at(deny, 2), Step(Do.GO_ON, 1)),
        two,
    )
    yield Order("granted too late", (START, later, GRANT, *recover), clock)
    yield Order("granted too late, after a restart", (START, restart, at(later, 2), at(GRANT, 2)), clock)


def _operators(recipe: Recipe) -> Iterator[Order]:
    needs = frozenset({Ability.RECONCILE})
    for at, choice in ((At.ENTER, "did not happen"), (At.EXIT, "happened")):
        yield Order(
            f"in doubt, and an operator says that it {choice}",
            (
                *recipe.stopped(at, Then.KILL),
                _start(2),
                Step(Do.RECONCILE, 2, 1, choice="happened" if choice == "happened" else "not"),
                _start(2),
            ),
            needs,
        )


def _cancelled(recipe: Recipe) -> Iterator[Order]:
    needs = frozenset({Ability.CANCEL})
    cancel = Step(Do.CANCEL, 2, 1)
    two = needs | {Ability.TWO_PROCESSES}
    yield Order("cancelled after a death before the send", (*recipe.stopped(At.ENTER, Then.KILL), cancel), needs)
    yield Order("cancelled while the call is held", (*recipe.stopped(At.ENTER, Then.HOLD), cancel, _go_on()), two)
    if len(recipe.steps) > 1:
        yield Order(
            "cancelled before it is sent", (*recipe.steps[:-1], evolve(cancel, worker=1), recipe.effect), needs
        )


def _go_on() -> Step:
    return Step(Do.GO_ON, 1)


def _sweeps(recipe: Recipe) -> Iterator[Order]:
    """A death before every statement, and every statement as the place where another worker comes in between."""
    two = frozenset({Ability.TWO_PROCESSES})
    for n, spots in enumerate(recipe.statements):
        step = recipe.steps[n]
        for spot in spots:
            stopped = (*recipe.steps[:n], evolve(step, at=At.STATEMENT, then=Then.KILL, spot=spot))
            name = f"statement {spot.number} of {step.do}"
            yield Order(f"killed before {name}", stopped)
        if n + 1 < len(recipe.steps):
            continue
        for spot in spots:
            held = (*recipe.steps[:n], evolve(step, at=At.STATEMENT, then=Then.HOLD, spot=spot))
            yield Order(
                f"another comes in before statement {spot.number} of {step.do}",
                (*held, evolve(step, worker=2), Step(Do.GO_ON, 1)),
                two,
            )


def _file_sweeps(recipe: Recipe) -> Iterator[Order]:
    """A death before every file operation."""
    for n, count in enumerate(recipe.operations):
        for number in range(1, min(count, STATEMENTS_MAX) + 1):
            step = evolve(recipe.steps[n], at=At.FILE, then=Then.KILL, spot=Spot(number))
            yield Order(f"killed before file operation {number} of {step.do}", (*recipe.steps[:n], step))


def _recoveries(recipe: Recipe) -> Iterator[Order]:
    """A process that starts, and recovers, while another is in the middle of a call: at its effect, at each statement."""
    both = frozenset({Ability.TWO_PROCESSES, Ability.RECOVER})
    recover, go_on = Step(Do.RECOVER, 2), Step(Do.GO_ON, 1)
    for at, where in ((At.ENTER, "before"), (At.EXIT, "after")):
        yield Order(
            f"a recovery while the call is held {where} its send",
            (*recipe.stopped(at, Then.HOLD), recover, go_on),
            both,
        )
    for spot in recipe.statements[-1] if recipe.statements else ():
        held = (*recipe.steps[:-1], evolve(recipe.effect, at=At.STATEMENT, then=Then.HOLD, spot=spot))
        yield Order(f"a recovery before statement {spot.number} of {recipe.effect.do}", (*held, recover, go_on), both)


def is_pause(order: Order) -> bool:
    """Whether an order is about a process that stands still, which some projects exclude."""
    return order.name.startswith(PAUSE)
