"""Long work of many calls in time slices: some steps of it in each turn of the event loop.

A step takes a millisecond, say. Where hundreds of calls have such work, each doing one step a turn,
a turn would take as long as all of them. So the steps of a turn end after `STEPS_S`, and calls wait
for the next turn in their order.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final

from popmq_common.link.coalescer import Coalescer

STEPS_S: Final = 0.001


class TimeSlices:
    def __init__(self) -> None:
        self._used_s = 0.0
        """Of this turn."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        """No more than there are calls."""
        self._coalescer = Coalescer(self._next_turn)

    async def run(self, step: Callable[[], bool]) -> None:
        """Until a step says that it was the last one. Raises what a step raises."""
        while True:
            if self._waiting or self._used_s >= STEPS_S:
                await self._wait()
            began_s = monotonic()
            try:
                if step():
                    return
            finally:
                self._used_s += monotonic() - began_s
                self._go_on()

    async def _wait(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._coalescer.soon()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._go_on()  # it was this one's turn
            raise

    def _go_on(self) -> None:
        """The next one, if there is time."""
        while self._waiting and self._used_s < STEPS_S:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._coalescer.soon()

    def _next_turn(self) -> None:
        self._used_s = 0.0
        if self._waiting:
            self._go_on()
