"""The async client: one connection, any number of topics and groups.

async with Client("127.0.0.1:8081") as client:
    await client.send("orders", b"hello")
    for message in await client.receive("orders", "billing"):
        await client.ack(message)
"""

import asyncio
import logging
import os
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq._core import convert
from popmq._core.ids import MessageIds
from popmq._core.signature import Credentials, metadata
from popmq.errors import (
    BrokerUnavailable,
    PopMQClientError,
    RefusedByServer,
    ServerUnreachable,
    check,
)
from popmq.message import Message, ReceivedMessage, SendReceipt
from popmq.telemetry import Telemetry
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_consumer.v1 import consumer_pb2_grpc as consumer_grpc

T = TypeVar("T")
log = logging.getLogger(__name__)
SEND_ATTEMPTS = 3
BACKOFF_S = 0.05
MESSAGE_BYTES_MAX = 130 * 1024 * 1024
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
        send_attempts: int = SEND_ATTEMPTS,
    ) -> None:
        """`send_attempts`: how often a send is tried when no answer comes; a try whose answer was
        lost leaves the message twice, with one id."""
        self._endpoint = endpoint
        self._tls = tls
        self._namespace = namespace
        self._credentials = credentials
        self._timeout_s = request_timeout_s
        self._send_attempts = send_attempts
        self._client_id = f"{socket.gethostname()}@{os.getpid()}@{uuid.uuid4().hex[:12]}"
        self._ids = MessageIds(uuid.getnode(), os.getpid(), int(time.time()))
        self._routes: dict[str, tuple[float, list[v2.MessageQueue]]] = {}
        self._lost: dict[tuple[str, str, str], str] = {}
        """(topic, group, broker) of a receive whose answer did not come → its attempt id: asked
        again under it, a FIFO group's broker gives the same messages."""
        self._turn = random.randrange(1 << 16)

    async def __aenter__(self) -> Self:
        options = [
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", -1),
        ]
        if self._tls:
            credentials = grpc.ssl_channel_credentials()
            self._channel = grpc.aio.secure_channel(self._endpoint, credentials, options)
        else:
            self._channel = grpc.aio.insecure_channel(self._endpoint, options)
        self._stub = service_grpc.MessagingServiceStub(self._channel)
        self._consumer = consumer_grpc.ConsumerStub(self._channel)
        self._telemetry = Telemetry(self._stub, self.metadata)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._telemetry.close(self._timeout_s)
        await self._channel.close(None)

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        tag: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        message_group: str | None = None,
    ) -> SendReceipt:
        """Returns when the message is stored; with the server's default, on disk."""
        message = Message(
            body=body,
            tag=tag,
            keys=keys,
            properties=properties or {},
            message_group=message_group,
        )
        (receipt,) = await self.send_many(topic, [message])
        if isinstance(receipt, PopMQClientError):
            raise receipt
        return receipt

    async def send_many(
        self, topic: str, messages: Sequence[Message]
    ) -> list[SendReceipt | PopMQClientError]:
        """One request for all; per message its receipt or what went wrong with it."""
        resource = self._resource(topic)
        await self._telemetry.publish(resource)
        now_ms = time.time_ns() // 1_000_000
        request = service.SendMessageRequest(
            messages=[
                convert.outgoing(message, resource, self._ids.next(), now_ms)
                for message in messages
            ]
        )
        response = await self._retrying(
            lambda: self._stub.SendMessage(
                request, timeout=self._timeout_s, metadata=self.metadata()
            ),
            attempts=self._send_attempts,
        )
        if not response.entries:
            check(response.status)
        return [_receipt(entry) for entry in response.entries]

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
        await self._telemetry.subscribe(self._resource(topic), self._resource(group), wanted)
        brokers = await self._brokers(topic)
        self._turn += 1
        order = [brokers[(self._turn + i) % len(brokers)] for i in range(len(brokers))]
        request = service.ReceiveMessageRequest(
            group=self._resource(group),
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
            return await self._retrying(lambda: self._receive_once(request, wait_s))
        except ServerUnreachable:
            self._lost[place] = request.attempt_id
            raise

    async def _receive_once(
        self, request: service.ReceiveMessageRequest, wait_s: float
    ) -> list[ReceivedMessage]:
        call = self._stub.ReceiveMessage(
            request, timeout=wait_s + self._timeout_s, metadata=self.metadata()
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
                group=self._resource(group),
                topic=self._resource(topic),
                entries=[
                    service.AckMessageEntry(
                        message_id=message.message_id, receipt_handle=message.receipt_handle
                    )
                    for message in held
                ],
            )
            response = await self._retrying(
                lambda request=request: self._stub.AckMessage(  # type: ignore[misc]
                    request, timeout=self._timeout_s, metadata=self.metadata()
                )
            )
            for entry in response.entries:
                check(entry.status)
            check(response.status)

    async def change_invisible(self, message: ReceivedMessage, seconds: float) -> None:
        """Hold it for `seconds` from now; 0 gives it back at once. Updates its handle."""
        request = service.ChangeInvisibleDurationRequest(
            group=self._resource(message.group),
            topic=self._resource(message.topic),
            receipt_handle=message.receipt_handle,
            message_id=message.message_id,
        )
        request.invisible_duration.FromMilliseconds(int(seconds * 1000))
        response = await self._retrying(
            lambda: self._stub.ChangeInvisibleDuration(
                request, timeout=self._timeout_s, metadata=self.metadata()
            ),
            attempts=1,
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
        entry = consumer.NackEntry(
            message_id=message.message_id, receipt_handle=message.receipt_handle
        )
        request = consumer.NackRequest(
            group=self._resource(message.group),
            topic=self._resource(message.topic),
            entries=[entry],
            kind=kind,
            reason=reason[:REASON_CHARS_MAX],
        )
        if delay_s is not None:
            request.delay.FromMilliseconds(int(delay_s * 1000))
        try:
            response = await self._retrying(
                lambda: self._consumer.Nack(
                    request, timeout=self._timeout_s, metadata=self.metadata()
                ),
                attempts=1,
            )
        except ServerUnreachable as failed:
            cause = failed.__cause__
            if not isinstance(cause, grpc.aio.AioRpcError):
                raise
            if cause.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            text = f"{self._endpoint} is no PopMQ: it does not know nack and reject"
            raise RefusedByServer(v2.NOT_IMPLEMENTED, text) from cause
        check(response.entries[0].status if response.entries else response.status)

    async def _brokers(self, topic: str) -> list[v2.MessageQueue]:
        """One readable queue of each broker; a receive on it serves the whole broker."""
        kept = self._routes.get(topic)
        now_s = time.monotonic()
        if kept is not None and now_s - kept[0] < ROUTE_KEPT_S:
            return kept[1]
        response = await self._retrying(
            lambda: self._stub.QueryRoute(
                service.QueryRouteRequest(topic=self._resource(topic)),
                timeout=self._timeout_s,
                metadata=self.metadata(),
            )
        )
        check(response.status)
        readable = {
            queue.broker.name: queue
            for queue in response.message_queues
            if queue.permission in (v2.READ, v2.READ_WRITE)
        }
        self._routes[topic] = (now_s, list(readable.values()))
        return self._routes[topic][1]

    async def ask(self, method: Any, request: Any, wait_s: float = 0.0) -> Any:
        """One unary call that may be repeated; `wait_s`: how long the server may take over it."""
        timeout_s = wait_s + self._timeout_s
        return await self._retrying(
            lambda: method(request, timeout=timeout_s, metadata=self.metadata())
        )

    @property
    def stub(self) -> "service_grpc.MessagingServiceAsyncStub":
        return self._stub

    @property
    def consumer(self) -> "consumer_grpc.ConsumerAsyncStub":
        """What a PopMQ server knows beyond the public protocol."""
        return self._consumer

    def resource(self, name: str) -> v2.Resource:
        """A topic or group in this client's namespace."""
        return self._resource(name)

    async def _retrying(
        self, attempt: Callable[[], Awaitable[T]], attempts: int = SEND_ATTEMPTS
    ) -> T:
        """Try again what did not reach the server; the same ids go out each time."""
        for number in range(1, attempts + 1):
            try:
                return await attempt()
            except grpc.aio.AioRpcError as failed:
                if number == attempts:
                    text = f"{self._endpoint}: {failed.details() or failed.code().name}"
                    raise ServerUnreachable(text) from failed
                await asyncio.sleep(BACKOFF_S * 2**number)
        raise AssertionError("at least one attempt is made")

    def _resource(self, name: str) -> v2.Resource:
        return v2.Resource(resource_namespace=self._namespace, name=name)

    def metadata(self) -> Any:
        """The metadata of one request."""
        return metadata(
            client_id=self._client_id,
            namespace=self._namespace,
            request_id=str(uuid.uuid4()),
            date_time=datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
            version=version("popmq"),
            credentials=self._credentials,
        )


def _receipt(entry: service.SendResultEntry) -> SendReceipt | PopMQClientError:
    try:
        check(entry.status)
    except PopMQClientError as refused:
        return refused
    return SendReceipt(message_id=entry.message_id, queue_offset=entry.offset)
