"""Who reads much leaves the next turns to others."""

import asyncio
from itertools import pairwise

from popmq_common.link.portions import TURN_BYTES, Portions


async def test_small_reads_do_not_wait() -> None:
    portions = Portions()
    for _ in range(100):
        assert not await portions.wait()
        portions.use(TURN_BYTES // 200)


async def test_large_reads_wait_for_a_turn_each() -> None:
    portions, done = Portions(), []

    async def read(number: int) -> None:
        await portions.wait()
        portions.use(TURN_BYTES)
        done.append(number)

    tasks = [asyncio.create_task(read(number)) for number in range(5)]
    counts = []
    while len(done) < 5:
        await asyncio.sleep(0)
        counts.append(len(done))
    assert done == list(range(5))
    assert max(later - before for before, later in pairwise(counts)) == 1
    await asyncio.gather(*tasks)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not await portions.wait()


async def test_who_is_cancelled_does_not_keep_others_waiting() -> None:
    portions = Portions()
    tasks = [asyncio.create_task(portions.wait()) for _ in range(3)]
    portions.use(TURN_BYTES)
    await asyncio.sleep(0)
    tasks[0].cancel()
    async with asyncio.timeout(5):
        assert await asyncio.gather(*tasks[1:]) == [True, True]


async def test_who_holds_something_comes_first() -> None:
    portions, done = Portions(), []

    async def read(number: int) -> None:
        for holds in (False, True):
            await portions.wait(holds=holds)
            portions.use(TURN_BYTES)
            done.append((number, holds))

    await asyncio.gather(*(read(number) for number in range(3)))
    assert done == [(number, holds) for number in range(3) for holds in (False, True)]
