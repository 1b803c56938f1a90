"""Requests that callers share, without a network."""

import asyncio

import pytest

from popmq._core.batch_queue import BatchBounds
from popmq.connection.batcher import Batcher
from popmq.connection.budget_gate import BudgetGate
from popmq.errors import ClientClosed

BOUNDS = BatchBounds(items_max=4, bytes_max=1_000, linger_s=60.0, under_way_max=1)


async def test_what_tasks_put_in_one_turn_leaves_together() -> None:
    asked: list[list[int]] = []

    async def ask(items: list[int]) -> list[int | Exception]:
        asked.append(items)
        return [ValueError("odd") if item % 2 else item for item in items]

    batches: Batcher[int, int] = Batcher(ask, BOUNDS)
    results = await asyncio.gather(*(batches.one(i) for i in range(6)), return_exceptions=True)
    assert asked == [[0, 1, 2, 3], [4, 5]]
    assert [result for result in results if isinstance(result, int)] == [0, 2, 4]
    assert batches.idle


async def test_a_failed_request_is_told_to_each_and_the_next_leaves() -> None:
    tries = 0

    async def ask(items: list[int]) -> list[int | Exception]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError("gone")
        return list(items)

    batches: Batcher[int, int] = Batcher(ask, BOUNDS)
    results = await asyncio.gather(*(batches.one(i) for i in range(6)), return_exceptions=True)
    assert [type(result) for result in results] == [OSError] * 4 + [int] * 2


async def test_what_is_under_way_at_the_end_is_told() -> None:
    async def ask(items: list[int]) -> list[int | Exception]:
        await asyncio.Event().wait()
        return []

    room = BudgetGate(1, 1_000)
    await room.enter(5)
    batches: Batcher[int, int] = Batcher(ask, BOUNDS, room)
    caller = asyncio.create_task(batches.one(1, 5))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await batches.cancel()
    with pytest.raises(ClientClosed):
        await caller
    assert room.messages == 0


async def test_nobody_overtakes_who_was_let_in() -> None:
    room, order = BudgetGate(1, 1_000), []

    async def enter(name: str) -> None:
        await room.enter(1)
        order.append(name)

    await room.enter(1)
    first = asyncio.create_task(enter("first"))
    await asyncio.sleep(0)
    room.leave(1)  # lets the first one in, which has not run yet
    assert not room.try_enter(1)
    second = asyncio.create_task(enter("second"))
    await first
    room.leave(1)
    await second
    assert order == ["first", "second"]


async def test_who_is_cancelled_gives_the_room_back() -> None:
    room = BudgetGate(1, 1_000)
    await room.enter(1)
    waiting = [asyncio.create_task(room.enter(1)) for _ in range(2)]
    await asyncio.sleep(0)
    room.leave(1)
    waiting[0].cancel()  # when it was let in and has not run
    await asyncio.gather(*waiting, return_exceptions=True)
    assert room.messages == 1
    assert not waiting[1].cancelled()
