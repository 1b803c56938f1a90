"""An export goes at its pace, and does not catch up what it did not use."""

import pytest

from popmq_pipelines.export.rate_limit import AHEAD_OF_LOG, BEHIND_S_MAX, RateLimit


def test_rows_and_bytes_both_count() -> None:
    by_rows = RateLimit(rows_per_s=100, bytes_per_s=1_000)
    assert by_rows.delay_s(0.0, 50, 10) == pytest.approx(0.5)
    assert by_rows.delay_s(0.5, 1, 1_000) == pytest.approx(1.0)


def test_without_a_limit_nothing_waits() -> None:
    free = RateLimit(rows_per_s=0, bytes_per_s=0)
    assert [free.delay_s(float(i), 10**9, 10**12) for i in range(3)] == [0.0, 0.0, 0.0]


def test_a_long_run_takes_as_long_as_it_should() -> None:
    pace, now_s = RateLimit(rows_per_s=1_000, bytes_per_s=0), 0.0
    for _ in range(100):
        now_s += 0.001 + pace.delay_s(now_s, 50, 0)
    assert now_s == pytest.approx(100 * 50 / 1_000, rel=0.1)


def test_a_stop_is_not_made_up_for() -> None:
    pace = RateLimit(rows_per_s=1_000, bytes_per_s=0)
    pace.delay_s(0.0, 1, 0)
    burst = sum(1 for _ in range(10_000) if not pace.delay_s(100.0, 1, 0))
    assert burst <= BEHIND_S_MAX * 1_000 + 1


def test_it_is_faster_than_the_log_grows() -> None:
    """Else snapshots of a busy broker would fall behind, and its log keep its files for them."""
    slow, log_bytes_per_s = 10, 50_000.0
    pace, now_s, read_bytes = RateLimit(slow, 0, log_bytes_per_s), 0.0, 0
    while now_s < 60:
        now_s += pace.delay_s(now_s, 25, 25_000)
        read_bytes += 25_000
    assert read_bytes / now_s == pytest.approx(log_bytes_per_s * AHEAD_OF_LOG, rel=0.05)


def test_one_that_may_be_faster_than_twice_the_log_is() -> None:
    assert RateLimit(1_000, 0, 1.0).delay_s(0.0, 100, 100_000) == pytest.approx(0.1)
