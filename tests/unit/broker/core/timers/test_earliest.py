"""Which delayed messages are due first, while time goes on and others come?"""

import random

import pytest

from popmq_broker.core.timers import earliest as it
from popmq_broker.core.timers.earliest import BEFORE_ALL, Earliest
from popmq_broker.core.timers.timer_wheel import MARK, Wheel, WheelEntry

NOW_MS = 1_700_000_000_000
WEEK_MS = 7 * 24 * 3_600_000


def looked(wheel: Wheel, after: tuple[int, int], count: int) -> Earliest:
    found = Earliest(wheel, after, count)
    for _ in found.steps():
        pass
    return found


def test_entries_come_in_the_order_in_which_they_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it, "STEP_ENTRIES", 7)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    wheel = Wheel()
    wheel.open_near(NOW_MS, 100)
    entries = [
        WheelEntry(NOW_MS + chance.choice([1, 900, 5_000, WEEK_MS]) + chance.randrange(9), at, at)
        for at in range(300)
    ]
    wheel.add_all(entries)
    wheel.add(WheelEntry(NOW_MS + 2, 1_000, 3 | MARK))
    gone = entries[17]
    assert wheel.remove(gone)
    expected = sorted(one for one in entries if one != gone)
    pages: list[WheelEntry] = []
    after = BEFORE_ALL
    while True:
        found = looked(wheel, after, 11)
        pages += found.entries
        if not found.is_full:
            break
        after = found.entries[-1][:2]
    assert pages == expected


def test_a_look_says_when_entries_were_moved_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it, "STEP_ENTRIES", 1)
    wheel = Wheel()
    wheel.open_near(NOW_MS, 100)
    wheel.add_all([WheelEntry(NOW_MS + 5_000 + at, at, at) for at in range(9)])
    found = Earliest(wheel, BEFORE_ALL, 5)
    steps = found.steps()
    next(steps)
    assert not found.is_torn
    wheel.open_near(NOW_MS + 5_000, 100)
    assert found.is_torn
    assert len(looked(wheel, BEFORE_ALL, 5).entries) == 5


def test_what_is_delivered_meanwhile_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(it, "STEP_ENTRIES", 1)
    wheel = Wheel()
    wheel.open_near(NOW_MS, 100)
    wheel.add_all([WheelEntry(NOW_MS + 1, at, at) for at in range(9)])
    found = Earliest(wheel, BEFORE_ALL, 5)
    steps = found.steps()
    next(steps)
    wheel.take_due(NOW_MS + 1, 6)
    for _ in steps:
        pass
    assert [one.offset for one in found.entries] == [0, 6, 7, 8]
