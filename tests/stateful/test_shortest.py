"""The search of all shorter orders: it finds the shortest, says what it could not look at, and takes no two for one."""

from __future__ import annotations

from itertools import product

from impl.protocol import Answer
from impl.sqlite import SqliteDispatcher
from model.actions import Step
from model.contracts import Contracts
from model.words import Kind
from stateful.order import Rig
from stateful.shortest import Shortest, shortest
from stateful.subject import Subject, load_subject


class Counting(SqliteDispatcher):
    """It answers its second submission of one incarnation otherwise than the first: no row shows that it counts."""

    def __init__(self, site):
        super().__init__(site)
        self.submissions = 0

    def submit(self, key, payload, deadline_ms=None):
        """Store an intent; from the second on, claim that each is new."""
        self.submissions += 1
        answer = super().submit(key, payload, deadline_ms)
        return answer if self.submissions < 3 else Answer(Kind.OK, "no reason", token=-1)


class Fragile(SqliteDispatcher):
    """A client that dies when it has stored an intent leaves it to a policy revision that is out of all bounds."""

    def submit(self, key, payload, deadline_ms=None):
        """Store an intent between two changes of the policy."""
        revision = self.ledger.policy_revision()
        self.ledger.set_policy(revision + 1)
        answer = super().submit(key, payload, deadline_ms)
        self.ledger._execute("UPDATE meta SET revision = ?", (revision,))
        return answer


def planted(make):
    return Subject(f"tests:{make.__name__}", "", make, make.capabilities)


def labels(found):
    return [step.label for step in found.order]


def tried(mistake, order, **options):
    return shortest(load_subject(mistake=mistake), Contracts(), order, **options)


def test_a_shortest_order_is_shown_to_be_the_shortest(steps):
    """Nothing shorter than a claim of what was submitted breaks a promise where tokens do not rise."""
    found = tried("M002", steps("submit k1 p1", "claim w1 k1"))

    assert found.proves(2)
    assert (2, (), True) == (found.steps, found.order, found.exhausted)


def test_a_longer_order_is_told_not_to_be_the_shortest(steps):
    """A planted order that goes round about is held against the one that does not."""
    found = tried("M002", steps("submit k1 p1", "approve k1 p1", "claim w1 k1", "release w1 k1", "claim w2 k1"))

    assert not found.proves(5)
    assert (2, ["submit k1 p1", "claim w1 k1"]) == (found.steps, labels(found))
    assert "no-stale-token" == found.property_id


def test_what_it_finds_breaks_the_promise_again(steps, rig):
    """The shorter order is a failure order like any other."""
    found = tried("M021", steps(*["submit k1 p1"] * 4))

    assert 3 == found.steps == len(found.order)
    assert found.property_id == rig(mistake="M021").run(found.order).finding.property_id


def test_a_search_that_is_cut_says_what_it_has_seen(steps):
    """However early it is cut, it claims no more than the layers that it finished."""
    long = steps(*["submit k1 p1"] * 6)
    whole = tried("M016", long)
    cut = [tried("M016", long, steps_max=whole.executed * n // 12) for n in range(12)]

    assert (3, True) == (whole.steps, whole.exhausted)
    assert {()} == {found.order for found in cut}
    assert not any(found.exhausted or found.proves(6) for found in cut)
    assert [1, 2, 3] == sorted({found.steps for found in cut})
    assert [found.steps for found in cut] == sorted(found.steps for found in cut)


def test_a_dispatcher_without_a_mistake_breaks_nothing(steps):
    """Every order of two steps, at rest after each."""
    assert tried("", steps(*["submit k1 p1"] * 3), conforms=True).proves(3)


def test_no_order_is_lost_for_being_taken_for_another(steps):
    """Run one by one, and none left out, the orders of fewer steps break nothing either."""
    order = tried("M016", steps(*["submit k1 p1"] * 4)).order
    with Rig(load_subject(mistake="M016"), Contracts(), keys=1) as plain:
        first = [s for s in plain.model.alphabet.by_label if s.startswith(("submit", "approve", "advance"))]
        actions = plain.model.alphabet.by_label.values()
        findings = {
            plain.run(tuple(Step(a) for a in pair)).finding
            for pair in product([plain.model.alphabet.by_label[label] for label in first], actions)
        }

    assert 3 == len(order)
    assert {None} == {f for f in findings if f is None or f.property_id != "conforms"}


def test_what_a_dispatcher_has_in_its_head_tells_orders_apart(steps):
    """Submissions that change no row are still counted by whoever counts them."""
    found = shortest(planted(Counting), Contracts(), steps(*["submit k1 p1"] * 4))

    assert ["submit k1 p1"] * 3 == [label.replace("p1-reordered", "p1") for label in labels(found)]
    assert "answers" == found.property_id


def test_a_clock_that_is_read_may_jump(steps):
    """Jumps of wall clocks are tried where somebody reads one, and only there."""
    order = steps("submit k1 p1", "jump_wall w1 back", "claim w1 k1")

    assert ["submit k1 p1", "jump_wall w1 back"] == labels(tried("M117", order))
    assert tried("M002", steps("submit k1 p1", "claim w1 k1", "claim w2 k1")).states < 30


def test_deaths_inside_an_operation_are_tried_where_the_order_has_one(steps):
    """An order without deaths is held against those without, and one with a death against all."""
    plain, dying = steps("submit k1 p1", "cancel k1"), steps("submit k1 p1", "cancel k1!1")
    subject = planted(Fragile)

    without = shortest(subject, Contracts(), plain, conforms=True)
    found = shortest(subject, Contracts(), dying, conforms=True)

    assert without.proves(2)
    assert 1 == found.steps
    assert "submit k1 p1 killed at boundary" in labels(found)[0]


def test_nothing_is_shown_of_an_order_that_is_not_as_long():
    """A bound that was proven for one length proves nothing for another."""
    assert not Shortest(5).proves(6)
    assert not Shortest(5).proves(4)
