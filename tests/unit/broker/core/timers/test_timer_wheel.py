"""The wheel: whatever goes in comes out once, in time, whatever is spread and removed meanwhile."""

import random
from array import array
from sys import getsizeof

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_broker.core.timers import timer_snapshot
from popmq_broker.core.timers.timer_wheel import MARK, Wheel, WheelEntry
from popmq_common.errors import Corrupt

START_MS = 1_700_000_000_000
DELAYS = st.one_of(
    st.integers(-5_000, 5_000), st.integers(0, 10_000_000), st.integers(0, 40 * 86_400_000)
)


def taken(wheel: Wheel, now_ms: int, count: int = 7) -> list[WheelEntry]:
    """All that is due, in small steps as an engine takes it."""
    found: list[WheelEntry] = []
    while True:
        opened = wheel.open_near(now_ms, 5)
        more = wheel.take_due(now_ms, count)
        found += more
        if opened and not more:
            return found


@given(
    delays=st.lists(DELAYS, max_size=60),
    steps=st.lists(st.integers(0, 5_000_000), max_size=20),
    seed=st.integers(0, 1_000),
)
def test_everything_comes_out_once_and_in_time(
    delays: list[int], steps: list[int], seed: int
) -> None:
    rng = random.Random(seed)
    wheel, now_ms = Wheel(), START_MS
    waiting: dict[int, WheelEntry] = {}
    for offset, delay in enumerate(delays):
        entry = WheelEntry(now_ms + delay, offset, rng.choice([1, 2, 3, 1 | MARK]))
        wheel.add(entry)
        waiting[offset] = entry
        if steps and rng.random() < 0.5:
            now_ms += steps.pop()
            for found in taken(wheel, now_ms):
                assert waiting.pop(found.offset) == found
            assert all(entry.due_ms > now_ms for entry in waiting.values())
        if waiting and rng.random() < 0.3:
            gone = rng.choice(list(waiting.values()))
            assert gone.offset in wheel.find(gone.due_ms, gone.code)
            assert wheel.remove(gone)
            assert not wheel.remove(gone)
            assert gone.offset not in wheel.find(gone.due_ms, gone.code)
            del waiting[gone.offset]
        marks = sum(1 for entry in waiting.values() if entry.code & MARK)
        assert (wheel.message_count, wheel.mark_count) == (len(waiting) - marks, marks)
        assert wheel.first_offset() == min(waiting, default=None)
        wake_ms = wheel.next_wake_ms()
        first_ms = min((entry.due_ms for entry in waiting.values()), default=None)
        assert first_ms is None or (wake_ms is not None and wake_ms <= first_ms)
        late_ms = max((now_ms - entry.due_ms for entry in waiting.values()), default=0)
        assert wheel.overdue_ms(now_ms) >= max(0, late_ms)
        below = sorted(entry.offset for entry in wheel.before(offset // 2, 1_000))
        assert below == sorted(o for o in waiting if o < offset // 2)
    assert sorted(e.offset for e in taken(wheel, START_MS + 10**12)) == sorted(waiting)
    assert len(wheel) == 0
    assert wheel.next_wake_ms() is None


@given(delays=st.lists(DELAYS, max_size=40), step=st.integers(0, 5_000_000))
def test_a_snapshot_holds_what_waits(delays: list[int], step: int) -> None:
    wheel = Wheel()
    for offset, delay in enumerate(delays):
        wheel.add(WheelEntry(START_MS + delay, offset, offset * 7))
    gone = {entry.offset for entry in taken(wheel, START_MS + step)}
    if delays and 0 not in gone:
        wheel.remove(WheelEntry(START_MS + delays[0], 0, 0))
        gone.add(0)
    data = timer_snapshot.encode(wheel, 77, len(delays), {3: 9})
    saved = timer_snapshot.decode(data, where="here")
    assert (saved.log_end, saved.loaded_to, saved.levels) == (77, len(delays), {3: 9})
    expected = {(START_MS + delay, i, i * 7) for i, delay in enumerate(delays) if i not in gone}
    assert set(saved.entries()) == expected
    for at in random.Random(step).sample(range(len(data)), 5):
        damaged = data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
        with pytest.raises(Corrupt, match="here"):
            timer_snapshot.decode(damaged, where="here")
    with pytest.raises(Corrupt):
        timer_snapshot.decode(data[:10], where="here")


def test_twenty_thousand_of_one_millisecond_hold_nobody_up() -> None:
    """Each step is small, whatever a bucket holds."""
    wheel = Wheel()
    for offset in range(20_000):
        wheel.add(WheelEntry(START_MS + 5_000_000, offset, 1))
    now_ms, steps = START_MS + 5_000_000, 0
    found: list[WheelEntry] = []
    while len(found) < 20_000:
        wheel.open_near(now_ms, 4_096)
        batch = wheel.take_due(now_ms, 256)
        assert len(batch) <= 256
        found += batch
        steps += 1
    assert [entry.offset for entry in found] == list(range(20_000))
    assert steps <= 100


def test_a_large_bucket_far_ahead_holds_up_nobody_who_is_due() -> None:
    wheel, width_ms = Wheel(), 1 << 22
    now_ms = START_MS - START_MS % width_ms
    wheel.open_near(now_ms, 10)
    for offset in range(5_000):
        wheel.add(WheelEntry(now_ms + 2 * width_ms + offset, offset, 1))
    wheel.add(WheelEntry(now_ms + width_ms + 5_000, 5_000, 1))
    wheel.open_near(now_ms + width_ms + 5_000, 10)
    (due,) = wheel.take_due(now_ms + width_ms + 5_000, 10)
    assert due.offset == 5_000


def test_what_one_entry_costs() -> None:
    """A million take no more than 64 MiB, however scattered; measured in bench/extremes."""
    rng, wheel = random.Random(1), Wheel()
    for offset in range(5_000):
        wheel.add(WheelEntry(START_MS + rng.randrange(40 * 86_400_000), offset, offset))
    used = sum(
        getsizeof(part)
        for bucket in wheel.buckets()
        for part in (bucket, bucket.dues, bucket.offsets, bucket.codes)
    )
    bucket_count = len(list(wheel.buckets()))
    assert bucket_count < 1_000, "buckets are as coarse as they can be"
    assert used - bucket_count * 400 < 5_000 * 24


def test_arrays_have_the_sizes_the_snapshot_counts_on() -> None:
    assert (array("I").itemsize, array("q").itemsize) == (4, 8)
