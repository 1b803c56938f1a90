"""Who waits for the log to be committed up to some place, in the order of the log."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from popmq_common.errors import StoreClosed

WhenCommitted = Callable[[StoreClosed | None], None]


class Awaited:
    def __init__(self) -> None:
        self._waiting: deque[tuple[int, WhenCommitted]] = deque()

    def add(self, end_offset: int, then: WhenCommitted) -> None:
        """One that is below those of before waits for them too."""
        self._waiting.append((end_offset, then))

    async def until(self, end_offset: int) -> None:
        """Raises `StoreClosed` when it will never be."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.add(end_offset, partial(_tell, waiter))
        await waiter

    def wake(self, end_offset: int) -> None:
        """The log is committed up to there."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= end_offset:
            waiting.popleft()[1](None)

    def fail(self) -> None:
        """It never will be."""
        while self._waiting:
            self._waiting.popleft()[1](StoreClosed())


def _tell(waiter: "asyncio.Future[None]", failed: StoreClosed | None) -> None:
    if waiter.done():
        return
    if failed is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(failed)
