"""The ordered push consumer, as RocketMQ 4.x has it: each queue in its order, message by message.

async with OrderlyConsumer("127.0.0.1:8081", "orders", "billing") as consumer:
    await consumer.run(handle)

It has each of its queues alone, by the broker's queue lock. A message that the handler fails on is
handled again in its place after a while; what is behind it in its queue waits, other queues do not.
It is tried until it succeeds, or for `max_attempts` times, and then goes to the dead letters.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from typing import Self

from popmq.errors import AccessDenied, PopMQClientError
from popmq.log_fields import fields
from popmq.message import ReceivedMessage
from popmq.observer import observed
from popmq.pull.assignment import Queue, Strategy
from popmq.pull.offset_store import Start
from popmq.pull.pull import PullConsumer
from popmq.pull.queue_lock import LockedAssignment
from popmq.pull.queue_tasks import PAUSE_S, QueueTasks, ended, entered, tried, unless
from popmq.pull.send_back import TO_DEAD_LETTERS, HandlerFailure, attempt, send_back

SUSPEND_S_MIN, SUSPEND_S_MAX = 0.01, 30.0
"""As RocketMQ's clients allow."""
BATCH_MAX = 32
Handler = Callable[[ReceivedMessage], Awaitable[None]]
log = logging.getLogger(__name__)


class OrderlyConsumer:
    """Use it as an async context manager."""

    def __init__(
        self,
        endpoint: str,
        topics: str | Mapping[str, str],
        group: str,
        *,
        suspend_s: float = 1.0,
        max_attempts: int | None = None,
        handler_timeout_s: float | None = None,
        drain_s: float = 5.0,
        start: Start | datetime = Start.LAST,
        strategy: Strategy = Strategy.AVERAGE,
        commit_s: float = 5.0,
        balance_s: float = 5.0,
        session_s: float = 30.0,
        **options: object,
    ) -> None:
        """`topics`: one, or several with a tag expression each. `suspend_s`: until a message that
        failed is handled again, unless its `Retry` says when; 0.01 to 30 s. `max_attempts`: of a
        message by one consumer, then it goes to the dead letters; None: no end, its order waits.
        `handler_timeout_s`: then a handler is cancelled and has failed. `drain_s`: how long
        handlers have to end when `run` is cancelled. `balance_s`: how often it looks who else is
        in the group, and asks for its queues again: far less than the broker's lock time (60 s).
        `start`: where the group begins in queues that it has no offset in. The others as of
        `PullConsumer`."""
        if not SUSPEND_S_MIN <= suspend_s <= SUSPEND_S_MAX:
            allowed = f"{SUSPEND_S_MIN:g} to {SUSPEND_S_MAX:g} s are allowed"
            raise ValueError(f"a suspend time of {suspend_s:g} s; {allowed}")
        if max_attempts is not None and max_attempts < 1:
            raise ValueError(f"{max_attempts} attempts, at least 1 is needed")
        self.failed = 0
        """Messages that a handler failed on, each time."""
        self._suspend_s, self._max_attempts = suspend_s, max_attempts
        self._handler_timeout_s, self._drain_s = handler_timeout_s, drain_s
        self._poll_s = balance_s
        wanted = {topics: "*"} if isinstance(topics, str) else topics
        self._pulls = [
            PullConsumer(
                endpoint,
                topic,
                group,
                filter=tags,
                start=start,
                strategy=strategy,
                commit_s=commit_s,
                balance_s=balance_s,
                session_s=session_s,
                ordered=True,
                **options,  # type: ignore[arg-type]
            )
            for topic, tags in wanted.items()
        ]
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._open = await entered(self._pulls)
        return self

    async def __aexit__(self, *raised: object) -> None:
        """What is done is committed; the queues go to the others at once."""
        await self._open.aclose()

    @property
    def queues(self) -> dict[str, list[Queue]]:
        """Those it has just now, by topic."""
        return {pull.topic: pull.queues for pull in self._pulls}

    async def run(self, handle: Handler) -> None:
        """Hand over message after message, one of each queue at a time, until cancelled."""
        tasks = [
            asyncio.create_task(
                QueueTasks(pull, partial(self._run_queue, handle, pull), self._drain_s).run()
            )
            for pull in self._pulls
        ]
        try:
            over, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in over:
                task.result()
        finally:
            await ended(tasks, 0)

    async def _run_queue(
        self, handle: Handler, pull: PullConsumer, queue: Queue, lost: asyncio.Event
    ) -> None:
        """One queue, as long as it is this consumer's: the message at hand is finished, what was
        pulled and not begun is left to the next owner."""
        lock = pull.lock
        assert lock is not None
        try:
            while not lost.is_set() and lock.holds(queue):
                for message in await self._pulled(pull, queue, lost):
                    if not await self._settled(handle, pull, lock, message, lost):
                        return
        finally:
            await tried(pull.give_up(queue), f"{pull.topic} {queue}: given up")

    async def _pulled(
        self, pull: PullConsumer, queue: Queue, lost: asyncio.Event
    ) -> list[ReceivedMessage]:
        try:
            return await unless(lost, pull.poll_queue(queue, BATCH_MAX, self._poll_s)) or []
        except AccessDenied:
            raise
        except PopMQClientError as failed:
            more = fields(None, failed, topic=pull.topic, group=pull.group, broker=queue.broker)
            log.warning("%s %s: %s", pull.topic, queue, failed, extra=more)
            await unless(lost, asyncio.sleep(PAUSE_S))
            return []

    async def _settled(
        self,
        handle: Handler,
        pull: PullConsumer,
        lock: LockedAssignment,
        message: ReceivedMessage,
        lost: asyncio.Event,
    ) -> bool:
        """False: the queue was lost before it was dealt with."""
        queue = Queue(message.broker, message.queue_id)
        while not lost.is_set() and lock.holds(queue):
            work = observed(pull.observer, (message,), lambda: handle(message))
            failure = await attempt(work, self._handler_timeout_s)
            if failure is None or await self._is_dead(pull, message, failure):
                pull.done(message)
                return True
            message.delivery_attempt += failure.counted
            await unless(lost, asyncio.sleep(self._wait_s(failure)))
        return False

    async def _is_dead(
        self, pull: PullConsumer, message: ReceivedMessage, failure: HandlerFailure
    ) -> bool:
        """True: it is among the dead letters, and its order goes on."""
        self.failed += 1
        number, limit = message.delivery_attempt, self._max_attempts
        more = fields(message, failure.reason)
        log.warning("attempt %d of %s: %s", number, message.message_id, failure.reason, extra=more)
        last = failure.counted and limit is not None and number >= limit
        if not failure.dead and not last:
            return False
        end = HandlerFailure(level=TO_DEAD_LETTERS, reason=failure.reason)
        call = send_back(pull.connection, pull.topic, message, end, attempts=number)
        return await tried(call, f"sent back: {message.message_id}")

    def _wait_s(self, failure: HandlerFailure) -> float:
        wanted_s = self._suspend_s if failure.delay_s is None else failure.delay_s
        return min(max(wanted_s, SUSPEND_S_MIN), SUSPEND_S_MAX)
