"""Callers that wait until what they send fits into a budget: `_core/budget.py` says who is next."""

import asyncio

from popmq._core.budget import Budget


class GateWaiter:
    """A caller that waits at the gate."""

    __slots__ = ("came", "entered")

    def __init__(self) -> None:
        self.came: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.entered = False


class BudgetGate:
    """A bound on messages and bytes that callers wait at."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._budget: Budget[GateWaiter] = Budget(messages_max, bytes_max)
        self._resuming = 0
        """Who was let in and has not run since: nobody may overtake them."""

    @property
    def messages(self) -> int:
        return self._budget.messages

    def try_enter(self, size_bytes: int) -> bool:
        """False: it has to wait, in `enter`."""
        return not self._resuming and self._budget.enter(size_bytes)

    async def enter(self, size_bytes: int) -> None:
        """In the order of the calls."""
        if self.try_enter(size_bytes):
            return
        waiter = GateWaiter()
        self._budget.wait(waiter, size_bytes)
        self._admit(self._budget.let_in())
        try:
            await waiter.came
            self._resuming -= 1
        except asyncio.CancelledError:
            self._resuming -= waiter.entered
            if waiter.entered:  # at the same moment
                self.leave(size_bytes)
            else:
                self._admit(self._budget.forget(waiter))
            raise

    def leave(self, size_bytes: int, messages: int = 1) -> None:
        self._admit(self._budget.leave(size_bytes, messages))

    def _admit(self, waiters: list[GateWaiter]) -> None:
        for waiter in waiters:
            self._resuming += 1
            waiter.entered = True
            if not waiter.came.done():
                waiter.came.set_result(None)
