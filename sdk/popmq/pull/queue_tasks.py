"""A task for each queue that a pull consumer has, from when it gets it until it loses it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple, TypeVar

from popmq.errors import AccessDenied, PopMQClientError
from popmq.log_fields import fields, level_of
from popmq.pull.assignment import Queue
from popmq.pull.pull import PullConsumer

T = TypeVar("T")
TICK_S = 0.1
"""How often it looks whether it is time to commit or to share out anew."""
PAUSE_S = 1.0
"""After a call that failed."""
log = logging.getLogger(__name__)
Work = Callable[[Queue, asyncio.Event], Coroutine[None, None, None]]
"""For one queue, until it is done with it after the event: the queue is lost."""


class _QueueTask(NamedTuple):
    task: asyncio.Task[None]
    lost: asyncio.Event


class QueueTasks:
    def __init__(self, pull: PullConsumer, work: Work, end_s: float) -> None:
        """`end_s`: how long the tasks have to end by themselves when all ends."""
        self._pull, self._work, self._end_s = pull, work, end_s
        self._tasks: dict[Queue, _QueueTask] = {}

    async def run(self) -> None:
        """For ever; ends with the error of a task that ends with one, if it is a bug, and when the
        server denies access."""
        try:
            while True:
                kept_up = await tried(
                    self._pull.keep_up(), f"{self._pull.topic}: kept up", raises=(AccessDenied,)
                )
                self._match()
                await asyncio.sleep(TICK_S if kept_up else PAUSE_S)
        finally:
            await self._end()

    def _match(self) -> None:
        mine = set(self._pull.queues)
        for queue, entry in list(self._tasks.items()):
            if entry.task.done():
                del self._tasks[queue]
                entry.task.result()
            elif queue not in mine:
                entry.lost.set()
        for queue in mine - self._tasks.keys():
            lost = asyncio.Event()
            name = f"{self._pull.topic} {queue.broker}:{queue.id}"
            self._tasks[queue] = _QueueTask(
                asyncio.create_task(self._work(queue, lost), name=name), lost
            )

    async def _end(self) -> None:
        for entry in self._tasks.values():
            entry.lost.set()
        await ended([entry.task for entry in self._tasks.values()], self._end_s)


async def entered(pulls: Sequence[PullConsumer]) -> AsyncExitStack:
    """All of them, or none if one cannot begin; what is returned leaves them."""
    async with AsyncExitStack() as opened:
        for pull in pulls:
            await opened.enter_async_context(pull)
        return opened.pop_all()


async def ended(tasks: list[asyncio.Task[None]], within_s: float) -> None:
    """They end by themselves within the time, or are cancelled."""
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def unless(stop: asyncio.Event, work: Coroutine[None, None, T]) -> T | None:
    """What the work finds; None: the event came first, and the work was given up."""
    task, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        stopped.cancel()
        await asyncio.gather(task, stopped, return_exceptions=True)


async def tried(
    call: Awaitable[object], what: str, *, raises: tuple[type[Exception], ...] = ()
) -> bool:
    """False: it failed, and was logged; whoever does it again is no worse off."""
    try:
        await call
    except raises:
        raise
    except PopMQClientError as failed:
        log.log(level_of(failed), "not %s: %s", what, failed, extra=fields(None, failed))
        return False
    return True
