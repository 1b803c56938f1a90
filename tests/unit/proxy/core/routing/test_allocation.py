"""Each queue has exactly one member, whoever computes it; a change moves as little as promised."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_proxy.core.routing.allocation import STRATEGIES, average, circle, consistent_hash

QUEUES = [("broker-a", i) for i in range(8)]


def test_average_keeps_neighbours_together() -> None:
    members, queues = ["a", "b", "c"], list(range(7))
    assert [average(members, queues, me) for me in members] == [[0, 1, 2], [3, 4], [5, 6]]


def test_circle_deals_them_out() -> None:
    members, queues = ["a", "b", "c"], list(range(7))
    assert [circle(members, queues, me) for me in members] == [[0, 3, 6], [1, 4], [2, 5]]


def test_members_beyond_the_queues_get_none() -> None:
    for strategy in (average, circle):
        assert strategy(["a", "b", "c"], [1, 2], "c") == []


@pytest.mark.parametrize("name", STRATEGIES)
@given(
    members=st.lists(st.text("abcdef", min_size=1), min_size=1, max_size=12, unique=True),
    count=st.integers(0, 40),
)
def test_each_queue_has_exactly_one_member(name: str, members: list[str], count: int) -> None:
    queues: list[object] = [("broker", i) for i in range(count)]
    members.sort()
    shares = [STRATEGIES[name](members, queues, me) for me in members]
    assert sorted(chain.from_iterable(shares), key=str) == sorted(queues, key=str)


def test_a_member_that_leaves_moves_only_its_own_queues() -> None:
    queues = [("broker", i) for i in range(64)]
    before = {me: set(consistent_hash(["a", "b", "c"], queues, me)) for me in "abc"}
    after = {me: set(consistent_hash(["a", "b"], queues, me)) for me in "ab"}
    assert all(before[me] <= after[me] for me in "ab")
