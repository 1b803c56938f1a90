"""One timer for many deadlines: each is told once, when its own time is over."""

import asyncio

from popmq_proxy.clients.deadlines import Deadlines


async def test_each_is_told_when_its_time_is_over() -> None:
    told: list[tuple[int, int]] = []
    deadlines = Deadlines(lambda number, timeout_ms: told.append((number, timeout_ms)))
    deadlines.begin(1, 30)
    deadlines.begin(2, 10)
    deadlines.begin(3, 20)
    deadlines.begin(4, 60_000)
    deadlines.end(3)
    await asyncio.sleep(0.015)
    assert told == [(2, 10)]
    await asyncio.sleep(0.03)
    assert told == [(2, 10), (1, 30)]
    deadlines.close()


async def test_after_a_pause_the_timer_is_set_again() -> None:
    told: list[int] = []
    deadlines = Deadlines(lambda number, _: told.append(number))
    deadlines.begin(1, 5)
    deadlines.end(1)
    await asyncio.sleep(0.01)
    deadlines.begin(2, 5)
    await asyncio.sleep(0.02)
    assert told == [2]


async def test_nobody_is_told_after_the_end() -> None:
    told: list[int] = []
    deadlines = Deadlines(lambda number, _: told.append(number))
    deadlines.begin(1, 5)
    deadlines.close()
    await asyncio.sleep(0.01)
    assert not told
