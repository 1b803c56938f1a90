"""Coroutines in few tasks, each as if it had one of its own."""

import asyncio
import contextvars

import pytest

from popmq.app.in_context import InContext

user = contextvars.ContextVar("user", default="nobody")


def never() -> None:
    raise AssertionError("it does not wait")


async def test_what_one_leaves_in_its_context_the_next_does_not_see() -> None:
    async def one(name: str) -> str:
        before = user.get()
        user.set(name)
        await asyncio.sleep(0)
        assert user.get() == name
        return before

    for name in ("anna", "bert"):
        assert await InContext(one(name), lambda: None) == "nobody"
    assert user.get() == "nobody"


async def test_it_says_once_that_it_waits() -> None:
    waits = 0

    def waited() -> None:
        nonlocal waits
        waits += 1

    async def work() -> int:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        return 7

    async def at_once() -> int:
        return 8

    assert await InContext(work(), waited) == 7
    assert await InContext(at_once(), never) == 8
    assert waits == 1


async def test_errors_and_cancelling_come_through() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("bad")

    async def cleans_up() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.append("cleaned up")
            raise

    async def stops() -> None:
        raise StopIteration

    with pytest.raises(ValueError, match="bad"):
        await InContext(fails(), lambda: None)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await InContext(stops(), never)
    ended: list[str] = []

    async def running() -> None:
        await InContext(cleans_up(), lambda: None)

    task = asyncio.create_task(running())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["cleaned up"]


async def test_time_limits_inside_work() -> None:
    async def limited() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "late"
        return "in time"

    assert await InContext(limited(), lambda: None) == "late"
