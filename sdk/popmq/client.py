"""The async client: one connection, any number of topics and groups.

async with Client("127.0.0.1:8081") as client:
    await client.send("orders", b"hello")
    for message in await client.receive("orders", "billing"):
        await client.ack(message)
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from apache.rocketmq.v2 import service_pb2 as service
from popmq.access.credentials import Credentials
from popmq.admin.admin import Admin
from popmq.connection.connection import ATTEMPTS, Connection
from popmq.connection.count_reports import CountReporter
from popmq.connection.endpoints import Tls
from popmq.connection.telemetry import Telemetry
from popmq.consumer.consumer import Consumer, ConsumerOptions
from popmq.consumer.lease import Leases
from popmq.consumer.receiving import Receiving, Wanted
from popmq.consumer.settling import Settling
from popmq.errors import PopMQClientError, check
from popmq.message import Message, ReceivedMessage
from popmq.observed import (
    ObservedProducer,
    ObservedReceiving,
    ObservedSending,
    ObservedSettling,
    ObservedTransactions,
)
from popmq.observer import ClientFacts, Instrumentation, Observer
from popmq.producer.producer import Bytes, Producer, ProducerBounds, all_sent
from popmq.producer.sending import Sending
from popmq.producer.transaction import ClientTransactions
from popmq.send_receipt import SendReceipt
from popmq.serializer import Serializer

T = TypeVar("T")
COUNTS = "POPMQ_COUNTS"
"""The variable that makes clients count, if it is 1."""


class Client:
    """Connects when it is first used. Close it, or use it as an async context manager.

    Every method raises the errors of `popmq.errors`. All of one client belongs to one event loop.
    """

    def __init__(
        self,
        endpoint: str = "127.0.0.1:8081",
        *,
        tls: bool | Tls | None = None,
        namespace: str = "",
        credentials: Credentials | Literal[False] | None = None,
        request_timeout_s: float = 3.0,
        send_attempts: int = ATTEMPTS,
        admin_secret: str = "",
        instrumentation: Instrumentation | None = None,
        counts: bool | None = None,
    ) -> None:
        """`endpoint`: host:port, https://host:port for TLS, or several with `;` between them: one
        is used, and the next one when it does not answer. `tls`: None: as the endpoint says; True,
        or a `Tls` with certificates of yours. `credentials` None: as the environment says
        (POPMQ_ACCESS_KEY and POPMQ_SECRET_KEY, or POPMQ_CREDENTIALS_FILE); False: none, whatever it
        says. `send_attempts`: how often `send` is tried when no
        answer comes; a try whose answer was lost leaves the message twice, with one id.
        `admin_secret`: the server's, where `admin` may change nothing without. `instrumentation`:
        traces and metrics, as `popmq.otel.OpenTelemetry`. `counts`: what became of messages is
        counted and reported to the server, once a minute, for the audit; None: if POPMQ_COUNTS is
        1. Raises `ValueError` for an endpoint that
        is none, `UnusableSettings` for credentials that cannot be used."""
        if credentials is None:
            credentials = Credentials.from_environment()
        connection = self.connection = Connection(
            endpoint,
            tls=tls,
            namespace=namespace,
            credentials=credentials or None,
            timeout_s=request_timeout_s,
            admin_secret=admin_secret,
        )
        self.admin = Admin(connection)
        """Topics, groups, dead letters, messages, transactions."""
        self._send_attempts = send_attempts
        telemetry = self._telemetry = Telemetry(connection.stub, connection.metadata)
        self.sending = Sending(connection, telemetry)
        self.receiving = Receiving(connection, telemetry)
        self.leases = Leases(connection)
        self.settling = Settling(connection, self.leases)
        self.transactions = ClientTransactions(
            connection, telemetry, self.sending.ids, send_attempts
        )
        self._producers: list[Producer[Any]] = []
        self.observer: Observer | None = None
        """Is told of what is done; of the `instrumentation`."""
        if instrumentation is not None:
            self._observe(instrumentation)
        self._counts: CountReporter | None = None
        if os.environ.get(COUNTS) == "1" if counts is None else counts:
            self._count()
        self.receiving.dropped = self.settling.give_back

    def _count(self) -> None:
        """Nothing has been sent yet: the ids can be others."""
        reports = self._counts = CountReporter(self.connection)
        self.sending.ids = self.transactions.ids = reports.ids
        self.sending.counts = self.transactions.counts = reports
        self.receiving.counts = self.settling.counts = reports

    def _observe(self, instrumentation: Instrumentation) -> None:
        """Nothing has been done yet: its parts may be replaced."""
        connection, telemetry = self.connection, self._telemetry
        facts = ClientFacts(
            client_id=connection.client_id,
            addresses=connection.addresses,
            namespace=connection.namespace,
        )
        observer = self.observer = instrumentation.observer(facts)
        self.sending = ObservedSending(observer, connection, telemetry)
        self.receiving = ObservedReceiving(observer, connection, telemetry)
        self.settling = ObservedSettling(observer, connection, self.leases)
        parts = connection, telemetry, self.sending.ids, self._send_attempts
        self.transactions = ObservedTransactions(observer, *parts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """What was sent and settled is answered first; the server is told goodbye."""
        for producer in self._producers:
            await producer.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.connection.timeout_s):
                await self.settling.drain()
        await self.settling.close()
        await self.leases.close()
        await self.transactions.close()
        if self._counts is not None:
            await self._counts.close(self.connection.timeout_s)
        await self._telemetry.close(self.connection.timeout_s)
        await self.connection.close()

    @overload
    def producer(self, **bounds: Unpack[ProducerBounds]) -> Producer[bytes]: ...
    @overload
    def producer(
        self, serializer: Serializer[T], **bounds: Unpack[ProducerBounds]
    ) -> Producer[T]: ...
    def producer(
        self, serializer: Serializer[Any] | None = None, **bounds: Unpack[ProducerBounds]
    ) -> Producer[Any]:
        """Many sends in few requests. `bounds`: as of `Producer`. Closed with the client."""
        kind = serializer or Bytes()
        made: Producer[Any]
        if self.observer is None:
            made = Producer(self.sending, kind, **bounds)
        else:
            made = ObservedProducer(self.observer, self.sending, kind, **bounds)
        self._producers.append(made)
        return made

    def consumer(self, topic: str, group: str, **options: Unpack[ConsumerOptions]) -> Consumer:
        """Messages one by one, leases renewed. `options`: as of `Consumer`."""
        return Consumer(self.receiving, self.settling, self.leases, topic, group, **options)

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
        (receipt,) = await self.sending.send(topic, [message], self._send_attempts)
        if isinstance(receipt, PopMQClientError):
            raise receipt
        return receipt

    @overload
    async def send_many(
        self, topic: str, messages: Sequence[Message], *, return_exceptions: Literal[False] = False
    ) -> list[SendReceipt]: ...
    @overload
    async def send_many(
        self, topic: str, messages: Sequence[Message], *, return_exceptions: bool
    ) -> list[SendReceipt | PopMQClientError]: ...
    async def send_many(
        self, topic: str, messages: Sequence[Message], *, return_exceptions: bool = False
    ) -> Any:
        """One request for all: 1,024 messages at most; a producer's `send_many` takes any number.
        Raises `NotAllSent`, which has the result of each, if one was not stored;
        `return_exceptions`: per message its receipt or what went wrong with it."""
        results = await self.sending.send(topic, messages, self._send_attempts)
        return results if return_exceptions else all_sent(results)

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
        wanted = Wanted(topic=topic, group=group, filter=filter, sql=sql, invisible_s=invisible_s)
        return await self.receiving.receive(wanted, max_messages, wait_s, self)

    async def ack(self, *messages: ReceivedMessage) -> None:
        """Done with these. Raises for the first that was refused, after all were tried."""
        results = await asyncio.gather(
            *(self.settling.ack(message) for message in messages), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def change_invisible(self, message: ReceivedMessage, seconds: float) -> None:
        """Hold it for `seconds` from now; 0 gives it back at once. Updates its handle."""
        await self.settling.extend(message, seconds)

    async def extend(self, message: ReceivedMessage, seconds: float) -> None:
        """The same, as a message asks for it."""
        await self.settling.extend(message, seconds)

    async def nack(
        self,
        message: ReceivedMessage,
        delay_s: float | None = None,
        reason: str = "",
        *,
        counted: bool = True,
    ) -> None:
        """It was not dealt with: it is redelivered after `delay_s`, by default as the group's retry
        policy says. Its handle is void from now on.

        `counted`: a failed attempt; after the group's last one it goes to the dead letters at
        once, with the last `reason` that was given. Otherwise it is only given back, and the next
        delivery has the same number. Raises `InvalidReceiptHandle` when somebody else may hold it.
        """
        await self.settling.nack(message, delay_s, reason, counted=counted)

    async def reject(self, message: ReceivedMessage, reason: str) -> None:
        """It can never be dealt with: to the dead letters of its group at once, with `reason`."""
        await self.settling.reject(message, reason)
