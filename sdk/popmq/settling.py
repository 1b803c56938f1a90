"""What becomes of messages that are held: acks, nacks and changes of their invisible time.

Acks and nacks of many callers share requests; each caller learns of its own message. An ack that
is repeated is answered OK, so one whose answer did not come is asked again. A repeated nack may
find the handle void: then the one before it was done, or the lease was over.
"""

import asyncio
import time
from typing import Any, NamedTuple

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq._core import convert
from popmq._core.gather import Bounds
from popmq.batching import Batches
from popmq.connection import Connection
from popmq.errors import RefusedByServer, ServerUnreachable, check
from popmq.lease import Leases
from popmq.message import ReceivedMessage
from popmq.repeating import ask_each
from popmq_consumer.v1 import consumer_pb2 as consumer

REASON_CHARS_MAX = 1_000  # the server keeps no more
BOUNDS = Bounds(items_max=512, bytes_max=1 << 62, wait_s=0.05, under_way_max=4)
"""Of acks; the server takes 1,024 in a request."""
LINES_MAX = 256
"""Kinds of nacks whose requests are kept; idle ones beyond are forgotten."""
PATIENCE_S = 30.0
"""How long an ack or nack is tried at most while no server answers, or its broker is away. Not
longer than the lease lasts: afterwards it says nothing."""


class _Line(NamedTuple):
    """Messages that may share a nack."""

    topic: str
    group: str
    kind: int
    delay_s: float | None
    reason: str


class Settling:
    """Of one client."""

    def __init__(self, connection: Connection, leases: Leases) -> None:
        self._connection = connection
        self._leases = leases
        self._acks: dict[tuple[str, str], Batches[ReceivedMessage, None]] = {}
        self._nacks: dict[_Line, Batches[ReceivedMessage, None]] = {}

    async def ack(self, message: ReceivedMessage) -> None:
        """Raises the errors of `popmq.errors`."""
        await self._leases.end(message)
        place = message.topic, message.group
        batches = self._acks.get(place)
        if batches is None:
            topic, group = place
            batches = self._acks[place] = Batches(
                lambda held: self._ack_batch(topic, group, held), BOUNDS
            )
        await batches.one(message)

    async def nack(
        self, message: ReceivedMessage, delay_s: float | None, reason: str, *, counted: bool
    ) -> None:
        kind = consumer.NACK_KIND_COUNTED if counted else consumer.NACK_KIND_UNCOUNTED
        await self._nack(message, kind, delay_s, reason)

    async def reject(self, message: ReceivedMessage, reason: str) -> None:
        await self._nack(message, consumer.NACK_KIND_FATAL, None, reason)

    async def extend(self, message: ReceivedMessage, seconds: float) -> None:
        """Tried once: afterwards the old handle is void, or not. Updates the message's handle."""
        renewed = await self._leases.pause(message)
        connection = self._connection
        group, topic = connection.resource(message.group), connection.resource(message.topic)
        request = convert.change(message, group, topic, seconds)
        response = await connection.ask(
            connection.stub.ChangeInvisibleDuration, request, attempts=1
        )
        check(response.status)
        message.receipt_handle = response.receipt_handle
        message.held_until_s = time.monotonic() + seconds
        if renewed is not None and seconds > 0:
            self._leases.hold(message, seconds, renewed.longest_s, renewed.over)

    async def drain(self) -> None:
        """Until everything that was said is answered."""
        await asyncio.gather(
            *(batches.drain() for batches in (*self._acks.values(), *self._nacks.values()))
        )

    async def close(self) -> None:
        for batches in (*self._acks.values(), *self._nacks.values()):
            await batches.cancel()

    async def _nack(
        self,
        message: ReceivedMessage,
        kind: "consumer.NackKind.ValueType",
        delay_s: float | None,
        reason: str,
    ) -> None:
        await self._leases.end(message)
        line = _Line(message.topic, message.group, kind, delay_s, reason[:REASON_CHARS_MAX])
        batches = self._nacks.get(line)
        if batches is None:
            if len(self._nacks) >= LINES_MAX:
                self._nacks = {name: kept for name, kept in self._nacks.items() if not kept.idle}
            batches = self._nacks[line] = Batches(lambda held: self._nack_batch(line, held), BOUNDS)
        await batches.one(message)

    async def _ack_batch(
        self, topic: str, group: str, held: list[ReceivedMessage]
    ) -> list[Exception | None]:
        connection = self._connection

        async def ask(left: list[ReceivedMessage]) -> Any:
            request = convert.ack(left, connection.resource(group), connection.resource(topic))
            return await connection.ask(connection.stub.AckMessage, request, attempts=1)

        return await ask_each(held, ask, _done, _patience_s(held), connection.go_elsewhere)

    async def _nack_batch(self, line: _Line, held: list[ReceivedMessage]) -> list[Exception | None]:
        connection = self._connection

        async def ask(left: list[ReceivedMessage]) -> Any:
            group, topic = connection.resource(line.group), connection.resource(line.topic)
            kind = consumer.NackKind.ValueType(line.kind)
            request = convert.nack(left, group, topic, kind, line.delay_s, line.reason)
            try:
                return await connection.ask(connection.consumer.Nack, request, attempts=1)
            except ServerUnreachable as failed:
                cause = failed.__cause__
                if not isinstance(cause, grpc.aio.AioRpcError):
                    raise
                if cause.code() is not grpc.StatusCode.UNIMPLEMENTED:
                    raise
                text = f"{connection.endpoint} is no PopMQ: it does not know nack and reject"
                raise RefusedByServer(v2.NOT_IMPLEMENTED, text) from cause

        return await ask_each(held, ask, _done, _patience_s(held), connection.go_elsewhere)


def _patience_s(held: list[ReceivedMessage]) -> float:
    """As long as the longest lease among them is left."""
    if not all(message.held_until_s for message in held):
        return PATIENCE_S
    left_s = max(message.held_until_s for message in held) - time.monotonic()
    return min(PATIENCE_S, max(0.0, left_s))


def _done(_: Any) -> None:
    """The result of an entry that was answered OK."""
