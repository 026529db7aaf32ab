"""How long an attempt may take, and how long to wait before the next."""

from __future__ import annotations

import pytest

from impl.runner import Policy, PolicyError


class Shortest:
    """Draws the least that is allowed."""

    def randint(self, a, b):
        return a


class Longest:
    """Draws the most that is allowed."""

    def randint(self, a, b):
        return b


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), True, "50", None])
@pytest.mark.parametrize("name", ["attempt_ms", "backoff_ms", "backoff_max_ms", "grace_ms"])
def test_a_time_is_positive_and_finite(name, value):
    """Any other value is refused, and named."""
    with pytest.raises(PolicyError, match=f"{name} is {value!r}, not a positive, finite number of milliseconds"):
        Policy(**{name: value})


def test_a_time_may_be_less_than_a_millisecond():
    """Half a millisecond is a time."""
    assert 0.5 == Policy(attempt_ms=0.5).attempt_ms


def test_the_longest_wait_doubles_up_to_its_limit():
    """10 ms before the second attempt, 20 before the third, and never more than 80."""
    assert [10, 10, 20, 40, 80, 80, 80] == [Policy().wait_ms(sent, Longest()) for sent in (0, 1, 2, 3, 4, 5, 10_000)]


def test_the_shortest_wait_is_none():
    """Full jitter: a wait may be none at all, however often was sent, unless the sink has asked for one."""
    assert [0, 0, 0] == [Policy().wait_ms(sent, Shortest()) for sent in (1, 2, 9)]
    assert 7 == Policy().wait_ms(1, Shortest(), at_least_ms=7)


def test_what_the_sink_asks_for_may_be_more_than_the_limit():
    """Retry-After counts, even beyond the longest wait of our own."""
    assert 500 == Policy().wait_ms(1, Longest(), at_least_ms=500)
