"""How long a claim or lock in Redis is renewed."""

import asyncio

import pytest
from redis.exceptions import ConnectionError as NoConnection

from popmq.idempotence.redis_renewal import LONGEST_S, renewed

LASTS_S = 0.03


class Held:
    """Answers renewals as it was told, then with yes."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.asked = 0
        self.enough = asyncio.Event()
        self._answers = list(answers)

    async def renew(self) -> bool:
        self.asked += 1
        if self.asked > 3:
            self.enough.set()
        answer = self._answers.pop(0) if self._answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_until_the_block_is_left_and_through_failures() -> None:
    held = Held(True, NoConnection("down"), NoConnection("down"))
    async with renewed(held.renew, "order-1", LASTS_S, LONGEST_S):
        await held.enough.wait()
    asked = held.asked
    await asyncio.sleep(2 * LASTS_S)
    assert held.asked == asked


async def test_not_when_it_is_lost() -> None:
    held = Held(True, False)
    async with renewed(held.renew, "order-1", LASTS_S, LONGEST_S):
        await asyncio.sleep(4 * LASTS_S)
    assert held.asked <= 2


async def test_not_for_ever() -> None:
    held = Held()
    async with renewed(held.renew, "order-1", LASTS_S, 0.0):
        await asyncio.sleep(2 * LASTS_S)
    assert held.asked == 0


async def test_an_error_of_the_block_ends_it() -> None:
    held = Held()
    with pytest.raises(OSError, match="handler"):
        async with renewed(held.renew, "order-1", LASTS_S, LONGEST_S):
            raise OSError("handler")
    await asyncio.sleep(2 * LASTS_S)
    assert held.asked == 0
