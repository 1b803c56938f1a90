"""The async client: one connection, any number of topics and groups.

async with Client("127.0.0.1:8081") as client:
    await client.send("orders", b"hello")
    for message in await client.receive("orders", "billing"):
        await client.ack(message)
"""

import logging
import os
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq._core import convert
from popmq._core.ids import MessageIds
from popmq._core.signature import Credentials
from popmq.connection import ATTEMPTS, Connection
from popmq.errors import (
    BrokerUnavailable,
    PopMQClientError,
    RefusedByServer,
    ServerUnreachable,
    check,
)
from popmq.message import Message, ReceivedMessage, SendReceipt
from popmq.telemetry import Telemetry
from popmq.transaction import Transactions
from popmq_consumer.v1 import consumer_pb2 as consumer

log = logging.getLogger(__name__)
ROUTE_KEPT_S = 30.0
REASON_CHARS_MAX = 1_000  # the server keeps no more


class Client:
    """Use it as an async context manager. Every method raises the errors of `popmq.errors`."""

    def __init__(
        self,
        endpoint: str = "127.0.0.1:8081",
        *,
        tls: bool = False,
        namespace: str = "",
        credentials: Credentials | None = None,
        request_timeout_s: float = 3.0,
        send_attempts: int = ATTEMPTS,
    ) -> None:
        """`send_attempts`: how often a send is tried when no answer comes; a try whose answer was
        lost leaves the message twice, with one id."""
        self.connection = Connection(
            endpoint,
            tls=tls,
            namespace=namespace,
            credentials=credentials,
            timeout_s=request_timeout_s,
        )
        self._send_attempts = send_attempts
        self._ids = MessageIds(uuid.getnode(), os.getpid(), int(time.time()))
        self._routes: dict[str, tuple[float, list[v2.MessageQueue]]] = {}
        self._lost: dict[tuple[str, str, str], str] = {}
        """(topic, group, broker) of a receive whose answer did not come → its attempt id: asked
        again under it, a FIFO group's broker gives the same messages."""
        self._turn = random.randrange(1 << 16)

    async def __aenter__(self) -> Self:
        connection = self.connection
        connection.open()
        self._telemetry = Telemetry(connection.stub, connection.metadata)
        self.transactions = Transactions(connection, self._telemetry, self._ids)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.transactions.close()
        await self._telemetry.close(self.connection.timeout_s)
        await self.connection.close()

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        tag: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        message_group: str | None = None,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
    ) -> SendReceipt:
        """Returns when the message is stored; with the server's default, on disk. One with a
        `delay_s` or `deliver_at` waits for its time; see `recall`."""
        message = Message(
            body=body,
            tag=tag,
            keys=keys,
            properties=properties or {},
            message_group=message_group,
            delay_s=delay_s,
            deliver_at=deliver_at,
        )
        (receipt,) = await self.send_many(topic, [message])
        if isinstance(receipt, PopMQClientError):
            raise receipt
        return receipt

    async def send_many(
        self, topic: str, messages: Sequence[Message]
    ) -> list[SendReceipt | PopMQClientError]:
        """One request for all; per message its receipt or what went wrong with it."""
        resource = self.connection.resource(topic)
        await self._telemetry.publish(resource)
        now_ms = time.time_ns() // 1_000_000
        request = service.SendMessageRequest(
            messages=[
                convert.outgoing(message, resource, self._ids.next(), now_ms)
                for message in messages
            ]
        )
        response = await self.connection.ask(
            self.connection.stub.SendMessage, request, attempts=self._send_attempts
        )
        if not response.entries:
            check(response.status)
        return [_receipt(entry) for entry in response.entries]

    async def recall(self, topic: str, recall_handle: str) -> None:
        """A delayed message shall never come. Raises `RefusedByServer` when it is too late."""
        request = service.RecallMessageRequest(
            topic=self.connection.resource(topic), recall_handle=recall_handle
        )
        check((await self.connection.ask(self.connection.stub.RecallMessage, request)).status)

    async def receive(
        self,
        topic: str,
        group: str,
        *,
        max_messages: int = 16,
        invisible_s: float = 60.0,
        wait_s: float = 20.0,
        filter: str = "*",
        sql: str = "",
    ) -> list[ReceivedMessage]:
        """Up to `max_messages` of one broker; an empty list when none came within `wait_s`.

        The brokers of the topic are asked in turn, beginning with another one at each call: first
        each for what is there, then one is waited at. `filter` is a tag, `a||b`, or `*`;
        `sql` an expression over tag and properties, like `TAGS = 'a' AND price > 20`, instead.
        """
        wanted = v2.FilterExpression(type=v2.SQL if sql else v2.TAG, expression=sql or filter)
        await self._telemetry.subscribe(
            self.connection.resource(topic), self.connection.resource(group), wanted
        )
        brokers = await self._brokers(topic)
        self._turn += 1
        order = [brokers[(self._turn + i) % len(brokers)] for i in range(len(brokers))]
        request = service.ReceiveMessageRequest(
            group=self.connection.resource(group),
            filter_expression=wanted,
            batch_size=max_messages,
        )
        request.invisible_duration.FromMilliseconds(int(invisible_s * 1000))
        for queue in order[1:]:
            try:
                found = await self._receive_at(request, queue, wait_s=0.0)
            except BrokerUnavailable as down:  # the others may have something
                log.info("%s was passed over: %s", queue.broker.name, down)
                continue
            if found:
                return found
        return await self._receive_at(request, order[0], wait_s=wait_s)

    async def _receive_at(
        self, request: service.ReceiveMessageRequest, queue: v2.MessageQueue, *, wait_s: float
    ) -> list[ReceivedMessage]:
        request.message_queue.CopyFrom(queue)
        request.long_polling_timeout.FromMilliseconds(int(wait_s * 1000))
        place = (request.message_queue.topic.name, request.group.name, queue.broker.name)
        request.attempt_id = self._lost.pop(place, "") or str(uuid.uuid4())
        try:
            return await self.connection.retrying(lambda: self._receive_once(request, wait_s))
        except ServerUnreachable:
            self._lost[place] = request.attempt_id
            raise

    async def _receive_once(
        self, request: service.ReceiveMessageRequest, wait_s: float
    ) -> list[ReceivedMessage]:
        call = self.connection.stub.ReceiveMessage(
            request, timeout=wait_s + self.connection.timeout_s, metadata=self.connection.metadata()
        )
        received = []
        broker = request.message_queue.broker.name
        async for response in call:
            kind = response.WhichOneof("content")
            if kind == "status" and response.status.code != v2.MESSAGE_NOT_FOUND:
                check(response.status)
            elif kind == "message":
                received.append(convert.incoming(response.message, request.group.name, broker))
        return received

    async def ack(self, *messages: ReceivedMessage) -> None:
        """Done with these. Raises for the first that was refused, after all were tried."""
        by_group: dict[tuple[str, str], list[ReceivedMessage]] = {}
        for message in messages:
            by_group.setdefault((message.topic, message.group), []).append(message)
        for (topic, group), held in by_group.items():
            request = service.AckMessageRequest(
                group=self.connection.resource(group),
                topic=self.connection.resource(topic),
                entries=[
                    service.AckMessageEntry(
                        message_id=message.message_id, receipt_handle=message.receipt_handle
                    )
                    for message in held
                ],
            )
            response = await self.connection.ask(self.connection.stub.AckMessage, request)
            for entry in response.entries:
                check(entry.status)
            check(response.status)

    async def change_invisible(self, message: ReceivedMessage, seconds: float) -> None:
        """Hold it for `seconds` from now; 0 gives it back at once. Updates its handle."""
        request = service.ChangeInvisibleDurationRequest(
            group=self.connection.resource(message.group),
            topic=self.connection.resource(message.topic),
            receipt_handle=message.receipt_handle,
            message_id=message.message_id,
        )
        request.invisible_duration.FromMilliseconds(int(seconds * 1000))
        response = await self.connection.ask(
            self.connection.stub.ChangeInvisibleDuration, request, attempts=1
        )
        check(response.status)
        message.receipt_handle = response.receipt_handle

    async def nack(
        self,
        message: ReceivedMessage,
        delay_s: float | None = None,
        reason: str = "",
        *,
        counted: bool = True,
    ) -> None:
        """It was not dealt with: it comes again after `delay_s`, by default as the group's retry
        policy says. Its handle is void from now on.

        `counted`: a failed attempt; after the group's last one it goes to the dead letters at
        once, with the last `reason` that was given. Otherwise it is only given back, and the next
        delivery has the same number. Raises `InvalidReceiptHandle` when somebody else may hold it.
        """
        kind = consumer.NACK_KIND_COUNTED if counted else consumer.NACK_KIND_UNCOUNTED
        await self._nack(message, kind, delay_s, reason)

    async def reject(self, message: ReceivedMessage, reason: str) -> None:
        """It can never be dealt with: to the dead letters of its group at once, with `reason`."""
        await self._nack(message, consumer.NACK_KIND_FATAL, None, reason)

    async def _nack(
        self,
        message: ReceivedMessage,
        kind: "consumer.NackKind.ValueType",
        delay_s: float | None,
        reason: str,
    ) -> None:
        group, topic = (
            self.connection.resource(message.group),
            self.connection.resource(message.topic),
        )
        request = convert.nack(message, group, topic, kind, delay_s, reason[:REASON_CHARS_MAX])
        try:
            response = await self.connection.ask(self.connection.consumer.Nack, request, attempts=1)
        except ServerUnreachable as failed:
            cause = failed.__cause__
            if not isinstance(cause, grpc.aio.AioRpcError):
                raise
            if cause.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            text = f"{self.connection.endpoint} is no PopMQ: it does not know nack and reject"
            raise RefusedByServer(v2.NOT_IMPLEMENTED, text) from cause
        check(response.entries[0].status if response.entries else response.status)

    async def _brokers(self, topic: str) -> list[v2.MessageQueue]:
        """One readable queue of each broker; a receive on it serves the whole broker."""
        kept = self._routes.get(topic)
        now_s = time.monotonic()
        if kept is not None and now_s - kept[0] < ROUTE_KEPT_S:
            return kept[1]
        response = await self.connection.ask(
            self.connection.stub.QueryRoute,
            service.QueryRouteRequest(topic=self.connection.resource(topic)),
        )
        check(response.status)
        readable = {
            queue.broker.name: queue
            for queue in response.message_queues
            if queue.permission in (v2.READ, v2.READ_WRITE)
        }
        self._routes[topic] = (now_s, list(readable.values()))
        return self._routes[topic][1]


def _receipt(entry: service.SendResultEntry) -> SendReceipt | PopMQClientError:
    try:
        check(entry.status)
    except PopMQClientError as refused:
        return refused
    return SendReceipt(
        message_id=entry.message_id, queue_offset=entry.offset, recall_handle=entry.recall_handle
    )
