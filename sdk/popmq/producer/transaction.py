"""Transactions: a message that is stored at once and delivered when its sender says so.

async with client.transactions.begin("orders", b"paid"):
    await database.commit()        # an error here rolls the message back

or, step by step,

half = await client.transactions.send("orders", b"paid")
await half.commit()                # or half.rollback()

A sender that dies in between leaves the message unsettled. The server then asks some producer of
the topic, again and again; `answer` says who answers.
"""

import asyncio
import enum
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq._core.counts import MessageFate
from popmq._core.messages import convert
from popmq._core.messages.ids import MessageIds
from popmq.connection.connection import ATTEMPTS, Connection
from popmq.connection.count_reports import CountReporter
from popmq.connection.pause import pause
from popmq.connection.telemetry import Telemetry
from popmq.errors import BrokerUnavailable, PopMQClientError, check
from popmq.log_fields import fields
from popmq.message import Message, ReceivedMessage
from popmq.producer.sending import failed_as

ANSWERS_MAX = 64
"""Questions answered at a time; more are let go, the server asks again."""
log = logging.getLogger(__name__)
T = TypeVar("T")


class Resolution(enum.Enum):
    COMMIT = v2.COMMIT
    ROLLBACK = v2.ROLLBACK
    UNKNOWN = v2.TRANSACTION_RESOLUTION_UNSPECIFIED
    """Ask again later."""


Checker = Callable[[ReceivedMessage], Awaitable[Resolution]]
"""Says what has become of a message's transaction. The message has no receipt handle."""


@dataclass(frozen=True, slots=True)
class HalfMessage:
    """It is stored and on disk; nobody gets it before `commit`."""

    topic: str
    message_id: str
    transaction_id: str
    _end: Callable[["HalfMessage", Resolution], Awaitable[None]] = field(repr=False)

    async def commit(self) -> None:
        """It is delivered. The same again is good; after a rollback it is refused."""
        await self._end(self, Resolution.COMMIT)

    async def rollback(self) -> None:
        """Nobody gets it."""
        await self._end(self, Resolution.ROLLBACK)


class ClientTransactions:
    """`Client.transactions`."""

    def __init__(
        self,
        connection: Connection,
        telemetry: Telemetry,
        ids: MessageIds,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._attempts = attempts
        self._connection = connection
        self._telemetry = telemetry
        self.ids = ids
        self.counts: CountReporter | None = None
        """Counts what becomes of each half message."""
        self._checkers: dict[str, Checker] = {}
        self._answering: set[asyncio.Task[None]] = set()
        telemetry.orphans = self._orphan

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        tag: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        ask_after_s: int | None = None,
    ) -> HalfMessage:
        """Store the message out of sight. `ask_after_s`: how long nobody is asked about it.

        Tried again as `Client.send`: what was stored by a try whose answer was lost is asked about.
        """
        resource = self._connection.resource(topic)
        await self._telemetry.publish(resource)
        message = Message(body=body, tag=tag, keys=keys, properties=properties or {})
        now_ms = time.time_ns() // 1_000_000
        message_id = self.ids.next()
        half = convert.outgoing(message, resource, message_id, now_ms)
        half.system_properties.message_type = v2.TRANSACTION
        if ask_after_s is not None:
            half.system_properties.orphaned_transaction_recovery_duration.seconds = ask_after_s
        outcome: MessageFate = MessageFate.UNKNOWN
        if self.counts is not None:
            self.counts.begin()
            self.counts.counts.drafted(message_id, now_ms)
        try:
            entry = await self._stored(service.SendMessageRequest(messages=[half]))
            outcome = MessageFate.SENT
        except PopMQClientError as failed:
            outcome = failed_as(failed)
            raise
        finally:
            if self.counts is not None:
                self.counts.counts.sends(outcome, topic, [message_id])
        return HalfMessage(topic, entry.message_id, entry.transaction_id, self._end)

    async def _stored(self, request: service.SendMessageRequest) -> service.SendResultEntry:
        async def ask() -> service.SendResultEntry:
            method = self._connection.stub.SendMessage
            response = await self._connection.ask(method, request, attempts=self._attempts)
            for entry in response.entries:
                check(entry.status)
            check(response.status)
            found: service.SendResultEntry = response.entries[0]
            return found

        return await self._retrying(ask)

    async def _retrying(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Through another server, when this one does not reach the broker."""
        for failures in count(1):
            try:
                return await ask()
            except BrokerUnavailable:
                if failures >= self._attempts:
                    raise
            await pause(failures)
            self._connection.go_elsewhere()
        raise AssertionError("count has no end")

    @asynccontextmanager
    async def begin(self, topic: str, body: bytes, **more: Any) -> AsyncIterator[HalfMessage]:
        """Committed at the end of the block, rolled back if it raises. `more`: as of `send`."""
        half = await self.send(topic, body, **more)
        try:
            yield half
        except BaseException:
            try:
                await half.rollback()
            except PopMQClientError as failed:  # the server asks about it
                text = "the transaction of message %s was not rolled back: %s"
                about = {**fields(None, failed, topic=topic), "message_id": half.message_id}
                log.warning(text, half.message_id, failed, extra=about)
            raise
        await half.commit()

    async def answer(self, topic: str, checker: Checker) -> None:
        """Answer what the server asks about transactions of `topic`, whoever began them.

        What the checker raises is logged, and the server asks again.
        """
        self._checkers[topic] = checker
        await self._telemetry.publish(self._connection.resource(topic))

    async def _end(
        self,
        half: HalfMessage,
        resolution: Resolution,
        source: "v2.TransactionSource.ValueType" = v2.SOURCE_CLIENT,
    ) -> None:
        request = service.EndTransactionRequest(
            topic=self._connection.resource(half.topic),
            message_id=half.message_id,
            transaction_id=half.transaction_id,
            resolution=resolution.value,
            source=source,
        )

        async def ask() -> None:
            method = self._connection.stub.EndTransaction
            check((await self._connection.ask(method, request)).status)

        await self._retrying(ask)

    def _orphan(self, command: service.RecoverOrphanedTransactionCommand) -> None:
        checker = self._checkers.get(command.message.topic.name)
        if checker is None or len(self._answering) >= ANSWERS_MAX:
            return
        task = asyncio.create_task(self._ask(checker, command))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _ask(
        self, checker: Checker, command: service.RecoverOrphanedTransactionCommand
    ) -> None:
        message = convert.incoming(command.message, "", "")
        try:
            resolution = await checker(message)
            half = HalfMessage(message.topic, message.message_id, command.transaction_id, self._end)
            await self._end(half, resolution, v2.SOURCE_SERVER_CHECK)
        except PopMQClientError as failed:
            more = fields(message, failed)
            text = "the transaction of message %s was not settled: %s"
            log.warning(text, message.message_id, failed, extra=more)
        except Exception as failed:
            more = fields(message, failed)
            text = "the transaction of message %s was not settled"
            log.exception(text, message.message_id, extra=more)

    async def close(self) -> None:
        for task in list(self._answering):
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)
