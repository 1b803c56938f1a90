"""A replica that is far behind: how fast it copies, and that it always arrives."""

import pytest

from popmq_broker.core.replication.catch_up_pace import FAR_BYTES, FETCH_BYTES, CatchUpPace

RATE = 1_000_000


def copied_in(pace: CatchUpPace, seconds: float, growth_per_s: float, fetch_s: float) -> int:
    """Bytes, when a fetch takes so long and the log grows like that."""
    now_s, taken = 0.0, 0
    while now_s < seconds:
        taken += FETCH_BYTES
        next_s = pace.next_s(now_s, FETCH_BYTES, int(10**12 + growth_per_s * now_s))
        now_s = max(now_s + fetch_s, next_s)
    return taken


def test_it_copies_at_the_pace_that_is_set_whatever_a_fetch_takes() -> None:
    for fetch_s in (0.001, 0.2):
        taken = copied_in(CatchUpPace(RATE), 60, 0, fetch_s)
        assert taken == pytest.approx(60 * RATE, rel=0.02)


def test_a_slow_fetch_is_what_limits_it() -> None:
    taken = copied_in(CatchUpPace(RATE), 60, 0, 1.0)
    assert taken == 60 * FETCH_BYTES


def test_a_log_that_grows_fast_is_copied_twice_as_fast() -> None:
    """After the first second, in which the growth is measured."""
    taken = copied_in(CatchUpPace(RATE), 60, 5 * RATE, 0.001)
    assert taken == pytest.approx(59 * 10 * RATE, rel=0.05)


def test_time_that_was_lost_is_not_made_up_by_a_burst() -> None:
    pace = CatchUpPace(RATE)
    assert pace.next_s(0.0, RATE, 0) == 1.0
    assert pace.next_s(100.0, RATE, 0) == 101.0


def test_near_the_end_and_without_a_pace_nothing_waits() -> None:
    assert CatchUpPace(RATE).is_far(0, FAR_BYTES + 1)
    assert not CatchUpPace(RATE).is_far(0, FAR_BYTES)
    assert not CatchUpPace(0).is_far(0, 10**12)
