"""Receives: which broker is asked, and what an answer that did not come means for the next one."""

import asyncio
import logging
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq._core.counts import MessageFate
from popmq._core.group_policy import GroupPolicy
from popmq._core.messages import convert
from popmq.connection.connection import ATTEMPTS, Connection
from popmq.connection.count_reports import CountReporter
from popmq.connection.telemetry import Telemetry
from popmq.connection.unknown_calls import is_unknown
from popmq.errors import BrokerUnavailable, ServerUnreachable, check
from popmq.log_fields import fields
from popmq.message import MessageHolder, ReceivedMessage
from popmq_consumer.v1 import consumer_pb2 as consumer

log = logging.getLogger(__name__)
ROUTE_KEPT_S = 30.0
STREAM_BATCH_MAX = 32
"""What RocketMQ's servers give in one receive; they refuse who asks for more."""
END_S: Final = 5.0
"""How long a receive that is cancelled waits for what is on the way to it: what it does not wait
for is held by nobody until its lease ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a consumer wants, and for how long it wants to hold it."""

    topic: str
    group: str
    filter: str = "*"
    sql: str = ""
    invisible_s: float = 60.0

    def expression(self) -> v2.FilterExpression:
        kind = v2.SQL if self.sql else v2.TAG
        return v2.FilterExpression(type=kind, expression=self.sql or self.filter)


class Receiving:
    """Of one client."""

    def __init__(self, connection: Connection, telemetry: Telemetry) -> None:
        self._connection = connection
        self._telemetry = telemetry
        self._routes: dict[str, tuple[float, list[v2.MessageQueue]]] = {}
        self._lost: dict[tuple[str, str, str], str] = {}
        """(topic, group, broker) of a receive whose answer did not come → its attempt id: asked
        again under it, a FIFO group's broker gives the same messages."""
        self.dropped: Callable[[list[ReceivedMessage]], None] = lambda _: None
        """Gets what had come to a receive when its caller was cancelled."""
        self.counts: CountReporter | None = None
        """Counts what came."""
        self._round = random.randrange(1 << 16)

    async def subscribe(self, wanted: Wanted, *, until_told: bool = False) -> None:
        """Tell the server; afterwards `policy` knows the group, if the server said it.
        `until_told`: raises `ServerUnreachable` when no server has heard it."""
        if self.counts is not None:
            self.counts.begin()
        group = self._connection.resource(wanted.group)
        topic = self._connection.resource(wanted.topic)
        await self._telemetry.subscribe(topic, group, wanted.expression())
        if until_told and not await self._telemetry.told(group.name):
            text = f"{self._connection.endpoint} has not answered the settings of {wanted.group}"
            raise ServerUnreachable(text)

    def policy(self, group: str) -> GroupPolicy:
        return self._telemetry.policy(group)

    def is_fifo(self, group: str) -> bool:
        return self.policy(group).fifo

    async def receive(
        self, wanted: Wanted, max_messages: int, wait_s: float, holder: MessageHolder | None
    ) -> list[ReceivedMessage]:
        """From the brokers in turn, beginning with another one at each call: first each for what
        is there, then one is waited at."""
        await self.subscribe(wanted)
        brokers = await self.brokers(wanted.topic)
        self._round += 1
        order = [brokers[(self._round + i) % len(brokers)] for i in range(len(brokers))]
        for queue in order[1:]:
            try:
                found = await self.receive_at(queue, wanted, max_messages, 0.0, holder)
            except BrokerUnavailable as down:  # the others may have something
                name, topic, group = queue.broker.name, wanted.topic, wanted.group
                more = fields(None, down, topic=topic, group=group, broker=name)
                log.info("%s was passed over: %s", name, down, extra=more)
                continue
            if found:
                return found
        return await self.receive_at(order[0], wanted, max_messages, wait_s, holder)

    async def receive_at(
        self,
        queue: v2.MessageQueue,
        wanted: Wanted,
        max_messages: int,
        wait_s: float,
        holder: MessageHolder | None,
        *,
        attempts: int = ATTEMPTS,
        dropped: Callable[[list[ReceivedMessage]], None] | None = None,
    ) -> list[ReceivedMessage]:
        """From one broker. `dropped`: as `self.dropped`, for this receive."""
        request = service.ReceiveMessageRequest(
            group=self._connection.resource(wanted.group),
            message_queue=queue,
            filter_expression=wanted.expression(),
            batch_size=max_messages,
        )
        request.invisible_duration.FromMilliseconds(int(wanted.invisible_s * 1000))
        request.long_polling_timeout.FromMilliseconds(int(wait_s * 1000))
        place = (wanted.topic, wanted.group, queue.broker.name)
        request.attempt_id = self._lost.pop(place, "") or str(uuid.uuid4())
        found: list[ReceivedMessage] = []
        try:
            await self._connection.retrying(
                lambda: self._receive_once(request, wait_s, holder, found),
                attempts,
                asked="ReceiveMessage",
            )
        except ServerUnreachable:
            self._lost[place] = request.attempt_id
            raise
        except asyncio.CancelledError:
            if found:
                self._count(found)
                (dropped or self.dropped)(_held(found, wanted.invisible_s))
            raise
        self._count(found)
        return _held(found, wanted.invisible_s)

    def _count(self, found: list[ReceivedMessage]) -> None:
        if self.counts is not None:
            self.counts.deliveries(MessageFate.RECEIVED, found)

    async def _receive_once(
        self,
        request: service.ReceiveMessageRequest,
        wait_s: float,
        holder: MessageHolder | None,
        found: list[ReceivedMessage],
    ) -> None:
        found.clear()
        connection = self._connection
        broker, group = request.message_queue.broker.name, request.group.name
        options = {"timeout": wait_s + connection.timeout_s, "metadata": connection.metadata()}
        if "ReceiveRecords" not in connection.unknown:
            # All in one response and as they are stored: far cheaper to read than a stream.
            address = connection.address
            asked = connection.consumer.ReceiveRecords(request, **options)
            whole = asyncio.ensure_future(_answer(asked))
            try:
                await self._ended_if_cancelled(whole, request.attempt_id, address)
            except grpc.aio.AioRpcError as failed:
                if not is_unknown(failed):
                    raise
                connection.unknown.add("ReceiveRecords")
            else:
                if whole.result().status.code != v2.MESSAGE_NOT_FOUND:
                    connection.check(whole.result().status, "ReceiveMessage")
                return
            finally:
                if whole.done() and not whole.cancelled() and whole.exception() is None:
                    topic = request.message_queue.topic.name
                    for run in whole.result().runs:
                        found += convert.held(run, topic, group, holder)
        request.batch_size = min(request.batch_size, STREAM_BATCH_MAX)
        async for response in connection.stub.ReceiveMessage(request, **options):
            kind = response.WhichOneof("content")
            if kind == "message":
                found.append(convert.incoming(response.message, group, broker, holder))
            elif kind == "status" and response.status.code != v2.MESSAGE_NOT_FOUND:
                connection.check(response.status, "ReceiveMessage")

    async def _ended_if_cancelled(
        self, whole: "asyncio.Future[Any]", attempt_id: str, address: str
    ) -> None:
        """Wait for an answer. Who cancels the wait has the server at `address` answer now: what it
        gave by then comes as well, instead of being lost on the way."""
        try:
            await asyncio.shield(whole)
        except asyncio.CancelledError:
            if not whole.done():
                await self._end(whole, attempt_id, address)
            raise

    async def _end(self, whole: "asyncio.Future[Any]", attempt_id: str, address: str) -> None:
        connection = self._connection
        request = consumer.EndPollsRequest(attempt_ids=[attempt_id])
        try:
            async with asyncio.timeout(END_S):
                end = connection.consumer_at(address).EndPolls
                await end(request, metadata=connection.metadata())
                await asyncio.wait([whole])
        except (TimeoutError, grpc.aio.AioRpcError) as failed:
            text = "a receive was not ended in time, what it brings comes when its lease ends: %r"
            log.info(text, failed)
        finally:
            whole.cancel()

    async def brokers(self, topic: str) -> list[v2.MessageQueue]:
        """One readable queue of each broker; a receive on it serves the whole broker."""
        kept = self._routes.get(topic)
        now_s = time.monotonic()
        if kept is not None and now_s - kept[0] < ROUTE_KEPT_S:
            return kept[1]
        response = await self._connection.ask(
            self._connection.stub.QueryRoute,
            service.QueryRouteRequest(topic=self._connection.resource(topic)),
        )
        check(response.status)
        readable = {
            queue.broker.name: queue
            for queue in response.message_queues
            if queue.permission in (v2.READ, v2.READ_WRITE)
        }
        self._routes[topic] = (now_s, list(readable.values()))
        return self._routes[topic][1]


async def _answer(call: Any) -> Any:
    return await call


def _held(found: list[ReceivedMessage], invisible_s: float) -> list[ReceivedMessage]:
    until_s = time.monotonic() + invisible_s
    for message in found:
        message.held_until_s = until_s
    return found
