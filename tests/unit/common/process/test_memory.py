"""When memory is worth giving back: after a peak, once."""

from popmq_common.process.memory import Peak


def test_it_tells_once_that_a_peak_is_over() -> None:
    peak = Peak(1_000)
    told = [peak.is_over(count, count) for count in (10, 5_000, 400, 300, 10, 0, 2_000, 50)]
    assert told == [False, False, False, True, False, False, False, True]


def test_a_low_peak_is_not_worth_it() -> None:
    peak = Peak(1_000)
    assert not any(peak.is_over(count, count) for count in (900, 0, 900, 0))


def test_a_peak_between_two_looks_is_seen() -> None:
    peak = Peak(1_000)
    assert [peak.is_over(0, most) for most in (0, 4_000, 0)] == [False, True, False]
