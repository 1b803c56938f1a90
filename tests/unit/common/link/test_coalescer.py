"""A turn of its own: at once or with others, and once for all who asked."""

import asyncio

import pytest

from popmq_common.link.coalescer import Coalescer


@pytest.fixture
def ran() -> list[int]:
    return []


async def test_soon_is_the_loops_next_turn_once_for_all(ran: list[int]) -> None:
    turn = Coalescer(lambda: ran.append(1))
    turn.soon()
    turn.soon()
    turn.within(0)
    await asyncio.sleep(0)
    assert ran == [1]
    await asyncio.sleep(0.01)
    assert ran == [1]
    turn.soon()
    await asyncio.sleep(0)
    assert ran == [1, 1]


async def test_soon_goes_before_what_has_time(ran: list[int]) -> None:
    turn = Coalescer(lambda: ran.append(1))
    turn.within(3_600)
    await asyncio.sleep(0)
    assert ran == []
    turn.soon()
    await asyncio.sleep(0)
    assert ran == [1]


async def test_what_has_time_comes_once(ran: list[int]) -> None:
    done = asyncio.Event()

    def run() -> None:
        ran.append(1)
        done.set()

    turn = Coalescer(run)
    turn.within(0.001)
    turn.within(0.001)
    async with asyncio.timeout(10):
        await done.wait()
    await asyncio.sleep(0.01)
    assert ran == [1]


async def test_a_cancelled_one_does_not_come(ran: list[int]) -> None:
    turn = Coalescer(lambda: ran.append(1))
    turn.within(0.001)
    turn.cancel()
    turn.soon()
    turn.cancel()
    await asyncio.sleep(0.01)
    assert ran == []
