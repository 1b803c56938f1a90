"""Waiting polls: one message wakes one, filters are looked at, tables return to zero."""

import asyncio

import pytest

from popmq_broker.core.filter import parse_tags
from popmq_broker.core.queue_entry import tags_code
from popmq_broker.engine.wait import Waiters, WaitKey
from popmq_common.errors import TooManyRequests

KEY = WaitKey("g", "t")


async def polls(waiters: Waiters, *expressions: str) -> "list[asyncio.Task[bool]]":
    tasks = [
        asyncio.create_task(waiters.wait(KEY, parse_tags(expression), 5))
        for expression in expressions
    ]
    await asyncio.sleep(0)
    return tasks


def done(tasks: "list[asyncio.Task[bool]]") -> list[bool]:
    return [task.done() for task in tasks]


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_one_arrival_wakes_the_oldest_poll_alone() -> None:
    waiters = Waiters(10)
    tasks = await polls(waiters, "*", "*")
    waiters.arrived("t", [0])
    await settle()
    assert done(tasks) == [True, False]
    waiters.wake_next(KEY)
    await settle()
    assert done(tasks) == [True, True]
    assert waiters.count == 0


async def test_a_poll_whose_filter_does_not_match_is_passed_over() -> None:
    waiters = Waiters(10)
    tasks = await polls(waiters, "A", "B")
    waiters.arrived("t", [tags_code("B")])
    await settle()
    assert done(tasks) == [False, True]
    waiters.wake_all("t")
    assert await tasks[0]


async def test_an_arrival_in_the_retry_topic_wakes_its_group() -> None:
    waiters = Waiters(10)
    tasks = await polls(waiters, "*")
    waiters.arrived("%RETRY%other_t", [0])
    await settle()
    assert done(tasks) == [False]
    waiters.arrived("%RETRY%g_t", [0])
    assert await tasks[0]


async def test_a_poll_ends_when_its_time_is_over_and_leaves_nothing() -> None:
    waiters = Waiters(10)
    assert not await waiters.wait(KEY, None, 0.01)
    assert waiters.count == 0
    waiters.arrived("t", [0])  # nobody is there


async def test_the_bound_is_a_typed_refusal() -> None:
    waiters = Waiters(1)
    (task,) = await polls(waiters, "*")
    with pytest.raises(TooManyRequests, match="waiting polls"):
        await waiters.wait(KEY, None, 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert waiters.count == 0


async def test_in_a_steady_stream_arrivals_gather_and_share_a_poll() -> None:
    waiters = Waiters(10, gap_ms=10)
    tasks = await polls(waiters, "*", "*", "*")
    waiters.arrived("t", [0])
    waiters.arrived("t", [0])
    waiters.arrived("t", [0])
    await settle()
    assert done(tasks) == [True, False, False]
    assert await asyncio.wait_for(tasks[1], 1)
    await settle()
    assert done(tasks) == [True, True, False]
    tasks[2].cancel()


async def test_an_arrival_that_nobody_awaits_opens_no_gap() -> None:
    waiters = Waiters(10, gap_ms=60_000)
    waiters.arrived("t", [0])
    assert not waiters.gathers(KEY)


async def test_a_poll_that_comes_while_arrivals_gather_is_woken_at_the_end_of_the_gap() -> None:
    """Also when nothing more arrived: it has not looked yet, and something may have been left."""
    waiters = Waiters(10, gap_ms=10)
    (first,) = await polls(waiters, "*")
    waiters.arrived("t", [0])
    assert await first
    assert waiters.gathers(KEY)
    assert await waiters.wait(KEY, None, 5, looked=False)


async def test_a_gathered_arrival_still_looks_at_filters() -> None:
    waiters = Waiters(10, gap_ms=5)
    tasks = await polls(waiters, "*", "B")
    waiters.arrived("t", [0])
    waiters.arrived("t", [tags_code("A")])
    await asyncio.sleep(0.03)
    assert done(tasks) == [True, False]
    tasks[1].cancel()
