"""Waiting calls whose clients went away are found, and nobody else is disturbed."""

import asyncio
from typing import Any

from popmq_proxy.front.vigil import A_SECOND_MAX, EACH_S, STEP_S, Vigil

THERE = {"type": "http.request"}
GONE = {"type": "http.disconnect"}


async def waiting(vigil: Vigil, event: dict[str, Any]) -> "asyncio.Task[None]":
    async def receive() -> dict[str, Any]:
        return event

    async def wait() -> None:
        with vigil.over(receive):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    return task


async def test_only_the_call_whose_client_is_gone_ends() -> None:
    vigil = Vigil()
    stays, goes = await waiting(vigil, THERE), await waiting(vigil, GONE)
    await vigil.ask(asyncio.get_running_loop().time() + EACH_S + 1)
    await asyncio.wait([goes], timeout=1)
    assert goes.cancelled()
    assert not stays.done()
    assert len(vigil) == 1
    stays.cancel()


async def test_nobody_is_asked_before_its_turn() -> None:
    vigil = Vigil()
    task = await waiting(vigil, GONE)
    await vigil.ask(asyncio.get_running_loop().time() + EACH_S / 2)
    assert len(vigil) == 1
    task.cancel()


async def test_asking_is_bounded_and_everybody_has_a_turn() -> None:
    vigil = Vigil()
    at_a_time = int(A_SECOND_MAX * STEP_S)
    tasks = [await waiting(vigil, GONE) for _ in range(2 * at_a_time)]
    later_s = asyncio.get_running_loop().time() + EACH_S + 1
    await vigil.ask(later_s)
    assert len(vigil) == at_a_time
    await vigil.ask(later_s)
    assert len(vigil) == 0
    await asyncio.gather(*tasks, return_exceptions=True)
