"""The judge on histories that can be judged in one's head: precedence, deaths, bounds, and what it tells."""

from __future__ import annotations

import pytest

from model.histories import Call, Judge, MalformedHistoryError, Verdict, explain
from tests.model.histories.tiny import Queue, Register, Registers, TornCounter


def _verdict(specification, *calls: Call, **how) -> Verdict:
    return explain(specification, calls, **how).verdict


# -- textbook histories -------------------------------------------------------------------------------------------


def test_overlapping_enqueues_may_take_either_order() -> None:
    """Two enqueues that overlap may be dequeued in the opposite order of their beginnings (Herlihy and Wing 1990)."""
    calls = [
        Call(0, "enq x", 1, 3, "ok"),
        Call(1, "enq y", 2, 4, "ok"),
        Call(0, "deq", 5, 7, "y"),
        Call(1, "deq", 6, 8, "x"),
    ]

    assert Verdict.EXPLAINED == _verdict(Queue(), *calls)


def test_enqueues_that_do_not_overlap_keep_their_order() -> None:
    """What was enqueued after another had been enqueued is not dequeued first (Herlihy and Wing 1990)."""
    calls = [
        Call(0, "enq x", 1, 2, "ok"),
        Call(1, "enq y", 3, 4, "ok"),
        Call(1, "deq", 5, 6, "y"),
    ]

    assert Verdict.UNEXPLAINED == _verdict(Queue(), *calls)


def test_an_item_is_dequeued_once() -> None:
    """An item that two callers dequeued is explained by no order (Herlihy and Wing 1990)."""
    calls = [
        Call(0, "enq x", 1, 3, "ok"),
        Call(1, "enq y", 2, 4, "ok"),
        Call(0, "deq", 5, 7, "y"),
        Call(2, "deq", 6, 8, "y"),
    ]

    assert Verdict.UNEXPLAINED == _verdict(Queue(), *calls)


def test_an_open_call_may_have_taken_effect() -> None:
    """An enqueue that never came back explains the item that another caller got (Herlihy and Wing 1990)."""
    assert Verdict.EXPLAINED == _verdict(Queue(), Call(0, "enq x", 1), Call(1, "deq", 2, 3, "x"))


def test_an_open_call_may_have_no_effect() -> None:
    """A write that never came back may be read by nobody."""
    calls = [Call(0, "write 1", 1), Call(1, "read", 2, 3, 0), Call(1, "read", 4, 5, 0)]

    assert Verdict.EXPLAINED == _verdict(Register(), *calls)


def test_a_read_never_goes_back() -> None:
    """After a read saw a write that is under way, no later read misses it."""
    calls = [Call(0, "write 1", 1, 6, "ok"), Call(1, "read", 2, 3, 1), Call(1, "read", 4, 5, 0)]

    assert Verdict.UNEXPLAINED == _verdict(Register(), *calls)


# -- stages -------------------------------------------------------------------------------------------------------


def test_others_act_between_two_stages() -> None:
    """Two calls of two stages that overlap may both read before either writes."""
    calls = [Call(0, "add", 1, 3, 1), Call(1, "add", 2, 4, 1)]

    assert Verdict.EXPLAINED == _verdict(TornCounter(), *calls)


def test_nobody_acts_between_the_stages_of_a_call_alone() -> None:
    """Two calls of two stages that do not overlap count as two."""
    calls = [Call(0, "add", 1, 2, 1), Call(1, "add", 3, 4, 1)]

    assert Verdict.UNEXPLAINED == _verdict(TornCounter(), *calls)


def test_a_death_leaves_a_prefix() -> None:
    """A call of two stages that died leaves both, one or none of them: what is read next says which."""
    explanation = explain(TornCounter(), [Call(0, "add", 1, 2)])

    assert {0, 1} == set(explanation.ends[0])


def test_a_death_ends_the_effects() -> None:
    """A call whose process died has no effect afterwards, an open one may."""
    reads = [Call(1, "read", 3, 4, 0), Call(1, "read", 5, 6, 1)]

    assert [Verdict.UNEXPLAINED, Verdict.EXPLAINED] == [
        _verdict(Register(), Call(0, "write 1", 1, end), *reads) for end in (2, None)
    ]


def test_a_lane_goes_on_after_a_death() -> None:
    """The calls of a lane whose process died and came back follow the one that died in."""
    calls = [Call(0, "write 1", 1, 2), Call(0, "read", 3, 4, 1), Call(0, "write 2", 5, 6), Call(0, "read", 7, 8, 1)]

    assert Verdict.EXPLAINED == _verdict(Register(), *calls)


# -- what is told -------------------------------------------------------------------------------------------------


def test_every_end_is_found_once() -> None:
    """Two writes that overlap leave one or the other."""
    explanation = explain(Register(), [Call(0, "write 1", 1, 3, "ok"), Call(1, "write 2", 2, 4, "ok")])

    assert [1, 2] == sorted(explanation.ends[0])


def test_the_first_end_will_do() -> None:
    """Without ``all_ends`` one accepted end is enough."""
    calls = [Call(0, "write 1", 1, 3, "ok"), Call(1, "write 2", 2, 4, "ok")]

    assert 1 == len(explain(Register(), calls, all_ends=False).ends[0])


def test_an_end_that_is_not_accepted_is_no_end() -> None:
    """Where no accepted end is reached all calls are explained, and none is to blame."""
    calls = [Call(0, "write 1", 1, 3, "ok"), Call(1, "write 2", 2, 4, "ok")]

    explanation = explain(Register(), calls, accepts=lambda group, state: state == 3)

    assert (Verdict.UNEXPLAINED, None) == (explanation.verdict, explanation.stuck)
    assert set(calls) == set(explanation.prefix)


def test_accepted_ends_alone_are_told() -> None:
    """The ends of an explained history are those that were accepted."""
    calls = [Call(0, "write 1", 1, 3, "ok"), Call(1, "write 2", 2, 4, "ok")]

    assert ((2,),) == explain(Register(), calls, accepts=lambda group, state: state == 2).ends


def test_the_order_is_a_witness() -> None:
    """The order that is told, stage by stage, is one that explains the answers."""
    read, write = Call(1, "read", 1, 4, 1), Call(0, "write 1", 2, 3, "ok")

    assert (((write, 1), (read, 1)),) == explain(Register(), [read, write]).orders


def test_the_order_names_stages() -> None:
    """A call of two stages stands in the order twice."""
    first, second = Call(0, "add", 1, 3, 1), Call(1, "add", 2, 4, 1)

    (order,) = explain(TornCounter(), [first, second]).orders

    assert {(first, 1), (second, 1)} == set(order[:2])
    assert {(first, 2), (second, 2)} == set(order[2:])


def test_the_call_that_cannot_be_placed_is_named() -> None:
    """An unexplained history names the calls that were explained and the one that was not."""
    write, old, new = Call(0, "write 1", 1, 2, "ok"), Call(1, "read", 3, 4, 0), Call(1, "read", 5, 6, 1)

    explanation = explain(Register(), [write, old, new])

    assert ((write,), old) == (explanation.prefix, explanation.stuck)


def test_the_most_calls_are_told_whichever_lane_they_are_of() -> None:
    """Of two ways to begin, the one that explains more calls is told, though the other is first in lane order."""
    there, mine = Call(2, "enq x", 1, 2, "ok"), Call(0, "deq", 3, 20, "x")
    others = [Call(1, "deq", 4, 6, "x"), Call(1, "enq y", 7, 8, "ok"), Call(1, "deq", 9, 10, "z")]

    explanation = explain(Queue(), [there, mine, *others])

    assert ((there, *others[:2]), others[2]) == (explanation.prefix, explanation.stuck)


def test_a_specification_hears_which_operation_was_answered() -> None:
    """Whether two answers are the same may depend on what was asked."""

    class Careless(Register):
        def matches(self, operation, expected, outcome):
            return operation == "read" or expected == outcome

    assert Verdict.EXPLAINED == _verdict(Careless(), Call(0, "read", 1, 2, 7))
    assert Verdict.UNEXPLAINED == _verdict(Careless(), Call(0, "write 1", 1, 2, "lost"))


def test_groups_are_judged_alone() -> None:
    """What cannot be explained in one group is told without the other group's calls."""
    bad = Call(0, "b read", 1, 2, 7)

    explanation = explain(Registers(), [Call(1, "a write 1", 3, 4, "ok"), bad])

    assert (Verdict.UNEXPLAINED, (), bad) == (explanation.verdict, explanation.prefix, explanation.stuck)


def test_a_history_of_nothing_is_explained() -> None:
    """No calls leave the first state."""
    explanation = explain(Register(), [])

    assert (Verdict.EXPLAINED, ((0,),)) == (explanation.verdict, explanation.ends)


# -- the bound ----------------------------------------------------------------------------------------------------


def test_what_is_cut_off_is_undecided() -> None:
    """A search that needs more configurations than it may visit says neither yes nor no; one more decides."""
    calls = [Call(n, f"write {n}", n + 1, n + 9, "ok") for n in range(4)] + [Call(5, "read", 20, 21, 9)]
    needed = explain(Register(), calls).configurations

    assert [Verdict.UNDECIDED, Verdict.UNEXPLAINED] == [
        _verdict(Register(), *calls, states_max=needed - 1),
        _verdict(Register(), *calls, states_max=needed),
    ]


def test_the_bound_is_for_all_groups() -> None:
    """Groups share the bound: what one has used up is not there for the next."""
    calls = [Call(0, "a write 1", 1, 2, "ok"), Call(1, "b write 1", 3, 4, "ok")]
    needed = explain(Registers(), calls).configurations

    assert [Verdict.UNDECIDED, Verdict.EXPLAINED] == [
        _verdict(Registers(), *calls, states_max=n) for n in (needed - 1, needed)
    ]


def test_ends_that_are_cut_off_are_undecided() -> None:
    """Where all ends are asked for, finding some of them within the bound decides nothing."""
    calls = [Call(0, "write 1", 1, 3, "ok"), Call(1, "write 2", 2, 4, "ok")]
    needed = explain(Register(), calls).configurations

    assert [Verdict.UNDECIDED, Verdict.EXPLAINED] == [
        _verdict(Register(), *calls, states_max=needed - 1),
        _verdict(Register(), *calls, states_max=needed - 1, all_ends=False),
    ]


def test_orders_that_meet_are_followed_once() -> None:
    """Eight reads at once have 40,320 orders and 256 configurations."""
    calls = [Call(n, "read", n + 1, n + 20, 0) for n in range(8)]

    assert 256 == explain(Register(), calls).configurations


def test_each_end_is_asked_about_once() -> None:
    """An end that several orders reach is accepted or turned down once."""
    asked: list[int] = []
    calls = [Call(0, "write 1", 1, 3, "ok"), Call(1, "write 2", 2, 4), Call(2, "write 2", 5)]

    explain(Register(), calls, accepts=lambda group, state: asked.append(state))

    assert sorted(set(asked)) == sorted(asked) == [1, 2]


def test_a_judge_that_forgot_judges_the_same(monkeypatch) -> None:
    """A judge that remembers too much starts afresh, and finds what it found before."""
    calls = [Call(n, f"write {n}", n + 1, n + 9, "ok") for n in range(3)]
    monkeypatch.setattr("model.histories.judge.STATES_KEPT", 1)
    used = Judge(Register())

    assert used.explain(calls) == used.explain(calls)


def test_the_judge_is_deterministic() -> None:
    """The same history twice, by a judge that has judged others or by a fresh one, is explained in the same way."""
    calls = [Call(n, f"write {n}", n + 1, n + 9, "ok") for n in range(3)]
    used = Judge(Register())
    used.explain([Call(0, "write 7", 1, 2, "ok"), Call(1, "read", 3, 4, 7)])

    assert explain(Register(), calls) == used.explain(calls) == explain(Register(), calls)


# -- what is no history -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        ([Call(0, "read", 1, 3, 0), Call(0, "read", 2, 4, 0)], "same lane"),
        ([Call(0, "read", 1), Call(0, "read", 2, 3, 0)], "same lane"),
        ([Call(0, "read", 1, 2, 0), Call(0, "read", 2, 3, 0)], "same lane"),
        ([Call(0, "read", 2, 1, 0)], "ends before it begins"),
        ([Call(0, "read", 1, 1, 0)], "ends before it begins"),
        ([Call(0, "read", 1, None, 0)], "has no end"),
    ],
)
def test_what_no_caller_can_have_made_is_refused(calls, why) -> None:
    """Calls that no caller can have made are no history: the error says which and why."""
    with pytest.raises(MalformedHistoryError, match=why):
        explain(Register(), calls)
