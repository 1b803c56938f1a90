"""Requests that many callers share: their items wait while an earlier request is under way.

What leaves when is decided by `_core/batch_queue.py`; who may come in by `budget_gate.py`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from popmq._core.batch_queue import BatchBounds, BatchQueue
from popmq.connection.budget_gate import BudgetGate
from popmq.errors import ClientClosed

Item = TypeVar("Item")
Result = TypeVar("Result")
Ask = Callable[[list[Item]], Awaitable[Sequence[Result | Exception]]]
"""One request for these items: per item its result or what went wrong with it."""
Tell = Callable[[Result | Exception], None]
"""Called in the loop with an item's result, or what went wrong with it."""


class Answers(Generic[Result]):
    """What one caller waits for: the results of its items, in their order."""

    __slots__ = ("_left", "done", "results")

    def __init__(self, count: int) -> None:
        self.results: list[Result | Exception] = [Unanswered()] * count
        self._left = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self, index: int, result: Result | Exception) -> None:
        self.results[index] = result
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)


class Unanswered(Exception):
    """Its request has not been answered; no caller sees this."""


Batch = list[tuple[Item, int, Tell[Result]]]
"""Items, their sizes, and who is told each one's result."""


class Batcher(Generic[Item, Result]):
    """Requests of one kind to one place."""

    def __init__(
        self, ask: Ask[Item, Result], bounds: BatchBounds, gate: BudgetGate | None = None
    ) -> None:
        """`gate`: what an item has entered before it is put; it leaves when it is answered."""
        self._ask = ask
        self._gate = gate
        self._loop = asyncio.get_running_loop()
        self._queue: BatchQueue[tuple[Item, int, Tell[Result]]] = BatchQueue(bounds)
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None

    @property
    def idle(self) -> bool:
        return self._queue.idle

    def put(self, item: Item, size_bytes: int, tell: Tell[Result]) -> None:
        """It leaves in this turn of the loop at the soonest: what other tasks put in the same turn
        goes with it."""
        self._queue.add((item, size_bytes, tell), size_bytes, time.monotonic())
        if self._timer is None:
            self._timer = self._loop.call_soon(self._leave)

    async def one(self, item: Item, size_bytes: int = 0) -> Result:
        """Put one item and wait for its result; raises what went wrong with it."""
        answered: asyncio.Future[Result | Exception] = self._loop.create_future()
        self.put(item, size_bytes, partial(_wake, answered))
        result = await answered
        if isinstance(result, Exception):
            raise result
        return result

    async def drain(self) -> None:
        """Until everything that was put is answered."""
        while not self._queue.idle:
            if self._tasks:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(0)

    async def cancel(self) -> None:
        """Give up what is under way and what has not left; each caller is told."""
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.sleep(0)  # a task that has not begun would end without a word
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while batch := self._queue.leave(time.monotonic()):
            self._answer(batch, self._given_up(batch))

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while batch := self._queue.leave(time.monotonic()):
            task = asyncio.create_task(self._run(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        due_s = self._queue.due_s()
        if due_s is not None:
            after_s = max(0.0, due_s - time.monotonic())
            self._timer = self._loop.call_later(after_s, self._leave)

    async def _run(self, batch: Batch[Item, Result]) -> None:
        results = self._given_up(batch)
        try:
            results = await self._ask([item for item, _, _ in batch])
        except Exception as failed:
            results = [failed] * len(batch)
        finally:
            self._answer(batch, results)
        self._leave()

    def _answer(self, batch: Batch[Item, Result], results: Sequence[Result | Exception]) -> None:
        self._queue.answered()
        if self._gate is not None:
            self._gate.leave(sum(size for _, size, _ in batch), len(batch))
        for (_, _, tell), result in zip(batch, results, strict=True):
            tell(result)

    @staticmethod
    def _given_up(batch: Batch[Item, Result]) -> Sequence[Result | Exception]:
        return [ClientClosed("the client was closed before the answer came")] * len(batch)


def _wake(waiting: "asyncio.Future[Result | Exception]", result: Result | Exception) -> None:
    if not waiting.done():
        waiting.set_result(result)
