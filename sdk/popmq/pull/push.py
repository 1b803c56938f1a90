"""The push consumer over pull, as RocketMQ 4.x has it: it pulls its share of the queues, hands the
messages to a handler, many at a time, and keeps the group's offsets.

async with PushConsumer("127.0.0.1:8081", "orders", "billing") as consumer:
    await consumer.run(handle)

A message that the handler fails on is sent back: the broker copies it to `%RETRY%billing`, which
all consumers of the group pull too, and from there it is redelivered, under its own topic, after
10 s, 30 s, 1 min … by RocketMQ's delay levels. After the last attempt it goes to `%DLQ%billing`.
What is behind it does not wait. See popmq/pull/send_back.py for what a handler can say,
docs/retry.md for both kinds of retry.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from typing import NamedTuple, Self

from popmq.errors import AccessDenied, PopMQClientError
from popmq.log_fields import fields, level_of
from popmq.message import ReceivedMessage
from popmq.observer import observed
from popmq.pull.assignment import Queue, Strategy
from popmq.pull.offset_store import RETRY_PREFIX, Start
from popmq.pull.pull import PullConsumer
from popmq.pull.queue_tasks import PAUSE_S, QueueTasks, ended, entered, tried, unless
from popmq.pull.receive_budget import ReceiveBudget
from popmq.pull.send_back import HandlerFailure, attempt, send_back

LOCAL_RETRY_S = 5.0
BATCH_MAX = 32
"""Messages of one pull."""
Handler = Callable[[ReceivedMessage], Awaitable[None]]
BatchHandler = Callable[[list[ReceivedMessage]], Awaitable[None]]
log = logging.getLogger(__name__)


class _Chunk(NamedTuple):
    """What a handler gets at a time, and where it was pulled."""

    pull: PullConsumer
    messages: list[ReceivedMessage]


class PushConsumer:
    """Use it as an async context manager."""

    def __init__(
        self,
        endpoint: str,
        topics: str | Mapping[str, str],
        group: str,
        *,
        concurrency: int = 20,
        messages_max: int = 1_000,
        bytes_max: int = 64 << 20,
        max_attempts: int | None = None,
        handler_timeout_s: float | None = 900.0,
        local_retry_s: float = LOCAL_RETRY_S,
        drain_s: float = 5.0,
        start: Start | datetime = Start.LAST,
        strategy: Strategy = Strategy.AVERAGE,
        commit_s: float = 5.0,
        balance_s: float = 5.0,
        session_s: float = 30.0,
        **options: object,
    ) -> None:
        """`topics`: one, or several with a tag expression each; the same for all consumers of the
        group, because they share what failed. `concurrency`: handlers that run at a time.
        `messages_max`, `bytes_max`: nothing is pulled while it holds so much. `max_attempts`:
        deliveries of a message before it is dead; None: as the group's. `handler_timeout_s`: then
        a handler is cancelled and has failed. `local_retry_s`: until a message that could not be
        sent back is handled again. `drain_s`: how long handlers have to end when `run` is
        cancelled. `start`: where the group begins in queues that it has no offset in. The others
        as of `PullConsumer`."""
        if concurrency < 1:
            raise ValueError(f"{concurrency} handlers at a time, at least 1 is needed")
        self.failed = 0
        """Messages that a handler failed on, each time."""
        self._budget = ReceiveBudget(messages_max, bytes_max)
        self._concurrency, self._max_attempts = concurrency, max_attempts
        self._handler_timeout_s, self._local_retry_s = handler_timeout_s, local_retry_s
        self._drain_s, self._poll_s = drain_s, balance_s
        wanted = {topics: "*"} if isinstance(topics, str) else topics
        retries = (f"{RETRY_PREFIX}{group}", "*", Start.FIRST)
        self._pulls = [
            PullConsumer(
                endpoint,
                topic,
                group,
                filter=tags,
                start=begin,
                strategy=strategy,
                commit_s=commit_s,
                balance_s=balance_s,
                session_s=session_s,
                **options,  # type: ignore[arg-type]
            )
            for topic, tags, begin in [*((*one, start) for one in wanted.items()), retries]
        ]
        self._inbox: asyncio.Queue[_Chunk] = asyncio.Queue()
        """As long as there is room."""
        self._busy: set[asyncio.Task[None]] = set()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._open = await entered(self._pulls)
        return self

    async def __aexit__(self, *raised: object) -> None:
        """What is done is committed; the queues go to the others at once."""
        await self._open.aclose()

    @property
    def queues(self) -> dict[str, list[Queue]]:
        """Those it pulls just now, by topic; of the group's retry topic too."""
        return {pull.topic: pull.queues for pull in self._pulls}

    async def run(self, handle: Handler) -> None:
        """Hand over message after message, until cancelled."""

        async def one(messages: list[ReceivedMessage]) -> None:
            await handle(messages[0])

        await self.run_batches(one, count_max=1)

    async def run_batches(self, handle: BatchHandler, count_max: int = BATCH_MAX) -> None:
        """Up to `count_max` messages of a queue at a time, all done or all failed."""
        if not 1 <= count_max <= BATCH_MAX:
            raise ValueError(f"batches of {count_max} messages, 1 to {BATCH_MAX} are possible")
        feeding = [
            asyncio.create_task(
                QueueTasks(pull, partial(self._feed, pull, count_max), self._drain_s).run()
            )
            for pull in self._pulls
        ]
        stop = asyncio.Event()
        working = [asyncio.create_task(self._work(handle, stop)) for _ in range(self._concurrency)]
        try:
            over, _ = await asyncio.wait(feeding + working, return_when=asyncio.FIRST_COMPLETED)
            for task in over:
                task.result()
        finally:
            try:
                await ended(feeding, 0)
            finally:
                stop.set()
                await self._drain(working)

    async def _drain(self, working: list[asyncio.Task[None]]) -> None:
        """What waits for a handler stays undone: it is redelivered, here or at another consumer."""
        while not self._inbox.empty():
            for message in self._inbox.get_nowait().messages:
                self._budget.give(message)
        for task in working:
            if task not in self._busy:
                task.cancel()
        await ended(working, self._drain_s)
        for pull in self._pulls:
            for queue in pull.queues:
                await tried(pull.give_up(queue), f"{pull.topic} {queue}: committed")

    async def _feed(
        self, pull: PullConsumer, count_max: int, queue: Queue, lost: asyncio.Event
    ) -> None:
        """Messages of one queue into the inbox. Those that are there when the queue is lost are
        handled still: their offsets are what the next owner waits for, if there is a lock."""
        while not lost.is_set():
            try:
                found = await unless(lost, self._pulled(pull, queue)) or []
            except AccessDenied:
                raise
            except PopMQClientError as failed:
                more = fields(None, failed, topic=pull.topic, group=pull.group, broker=queue.broker)
                log.log(level_of(failed), "%s %s: %s", pull.topic, queue, failed, extra=more)
                await unless(lost, asyncio.sleep(PAUSE_S))
                continue
            for message in found:
                self._budget.take(message)
            for i in range(0, len(found), count_max):
                self._inbox.put_nowait(_Chunk(pull, found[i : i + count_max]))

    async def _pulled(self, pull: PullConsumer, queue: Queue) -> list[ReceivedMessage]:
        free = await self._budget.available()
        return await pull.poll_queue(queue, min(free, BATCH_MAX), self._poll_s)

    async def _work(self, handle: BatchHandler, stop: asyncio.Event) -> None:
        me = asyncio.current_task()
        assert me is not None
        while not stop.is_set():
            chunk = await self._inbox.get()
            self._busy.add(me)
            try:
                await self._handle(handle, chunk)
            finally:
                self._busy.discard(me)

    async def _handle(self, handle: BatchHandler, chunk: _Chunk) -> None:
        work = observed(chunk.pull.observer, chunk.messages, lambda: handle(chunk.messages))
        failure = await attempt(work, self._handler_timeout_s)
        if failure is None:
            self._done(chunk)
            return
        self.failed += len(chunk.messages)
        kept = []
        for message in chunk.messages:
            number, more = message.delivery_attempt, fields(message, failure.reason)
            log.warning(
                "attempt %d of %s: %s", number, message.message_id, more["reason"], extra=more
            )
            if await self._sent(chunk.pull, message, failure):
                self._done(_Chunk(chunk.pull, [message]))
            else:
                message.delivery_attempt += 1
                kept.append(message)
        if kept:
            again = _Chunk(chunk.pull, kept)
            loop = asyncio.get_running_loop()
            loop.call_later(self._local_retry_s, self._inbox.put_nowait, again)

    async def _sent(
        self, pull: PullConsumer, message: ReceivedMessage, failure: HandlerFailure
    ) -> bool:
        """False: it is to be handled again here; its offset waits."""
        try:
            dead = await send_back(
                pull.connection, pull.topic, message, failure, max_attempts=self._max_attempts
            )
        except PopMQClientError as failed:
            more = fields(message, failed)
            log.warning("not sent back: %s: %s", message.message_id, failed, extra=more)
            return False
        if dead:
            more = fields(message, failure.reason)
            log.error("dead: %s: %s", message.message_id, failure.reason, extra=more)
        return True

    def _done(self, chunk: _Chunk) -> None:
        for message in chunk.messages:
            chunk.pull.done(message)
            self._budget.give(message)
