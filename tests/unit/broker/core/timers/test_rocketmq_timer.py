"""The note of what waits that RocketMQ's timer starts from."""

import struct
from random import Random

import pytest
from harness.rocketmq_timer import UNIT_BYTES, delivered_from, units

from popmq_broker.core.timers.rocketmq_timer import (
    WINDOW_MS,
    Waiting,
    second_of,
    timer_check,
    timer_log,
)

NOW_MS = 1_700_000_000_250
READ_MS = 1_700_000_000_000
LAST = Waiting(0, 9_999, 77)


@pytest.mark.parametrize(
    ("due_ms", "second_ms"), [(5_000, 4_000), (5_001, 5_000), (5_999, 5_000), (6_000, 5_000)]
)
def test_a_second_is_over_when_what_it_holds_is_due(due_ms: int, second_ms: int) -> None:
    """RocketMQ delivers a second once the next has begun: never early, and what it recalls by its
    own rounding is in the same one."""
    assert second_of(due_ms) == second_ms
    assert second_ms < due_ms <= second_ms + 1_000


@pytest.mark.parametrize("file_bytes", [1 << 20, 3 * UNIT_BYTES + 16, 4 * UNIT_BYTES])
def test_what_waits_is_delivered_in_its_second(file_bytes: int) -> None:
    rng = Random(4)
    waiting = [Waiting(NOW_MS + rng.randrange(5_000), i * 100, 100 + i) for i in range(40)]
    read = units(timer_log(waiting, LAST, NOW_MS, file_bytes), file_bytes)
    wanted: dict[int, list[tuple[int, int]]] = {}
    for one in waiting:
        wanted.setdefault(second_of(one.due_ms), []).append((one.log_offset, one.size_bytes))
    found = delivered_from(read, READ_MS)
    assert wanted == {
        second: [(unit.log_offset, unit.size_bytes) for unit in chain]
        for second, chain in found.items()
    }
    assert not any(unit.rolls for unit in read)


def test_what_is_overdue_is_delivered_at_once() -> None:
    read = units(timer_log([Waiting(NOW_MS - 60_000, 5, 6)], LAST, NOW_MS), 100 << 20)
    ((second_ms, (unit,)),) = delivered_from(read, READ_MS).items()
    assert (second_ms, unit.log_offset) == (READ_MS, 5)


def test_the_last_unit_says_where_the_queue_was_read_to_and_is_never_delivered() -> None:
    for waiting in ([], [Waiting(NOW_MS + 1, 1, 2)]):
        *_, last = units(timer_log(waiting, LAST, NOW_MS), 100 << 20)
        assert (last.log_offset, last.size_bytes) == LAST[1:]
        assert last.second_ms < READ_MS


@pytest.mark.parametrize(
    ("left_ms", "again_ms"),
    [(WINDOW_MS, WINDOW_MS // 2), (4 * WINDOW_MS // 3, WINDOW_MS), (20 * WINDOW_MS, WINDOW_MS)],
)
def test_what_is_due_in_days_is_written_again_before(left_ms: int, again_ms: int) -> None:
    far = Waiting(READ_MS + left_ms + 1, 1, 2)
    unit, _ = units(timer_log([far], LAST, NOW_MS), 100 << 20)
    assert unit.rolls
    assert unit.second_ms == READ_MS + again_ms


def test_the_check_page() -> None:
    page = timer_check(NOW_MS, 104, 17)
    assert len(page) == 4_096
    assert struct.unpack_from(">qqqq", page) == (READ_MS, 104, 17, 17)
