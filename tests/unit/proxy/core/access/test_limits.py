"""Is more than a second's worth let through in no second, and all of it in the long run?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_common.errors import IllegalAccessEntry
from popmq_proxy.core.access.limits import Limits, TokenBucket, ceilings, check_limits

STEPS = st.lists(
    st.tuples(st.floats(0, 2, allow_nan=False), st.integers(1, 40)), min_size=1, max_size=60
)


@given(st.integers(1, 20), STEPS)
def test_no_history_gets_more_than_the_rate_and_one_bucket(
    rate: int, steps: list[tuple[float, int]]
) -> None:
    now_s, taken = 0.0, 0
    bucket = TokenBucket(rate, now_s)
    for pause_s, amount in steps:
        now_s += pause_s
        if bucket.wait_s(amount, now_s) == 0:
            bucket.take(amount)
            taken += amount
            largest = max(amount, rate)
            assert taken <= rate * now_s + rate + largest + 1e-6


@given(st.integers(1, 20), st.integers(1, 100))
def test_who_waits_as_long_as_told_gets_it(rate: int, amount: int) -> None:
    """Also more than a second's worth: one request is never refused for ever."""
    bucket, now_s = TokenBucket(rate, 0.0), 0.0
    for _ in range(5):
        wait_s = bucket.wait_s(amount, now_s)
        now_s += wait_s + 1e-9
        assert bucket.wait_s(amount, now_s) == pytest.approx(0, abs=1e-6)
        bucket.take(amount)


@pytest.mark.parametrize(
    ("subject", "written"),
    [("user:alice", "User:alice"), ("User:*", "User:*"), ("TOPIC:a", "Topic:a")],
)
def test_a_subject_is_written_in_one_way(subject: str, written: str) -> None:
    assert check_limits(Limits(subject, 1)).subject == written


@pytest.mark.parametrize("subject", ["", "alice", "User:", "Group:g", "Client:c", "*"])
def test_no_subject(subject: str) -> None:
    with pytest.raises(IllegalAccessEntry):
        check_limits(Limits(subject, 1))


def test_no_limit_is_negative() -> None:
    with pytest.raises(IllegalAccessEntry, match="0, for none"):
        check_limits(Limits("User:*", -1))


@pytest.mark.parametrize(
    "limits",
    [
        Limits("Topic:t", calls=1),
        Limits("Topic:t", connections=1),
        Limits("Topic:t", creations_per_h=1),
        Limits("Client:*", creations_per_h=1),
    ],
)
def test_what_a_topic_or_client_cannot_have_is_refused(limits: Limits) -> None:
    with pytest.raises(IllegalAccessEntry, match="are of users"):
        check_limits(limits)


def test_own_limits_count_instead_of_those_of_everybody_none_of_them_too() -> None:
    limits = {
        one.subject: one
        for one in (Limits("User:*", calls=5), Limits("User:a", calls=9), Limits("User:b", 7))
    }
    found = ceilings(limits, "User", lambda one: one.calls)
    assert found is not None
    assert [found.of(name) for name in ("a", "b", "c")] == [9, 0, 5]
    assert ceilings(limits, "Client", lambda one: one.calls) is None
    assert ceilings(limits, "User", lambda one: one.connections) is None


def test_an_hours_worth_fills_within_an_hour() -> None:
    bucket = TokenBucket(4, 0.0, 3_600.0)
    for _ in range(4):
        assert bucket.wait_s(1, 0.0) == 0
        bucket.take(1)
    assert bucket.wait_s(1, 0.0) == pytest.approx(900)
    assert bucket.wait_s(1, 900.0) == pytest.approx(0)
