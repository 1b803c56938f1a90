"""The pull consumer: you ask for messages, in order by queue, and say when they are done.

async with PullConsumer("127.0.0.1:8081", "orders", "billing") as consumer:
    for message in await consumer.poll():
        ...
        consumer.done(message)

The queues are shared out among the live consumers of the group. Of each queue the broker is told
the smallest offset that is not done: after a crash messages behind it come again, none is left out.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Self

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_consumer.v1 import consumer_pb2 as consumer

from popmq._core import convert
from popmq._core.progress import Progress
from popmq.client import Client
from popmq.errors import PopMQClientError, check
from popmq.message import ReceivedMessage

log = logging.getLogger(__name__)
LOCKED_WAIT_S = 0.1
"""Until a queue is asked for again that another consumer still has."""


class Strategy(Enum):
    """How the queues are shared out; the same in all consumers of a group."""

    AVERAGE = consumer.STRATEGY_AVERAGE
    CIRCLE = consumer.STRATEGY_CIRCLE
    CONSISTENT_HASH = consumer.STRATEGY_CONSISTENT_HASH


class Start(Enum):
    """Where a group begins in a queue that it has no offset in."""

    FIRST = v2.BEGINNING
    LAST = v2.END


class Queue(NamedTuple):
    broker: str
    id: int


class PullConsumer:
    """Use it as an async context manager; not from two tasks at a time, but for `done`.

    Every method raises the errors of `popmq.errors`.
    """

    def __init__(
        self,
        endpoint: str,
        topic: str,
        group: str,
        *,
        filter: str = "*",
        sql: str = "",
        strategy: Strategy = Strategy.AVERAGE,
        queues: Sequence[Queue] | None = None,
        start: Start | datetime = Start.LAST,
        commit_s: float | None = 5.0,
        balance_s: float = 5.0,
        session_s: float = 30.0,
        **options: object,
    ) -> None:
        """`queues`: those, instead of a share. `commit_s`: how often `poll` tells the broker what
        is done; None: only `commit` does. `balance_s`: how often it looks who else is in the group;
        `session_s`: how long the others wait for one that says nothing. `options`: as of
        `Client`."""
        self._client = Client(endpoint, **options)  # type: ignore[arg-type]
        self._topic, self._group = topic, group
        self._filter = v2.FilterExpression(type=v2.SQL if sql else v2.TAG, expression=sql or filter)
        self._strategy, self._start = strategy, start
        self._by_hand = None if queues is None else list(queues)
        self._commit_s, self._balance_s, self._session_s = commit_s, balance_s, session_s
        self._committed_at = self._balanced_at = float("-inf")
        self._queues: dict[Queue, v2.MessageQueue] = {}
        self._progress: dict[Queue, Progress] = {}
        self._turn = 0

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """What is done is committed; the queues go to the others at once."""
        try:
            if self._commit_s is not None:
                await self.commit()
            if self._by_hand is None:
                await self._join(leave=True)
        except PopMQClientError as failed:
            log.warning("left without a word: %s", failed)
        await self._client.__aexit__(kind, error, trace)

    @property
    def queues(self) -> list[Queue]:
        """Those it pulls just now."""
        return list(self._queues)

    def positions(self) -> dict[Queue, int]:
        """Where the next message of each queue is pulled."""
        return {queue: progress.next_offset for queue, progress in self._progress.items()}

    async def poll(self, max_messages: int = 32, wait_s: float = 5.0) -> list[ReceivedMessage]:
        """Messages of one of its queues, in their order; an empty list when none came in time."""
        deadline = time.monotonic() + wait_s
        while True:
            await self._keep_up()
            self._turn += 1
            order = _from(self._turn, list(self._queues))
            for queue in order:
                response = await self._pull(queue, max_messages, 0.0)
                if found := self._take(queue, response):
                    return found
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return []
            found = await self._wait(order, max_messages, min(left_s, self._balance_s))
            if found:
                return found

    async def _wait(
        self, order: list[Queue], max_messages: int, wait_s: float
    ) -> list[ReceivedMessage]:
        """For the first queue that has something; what the others find is not handed out."""
        if not order:
            await asyncio.sleep(min(wait_s, LOCKED_WAIT_S))
            return []
        asked = {
            asyncio.ensure_future(self._pull(queue, max_messages, wait_s)): queue for queue in order
        }
        try:
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        answered = {queue: task.result() for task, queue in asked.items() if not task.cancelled()}
        for queue, response in answered.items():
            if found := self._take(queue, response):
                return found
        if any(response.locked_by for response in answered.values()):
            await asyncio.sleep(min(wait_s, LOCKED_WAIT_S))
        return []

    async def _pull(self, queue: Queue, max_messages: int, wait_s: float) -> consumer.PullResponse:
        """What the server has; nothing is handed out yet."""
        progress = self._progress[queue]
        request = consumer.PullRequest(
            group=self._client._resource(self._group),
            message_queue=self._queues[queue],
            offset=progress.next_offset,
            batch_size=max_messages,
            filter_expression=self._filter,
        )
        request.long_polling_timeout.FromMilliseconds(int(wait_s * 1000))
        response: consumer.PullResponse = await self._client.ask(
            self._client._consumer.Pull, request, wait_s
        )
        if response.status.code == v2.ILLEGAL_OFFSET:
            log.info("%s: %s", queue, response.status.message)
        elif response.status.code != v2.MESSAGE_NOT_FOUND:
            check(response.status)
        return response

    def _take(self, queue: Queue, response: consumer.PullResponse) -> list[ReceivedMessage]:
        found = [convert.incoming(one, self._group, queue.broker) for one in response.messages]
        offsets = [message.queue_offset for message in found]
        self._progress[queue].handed(offsets, response.next_offset)
        return found

    def done(self, message: ReceivedMessage) -> None:
        """It is dealt with; the broker is told with the next commit."""
        progress = self._progress.get(Queue(message.broker, message.queue_id))
        if progress is not None:
            progress.done(message.queue_offset)

    async def commit(self) -> None:
        """Tell the broker of each queue the smallest offset that is not done."""
        self._committed_at = time.monotonic()
        for queue, progress in list(self._progress.items()):
            consumed = progress.consumed
            if consumed > progress.committed:
                await self._tell(queue, consumed)
                progress.committed = consumed
            if queue not in self._queues and not progress.outstanding:
                del self._progress[queue]

    async def _tell(self, queue: Queue, offset: int) -> None:
        request = service.UpdateOffsetRequest(
            group=self._client._resource(self._group),
            message_queue=self._message_queue(queue),
            offset=offset,
        )
        check((await self._client.ask(self._client._stub.UpdateOffset, request)).status)

    def _message_queue(self, queue: Queue) -> v2.MessageQueue:
        return v2.MessageQueue(
            topic=self._client._resource(self._topic),
            id=queue.id,
            broker=v2.Broker(name=queue.broker),
        )

    async def seek(self, queue: Queue, offset: int) -> None:
        """Pull there next. What was handed out and is not done no longer holds up the commit."""
        self._progress[queue] = Progress(offset)

    async def seek_to(self, where: Start | datetime, queues: Iterable[Queue] | None = None) -> None:
        """All its queues, or these, to the first or last message or to a time."""
        await self._keep_up()
        for queue in list(self._queues if queues is None else queues):
            await self.seek(queue, await self._offset_at(queue, where))

    async def _keep_up(self) -> None:
        now = time.monotonic()
        if self._commit_s is not None and now - self._committed_at >= self._commit_s:
            await self.commit()
        if now - self._balanced_at >= self._balance_s:
            self._balanced_at = now
            await self._balance()

    async def _balance(self) -> None:
        if self._by_hand is None:
            found = (await self._join(leave=False)).queues
            mine = {Queue(queue.broker.name, queue.id): queue for queue in found}
        else:
            mine = {queue: self._message_queue(queue) for queue in self._by_hand}
        lost = self._queues.keys() - mine.keys()
        self._queues = mine
        if lost and self._commit_s is not None:
            await self.commit()
        for queue in mine.keys() - self._progress.keys():
            self._progress[queue] = Progress(await self._began(queue))

    async def _join(self, *, leave: bool) -> consumer.JoinResponse:
        request = consumer.JoinRequest(
            group=self._client._resource(self._group),
            topic=self._client._resource(self._topic),
            strategy=self._strategy.value,
            leave=leave,
        )
        request.session.FromMilliseconds(int(self._session_s * 1000))
        response: consumer.JoinResponse = await self._client.ask(
            self._client._consumer.Join, request
        )
        check(response.status)
        return response

    async def _began(self, queue: Queue) -> int:
        request = service.GetOffsetRequest(
            group=self._client._resource(self._group), message_queue=self._message_queue(queue)
        )
        response = await self._client.ask(self._client._stub.GetOffset, request)
        if response.status.code != v2.OFFSET_NOT_FOUND:
            check(response.status)
            return int(response.offset)
        offset = await self._offset_at(queue, self._start)
        if self._commit_s is not None:  # so that a crash before the first commit skips nothing
            await self._tell(queue, offset)
        return offset

    async def _offset_at(self, queue: Queue, where: Start | datetime) -> int:
        request = service.QueryOffsetRequest(message_queue=self._message_queue(queue))
        if isinstance(where, Start):
            request.query_offset_policy = where.value
        else:
            request.query_offset_policy = v2.TIMESTAMP
            request.timestamp.FromDatetime(where)
        response = await self._client.ask(self._client._stub.QueryOffset, request)
        check(response.status)
        return int(response.offset)


def _from(turn: int, queues: list[Queue]) -> list[Queue]:
    """The same in a circle, beginning with another one each turn."""
    at = turn % len(queues) if queues else 0
    return queues[at:] + queues[:at]
