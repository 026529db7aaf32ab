"""Single schedules: by a given list, by chance, by priority. The same seed gives the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from stateful.schedules.raw import Ending
from stateful.schedules.sampling import ChoiceError, follow, priority_runs, random_runs
from stateful.schedules.search import Bounds, Search
from stateful.schedules.statements import StatementSystem

ADD, READ = "UPDATE a SET n = n + 1", "SELECT n FROM a"
DEFERRED = ("BEGIN", READ, ADD, "COMMIT")
RACES = ((READ, ADD, READ), (READ, "UPDATE a SET n = n * 2"), DEFERRED)
NOISE = tuple(f"SELECT n FROM {t}" for t in "bc" * 4)  # noqa: S608


def reads_between(connection) -> bool:
    """True if another lane's two writes were caught half done."""
    for sql in NOISE:
        connection.execute(sql)
    return connection.execute("SELECT a.n > b.n FROM a, b").fetchone() == (1,)


PLANTED = ((*NOISE[:3], ADD, "UPDATE b SET n = n + 1", *NOISE), reads_between, NOISE)


def caught(ending: Ending) -> bool:
    """Whether the planted mistake showed."""
    return ending.lanes[1].told == (1,)


@pytest.fixture
def system(program) -> Iterator[Callable[..., StatementSystem]]:
    """A system of these lanes, closed in the end."""
    with ExitStack() as stack:

        def make(*lanes, check=None, **options) -> StatementSystem:
            return stack.enter_context(StatementSystem(program(*lanes, **options), check=check))

        yield make


def choices_of(system: StatementSystem, bounds: Bounds) -> list[tuple[str, ...]]:
    """What a search chose, run by run."""
    return [tuple(system.choices) for _ in Search(system, bounds).runs()]


@pytest.mark.parametrize("reduce", [False, True])
def test_a_search_repeats_itself(system, reduce: bool) -> None:
    """A search makes the same choices in the same order, on a fresh system and on one that was used."""
    bounds = Bounds(reduce=reduce, schedules=300)
    used = system(*RACES[1:], kills=1)
    first = choices_of(used, bounds)

    assert first == choices_of(system(*RACES[1:], kills=1), bounds)
    assert [c for c in first if c] == choices_of(used, bounds)


def test_a_schedule_that_was_found_is_followed(system) -> None:
    """Each schedule that a search found leads to the same ending, ten times out of ten, on another system."""
    found: list[Ending] = []
    searched = system(DEFERRED, DEFERRED, check=lambda ending: bool(found.append(ending)))
    runs = [tuple(searched.choices) for complete in Search(searched, Bounds()).runs() if complete]

    for choices, ending in zip(runs, found, strict=True):
        follower = system(DEFERRED, DEFERRED)
        assert [True] * 10 == [follow(follower, choices) for _ in range(10)]
        assert {ending: 10} == follower.endings


def test_a_deadlock_is_followed(system) -> None:
    """The schedule that led to the first deadlock leads there again: two waits, and nothing else to choose."""
    searched = system(DEFERRED, DEFERRED)
    Search(searched, Bounds()).run()
    follower = system(DEFERRED, DEFERRED)

    assert searched.first_deadlock is not None
    assert not follow(follower, searched.first_deadlock)
    assert follow(follower, [*searched.first_deadlock, "w1 busy", "w2", "w2"])
    assert 1 == follower.deadlocks


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (["w3"], "choice 1, 'w3', cannot be made; take one of those there are (w1, w2)"),
        (["w1", "w1"], "choice 2, 'w1', cannot be made; take one of those there are (w2)"),
        (["w1", "w2", "w2"], "choice 3, 'w2', cannot be made; take one of those there are (none: the run is over)"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(system, choices: list[str], said: str) -> None:
    """A list of choices that does not fit is refused, with the choices that there are."""
    with pytest.raises(ChoiceError) as refused:
        follow(system((ADD,), (ADD,)), choices)

    assert said == str(refused.value)


def test_who_is_blocked_cannot_be_chosen(system) -> None:
    """A list of choices that goes on with a lane that must wait is refused."""
    with pytest.raises(ChoiceError, match="choice 2, 'w2'"):
        follow(system(("BEGIN IMMEDIATE", "COMMIT"), ("BEGIN IMMEDIATE", "COMMIT")), ["w1", "w2"])


@pytest.mark.parametrize("sample", [random_runs, lambda *a, **k: priority_runs(*a, depth=2, **k)])
def test_samples_are_what_a_search_would_find(system, sample) -> None:
    """What sampling ends in, an exhaustive search ends in too; the same seed samples the same."""
    exhaustive = system(*RACES, kills=1)
    Search(exhaustive, Bounds()).run()
    first, second = system(*RACES, kills=1), system(*RACES, kills=1)
    counts = [sample(one, seed=3, runs=60) for one in (first, second)]

    assert 60 == counts[0].schedules
    assert counts[0] == counts[1]
    assert first.endings == second.endings
    assert 5 < len(first.endings)
    assert set(first.endings) <= set(exhaustive.endings)


@pytest.mark.parametrize(("sample", "seed"), [("random", 1), ("priority", 1)])
def test_a_planted_mistake_is_found(system, sample: str, seed: int) -> None:
    """A write between two of another lane's, among three lanes and 30 statements, is found, and the run stops there."""
    one = system(*PLANTED, check=caught)
    counts = random_runs(one, seed, 400) if sample == "random" else priority_runs(one, seed, 400, depth=2)

    assert 400 > counts.schedules
    assert [ending for ending in one.endings if caught(ending)]
    assert not counts.exhausted


def test_depth_one_never_preempts(system) -> None:
    """Without a change of priority lanes run one after the other, so that nothing is caught half done."""
    one = system(*PLANTED)
    priority_runs(one, 1, 30, depth=1, bounds=Bounds(preemptions=0))

    assert not any(caught(ending) for ending in one.endings)


def test_a_sample_that_never_ends_is_cut(system) -> None:
    """A run that reaches the bound is counted as cut, and ends nowhere."""

    def forever(connection) -> None:
        while True:
            connection.execute(READ)

    one = system(forever, (ADD,))
    counts = random_runs(one, 1, 5, Bounds(transitions=20))

    assert (0, 5, 20) == (counts.schedules, counts.cut_by_transitions, counts.deepest)
    assert not one.endings
