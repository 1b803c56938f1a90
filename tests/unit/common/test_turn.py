"""Something that several want done is done once, and no later than any of them allows."""

import asyncio

from popmq_common.turn import Turn

LONG_S = 3_600.0


class Done:
    def __init__(self) -> None:
        self.times = 0
        self.turn = Turn(self._act)

    def _act(self) -> None:
        self.times += 1


async def test_those_of_one_turn_of_the_loop_have_it_done_once() -> None:
    done = Done()
    done.turn.within(0)
    done.turn.within(0)
    assert done.times == 0
    await asyncio.sleep(0)
    assert done.times == 1
    done.turn.within(0)
    await asyncio.sleep(0)
    assert done.times == 2


async def test_who_does_not_wait_takes_the_waiting_along() -> None:
    done = Done()
    done.turn.within(0.001)
    await asyncio.sleep(0)
    assert done.times == 0
    done.turn.within(0)
    await asyncio.sleep(0)
    assert done.times == 1
    await asyncio.sleep(0.01)
    assert done.times == 1


async def test_who_waits_longer_holds_up_nobody() -> None:
    done = Done()
    done.turn.within(0.001)
    done.turn.within(LONG_S)
    await asyncio.sleep(0.01)
    assert done.times == 1
    done.turn.within(0)
    done.turn.within(LONG_S)
    await asyncio.sleep(0)
    assert done.times == 2
