"""The pull consumer: you ask for messages, in order by queue, and say when they are done.

async with PullConsumer("127.0.0.1:8081", "orders", "billing") as consumer:
    for message in await consumer.poll():
        ...
        consumer.done(message)

The queues are shared out among the live consumers of the group. Of each queue the broker is told
the smallest offset that is not done: after a crash messages behind it are redelivered, and none is
left out.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Literal, Self

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq._core.messages import convert
from popmq._core.progress import Progress
from popmq.client import Client
from popmq.errors import PopMQClientError, RefusedByServer, check
from popmq.log_fields import fields, level_of
from popmq.message import ReceivedMessage
from popmq.pull.assignment import (
    AllQueues,
    Assignment,
    GroupAssignment,
    ManualAssignment,
    Queue,
    Strategy,
)
from popmq.pull.offset_store import (
    BrokerOffsetStore,
    FileOffsetStore,
    OffsetStore,
    Start,
    message_queue,
)
from popmq.pull.queue_lock import LockedAssignment
from popmq_consumer.v1 import consumer_pb2 as consumer

log = logging.getLogger(__name__)
LATE_S = 1.0
"""Until a queue that could not begin is tried again."""
LOCKED_WAIT_S = 0.1
"""Until a queue is asked for again that another consumer still has."""


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
        queues: Sequence[Queue] | Literal["all"] | None = None,
        offsets_file: Path | None = None,
        start: Start | datetime = Start.LAST,
        commit_s: float | None = 5.0,
        balance_s: float = 5.0,
        session_s: float = 30.0,
        ordered: bool = False,
        **options: object,
    ) -> None:
        """`queues`: those, or all, instead of a share. `offsets_file`: keeps the offsets, instead
        of the broker. `commit_s`: how often `poll` commits what is done; None: only `commit` does.
        `balance_s`: how often it looks who else is in the group; `session_s`: how long the others
        wait for one that says nothing. `ordered`: it has its queues alone, by the queue lock; then
        each queue that it loses must be given up. `options`: as of `Client`."""
        self._client = Client(endpoint, **options)  # type: ignore[arg-type]
        connection = self.connection = self._client.connection
        self.observer = self._client.observer
        self._offsets: OffsetStore = BrokerOffsetStore(connection, topic, group)
        self._keeps_offsets = offsets_file is not None
        if offsets_file is not None:
            self._offsets = FileOffsetStore(offsets_file, topic)
        self._assignment: Assignment = GroupAssignment(
            connection, topic, group, strategy, session_s
        )
        if queues is not None:
            self._assignment = (
                AllQueues(connection, topic) if queues == "all" else ManualAssignment(queues)
            )
        self.lock = (
            LockedAssignment(connection, topic, group, self._assignment) if ordered else None
        )
        if self.lock is not None:
            self._assignment = self.lock
        self.topic, self.group = topic, group
        self._filter = v2.FilterExpression(type=v2.SQL if sql else v2.TAG, expression=sql or filter)
        self._start = self._begins_at = start
        self._commit_s, self._balance_s = commit_s, balance_s
        self._committed_at = self._balanced_at = float("-inf")
        self._queues: list[Queue] = []
        self._late: dict[Queue, str] = {}
        """Why these, which are its own, have not begun."""
        self._progress: dict[Queue, Progress] = {}
        self._round = 0
        self._begun = count(1)

    async def __aenter__(self) -> Self:
        """The group starts here, if it has not started before: what is sent from now on comes."""
        await self._client.__aenter__()
        try:
            begins = await self._offsets.start(self._start)
            self._begins_at = begins.now
            if self._keeps_offsets:
                await self.keep_up()
            self._begins_at = begins.later
        except BaseException as failed:
            await self._client.__aexit__(type(failed), failed, failed.__traceback__)
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        """What is done is committed; the queues go to the others at once."""
        try:
            if self._commit_s is not None:
                await self.commit()
            await self._assignment.leave()
        except PopMQClientError as failed:
            more = fields(None, failed, topic=self.topic, group=self.group)
            log.warning("left without a word: %s", failed, extra=more)
        await self._client.__aexit__(*raised)

    @property
    def queues(self) -> list[Queue]:
        """Those it pulls just now."""
        return list(self._queues)

    def positions(self) -> dict[Queue, int]:
        """Where the next message of each queue is pulled."""
        return {queue: progress.next_offset for queue, progress in self._progress.items()}

    async def poll(self, max_messages: int = 32, wait_s: float = 5.0) -> list[ReceivedMessage]:
        """Messages of one of its queues, in their order; an empty list when none came in time.

        It says nothing of queues that are new: those are looked for every `balance_s`.
        """
        if self.observer is None:
            return await self._poll(max_messages, wait_s)
        with self.observer.receive(self.topic, self.group) as receives:
            found = await self._poll(max_messages, wait_s)
            receives.found(found)
        return found

    async def _poll(self, max_messages: int, wait_s: float) -> list[ReceivedMessage]:
        deadline = time.monotonic() + wait_s
        while True:
            await self.keep_up()
            self._round += 1
            order = _from(self._round, self._queues)
            for queue in order:
                found = self._take(queue, await self._pull(queue, max_messages, 0.0))
                if found is None:  # sent elsewhere
                    found = self._take(queue, await self._pull(queue, max_messages, 0.0))
                if found:
                    return found
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return []
            if found := await self._wait(order, max_messages, min(left_s, self._balance_s)):
                return found

    async def poll_queue(
        self, queue: Queue, max_messages: int = 32, wait_s: float = 5.0
    ) -> list[ReceivedMessage]:
        """Messages of this queue; an empty list when none came in time, or it is not its own.

        Of several queues at a time, from a task each, while another one calls `keep_up`.
        """
        progress = self._progress.get(queue)
        if progress is None:
            return []
        offset = progress.next_offset
        response = await self._pull(queue, max_messages, wait_s)
        if self._progress.get(queue) is not progress or progress.next_offset != offset:
            return []  # it was given up, or moved, in the meantime
        if response.locked_by:
            await asyncio.sleep(min(wait_s, LOCKED_WAIT_S))
            return []
        return self._take(queue, response) or []

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
            group=self.connection.resource(self.group),
            message_queue=message_queue(self.connection, self.topic, queue),
            offset=progress.next_offset,
            batch_size=max_messages,
            filter_expression=self._filter,
        )
        request.long_polling_timeout.FromMilliseconds(int(wait_s * 1000))
        response: consumer.PullResponse = await self.connection.ask(
            self.connection.consumer.Pull, request, wait_s=wait_s
        )
        if response.status.code == v2.ILLEGAL_OFFSET:
            reason, broker = response.status.message, queue.broker
            more = fields(None, reason, topic=self.topic, group=self.group, broker=broker)
            log.info("%s: %s", queue, reason, extra=more)
        elif response.status.code != v2.MESSAGE_NOT_FOUND:
            check(response.status)
        return response

    def _take(self, queue: Queue, response: consumer.PullResponse) -> list[ReceivedMessage] | None:
        """None: the queue goes on elsewhere, from now on."""
        found = [convert.incoming(one, self.group, queue.broker) for one in response.messages]
        if response.status.code == v2.ILLEGAL_OFFSET:
            self._begin(queue, response.next_offset)
            return None
        progress = self._progress[queue]
        progress.handed([message.queue_offset for message in found], response.next_offset)
        for message in found:
            message.receipt_handle = progress.name
        return found

    def _begin(self, queue: Queue, offset: int) -> None:
        """There; what was handed out before no longer counts, whether it is done or not."""
        self._progress[queue] = Progress(offset, f"handed out since {next(self._begun)}")

    def done(self, message: ReceivedMessage) -> None:
        """It is dealt with; the broker is told with the next commit. Of a message that was handed
        out before a seek or a reset of the group it means nothing."""
        progress = self._progress.get(Queue(message.broker, message.queue_id))
        if progress is not None and progress.name == message.receipt_handle:
            progress.done(message.queue_offset)

    async def commit(self) -> None:
        """Keep of each queue the smallest offset that is not done."""
        self._committed_at = time.monotonic()
        moved = {
            queue: progress.consumed
            for queue, progress in self._progress.items()
            if progress.consumed > progress.committed
        }
        await self._offsets.save(moved)
        for queue, offset in moved.items():
            if queue in self._progress:
                self._progress[queue].committed = offset
        for queue in self._progress.keys() - set(self._queues):
            if not self._progress[queue].outstanding:
                del self._progress[queue]

    async def give_up(self, queue: Queue) -> None:
        """Commit what is done there and forget the rest. It begins anew at the committed offset,
        if the queue falls to this consumer again."""
        progress = self._progress.pop(queue, None)
        if queue in self._queues:
            self._queues.remove(queue)
        moved = progress is not None and progress.consumed > progress.committed
        try:
            if progress is not None and moved and self._commit_s is not None:
                await self._offsets.save({queue: progress.consumed})
        finally:
            if self.lock is not None:
                await self.lock.release(queue)

    async def seek(self, queue: Queue, offset: int) -> None:
        """Pull there next. What was handed out and is not done no longer holds up the commit."""
        self._begin(queue, offset)

    async def seek_to(self, where: Start | datetime, queues: Iterable[Queue] | None = None) -> None:
        """All its queues, or these, to the first or last message or to a time."""
        await self.keep_up()
        for queue in list(self._queues if queues is None else queues):
            await self.seek(queue, await self._offset_at(queue, where))

    async def keep_up(self) -> None:
        """Commit, and look which queues are its own, if it is time; `poll` does it too."""
        now = time.monotonic()
        if self._commit_s is not None and now - self._committed_at >= self._commit_s:
            await self.commit()
        if now - self._balanced_at >= self._balance_s:
            all_begun = await self._balance()
            again_s = 0.0 if all_begun else max(0.0, self._balance_s - LATE_S)
            self._balanced_at = now - again_s

    async def _balance(self) -> bool:
        """False: a queue could not begin, its broker is away, say. Raises why, if none could."""
        mine = await self._assignment.queues()
        before = set(self._queues)
        self._queues = [queue for queue in mine if queue in before]
        if before - set(mine) and self._commit_s is not None:
            await self.commit()
        late: dict[Queue, RefusedByServer] = {}
        for queue in mine:
            if queue not in before:
                try:
                    await self._take_on(queue)
                except RefusedByServer as failed:
                    late[queue] = failed
        if late and not self._queues:
            raise next(iter(late.values()))
        self._tell(late)
        return not late

    def _tell(self, late: dict[Queue, RefusedByServer]) -> None:
        """Once of each queue and reason."""
        for queue, failed in late.items():
            if self._late.get(queue) != str(failed):
                names = {"topic": self.topic, "group": self.group, "broker": queue.broker}
                level, more = level_of(failed), fields(None, failed, **names)
                log.log(level, "%s cannot be pulled yet: %s", queue, failed, extra=more)
        self._late = {queue: str(failed) for queue, failed in late.items()}

    async def _take_on(self, queue: Queue) -> None:
        offset = await self._began(queue)
        progress = self._progress.get(queue)
        if progress is None:
            self._begin(queue, offset)
        else:  # it was ours before, and others may have gone on in between
            progress.next_offset = max(progress.next_offset, offset)
        self._queues.append(queue)

    async def _began(self, queue: Queue) -> int:
        offset = await self._offsets.load(queue)
        if offset is None:
            offset = await self._offset_at(queue, self._begins_at)
            if self._commit_s is not None:  # a crash before the first commit skips nothing
                await self._offsets.save({queue: offset})
        return offset

    async def _offset_at(self, queue: Queue, where: Start | datetime) -> int:
        request = service.QueryOffsetRequest(
            message_queue=message_queue(self.connection, self.topic, queue)
        )
        if isinstance(where, Start):
            request.query_offset_policy = where.value
        else:
            request.query_offset_policy = v2.TIMESTAMP
            request.timestamp.FromDatetime(where)
        response = await self.connection.ask(self.connection.stub.QueryOffset, request)
        check(response.status)
        return int(response.offset)


def _from(round_number: int, queues: list[Queue]) -> list[Queue]:
    """The same in a circle, beginning with another one each round."""
    at = round_number % len(queues) if queues else 0
    return queues[at:] + queues[:at]
