"""Every row of the two tables of core/store/retention.py, and every combination of what can be
found."""

from itertools import product

import pytest

from popmq_broker.core.store.retention import (
    Disk,
    DiskLimits,
    DiskState,
    Keep,
    Oldest,
    Policy,
    Pressure,
    Reason,
    RetentionDecision,
    judge,
    next_state,
    pressure,
)

NONE, HIGH, OVER = Pressure.NONE, Pressure.HIGH, Pressure.OVER
LIMITS = DiskLimits(clean_percent=85, refuse_percent=90, reserve_bytes=50)
HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS
END = 1_000


@pytest.mark.parametrize(
    ("free", "expected"),
    [(1_000, NONE), (150, NONE), (149, HIGH), (100, HIGH), (99, OVER), (51, OVER), (0, OVER)],
)
def test_pressure_by_use(free: int, expected: Pressure) -> None:
    assert pressure(Disk(1_000, free), LIMITS) is expected


def test_a_small_disk_is_full_when_its_reserve_is_reached() -> None:
    limits = DiskLimits(clean_percent=100, refuse_percent=100, reserve_bytes=50)
    assert pressure(Disk(100, 51), limits) is NONE
    assert pressure(Disk(100, 50), limits) is OVER


def test_a_disk_that_nobody_has_looked_at_is_not_full() -> None:
    assert Disk(0, 0).used_ratio == 0


@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        (DiskState.OK, NONE, DiskState.OK),
        (DiskState.OK, HIGH, DiskState.CLEANING),
        (DiskState.OK, OVER, DiskState.REFUSING),
        (DiskState.CLEANING, NONE, DiskState.OK),
        (DiskState.CLEANING, HIGH, DiskState.CLEANING),
        (DiskState.CLEANING, OVER, DiskState.REFUSING),
        (DiskState.REFUSING, NONE, DiskState.OK),
        (DiskState.REFUSING, HIGH, DiskState.REFUSING),
        (DiskState.REFUSING, OVER, DiskState.REFUSING),
    ],
)
def test_sends_are_taken_again_only_without_pressure(
    before: DiskState, now: Pressure, after: DiskState
) -> None:
    assert next_state(before, now) is after


def expected(
    oldest: Oldest, now: Pressure, holds: dict[str, int | None], hours: frozenset[int], hour: int
) -> RetentionDecision:
    """The second table again, row by row."""
    needed = tuple(sorted(name for name, at in holds.items() if at is not None and at < END))
    old = oldest.newest_ms < NOW_MS - 48 * HOUR_MS
    right_hour = not hours or hour in hours
    match (oldest.whole, bool(needed), old, now):
        case (False, _, _, _):
            return RetentionDecision(None, Keep.IN_USE)
        case (_, True, _, Pressure.OVER):
            return RetentionDecision(Reason.FORCED, None, needed)
        case (_, True, _, _):
            return RetentionDecision(None, Keep.NEEDED, needed)
        case (_, _, True, Pressure.NONE) if not right_hour:
            return RetentionDecision(None, Keep.HOUR)
        case (_, _, True, _):
            return RetentionDecision(Reason.AGE)
        case (_, _, _, Pressure.NONE):
            return RetentionDecision(None, Keep.YOUNG)
    return RetentionDecision(Reason.DISK)


@pytest.mark.parametrize("newest_ms", [NOW_MS, NOW_MS - 48 * HOUR_MS, NOW_MS - 48 * HOUR_MS - 1])
@pytest.mark.parametrize(
    "holds",
    [
        {},
        {"leases": None},
        {"leases": END},
        {"leases": END - 1},
        {"timers": 0, "leases": 999, "transactions": END},
    ],
)
def test_the_oldest_file(newest_ms: int, holds: dict[str, int | None]) -> None:
    for whole, now, hours, hour in product(
        [False, True], Pressure, [frozenset[int](), frozenset({4})], [4, 5]
    ):
        oldest = Oldest(END, newest_ms, whole)
        policy = Policy(retention_ms=48 * HOUR_MS, hours=hours)
        found = judge(oldest, policy=policy, pressure=now, holds=holds, now_ms=NOW_MS, hour=hour)
        assert found == expected(oldest, now, holds, hours, hour), (whole, now, hours, hour)
