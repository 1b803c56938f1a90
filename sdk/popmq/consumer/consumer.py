"""The consumer: messages one by one, held until they are settled.

consumer = client.consumer("orders", "billing")
async for message in consumer:
    await work(message.body)
    await message.ack()

A lease is renewed until its message is settled, for `lease_longest_s` at most. No more than
`held_max` messages are held: with all of them unsettled, nothing more is received. Nothing is
fetched ahead of what may be held.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Self, TypedDict

from popmq.connection.pause import RECEIVE_BACKOFF, pause
from popmq.consumer.lease import Leases
from popmq.consumer.receiving import Receiving, Wanted
from popmq.consumer.settling import Settling
from popmq.errors import ClientClosed, PopMQClientError
from popmq.log_fields import fields, level_of
from popmq.message import ReceivedMessage

log = logging.getLogger(__name__)
BATCH_MAX: Final = 256
"""What a server gives in one receive, at most."""


class ConsumerOptions(TypedDict, total=False):
    """What `Client.consumer` hands on to `Consumer`, where each is explained."""

    filter: str
    sql: str
    lease_s: float
    lease_longest_s: float
    held_max: int
    wait_s: float


class Consumer:
    """Made by `Client.consumer`; several may serve one group."""

    def __init__(
        self,
        receiving: Receiving,
        settling: Settling,
        leases: Leases,
        topic: str,
        group: str,
        *,
        filter: str = "*",
        sql: str = "",
        lease_s: float = 30.0,
        lease_longest_s: float = 600.0,
        held_max: int = 16,
        wait_s: float = 20.0,
    ) -> None:
        """`filter`: a tag, `a||b`, or `*`; `sql`: an expression over tag and properties, instead.
        `lease_s`: after a crash of this process its messages are redelivered within so long.
        `wait_s`: how long a receive waits for a message."""
        self._receiving, self._settling, self._leases = receiving, settling, leases
        self._wanted = Wanted(topic=topic, group=group, filter=filter, sql=sql, invisible_s=lease_s)
        self._longest_s = lease_longest_s
        self._held_max = held_max
        self._wait_s = wait_s
        self._held: dict[int, ReceivedMessage] = {}
        self._ready: deque[ReceivedMessage] = deque()
        self._settled = asyncio.Event()
        self._receives: set[asyncio.Task[list[ReceivedMessage]]] = set()
        self._asked_for = 0
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    @property
    def held(self) -> int:
        """Messages received and not settled."""
        return len(self._held)

    async def receive(
        self, max_messages: int = 16, wait_s: float | None = None
    ) -> list[ReceivedMessage]:
        """Up to `max_messages`; an empty list when none came in time. Waits first until fewer than
        `held_max` are held. Raises the errors of `popmq.errors`."""
        while (free := self._held_max - len(self._held) - self._asked_for) <= 0:
            self._open()
            self._settled.clear()
            await self._settled.wait()
        self._open()
        wanted = min(max_messages, free, BATCH_MAX)
        self._asked_for += wanted
        receiving = asyncio.create_task(
            self._receiving.receive(
                self._wanted, wanted, self._wait_s if wait_s is None else wait_s, self
            )
        )
        self._receives.add(receiving)
        try:
            found = await receiving
        except asyncio.CancelledError:
            if self._closed and receiving.cancelled():
                raise ClientClosed("the consumer was closed") from None
            if receiving.done() and not receiving.cancelled() and not receiving.exception():
                self._receiving.dropped(receiving.result())  # they came in the same moment
            raise
        finally:
            receiving.cancel()
            self._receives.discard(receiving)
            self._asked_for -= wanted
            self._settled.set()
        for message in found:
            self._held[id(message)] = message
        self._leases.hold(found, self._wanted.invisible_s, self._longest_s, self._let_go)
        return found

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """For ever, through failures that may pass; the others are raised. Ends with `close`."""
        failures = 0
        while not self._closed:
            while self._ready:
                yield self._ready.popleft()
            try:
                self._ready.extend(await self.receive(BATCH_MAX))
                failures = 0
            except ClientClosed:
                return
            except PopMQClientError as failed:
                if not failed.retriable:
                    raise
                level = logging.DEBUG if failures else level_of(failed)
                failures += 1
                topic, group = self._wanted.topic, self._wanted.group
                more = fields(None, failed, topic=topic, group=group)
                log.log(level, "%s: %s", topic, failed, extra=more)
                await pause(failures, RECEIVE_BACKOFF)

    async def ack(self, message: ReceivedMessage) -> None:
        """Done with it. Shares a request with other acks."""
        try:
            await self._settling.ack(message)
        finally:
            self._let_go(message)

    async def nack(
        self,
        message: ReceivedMessage,
        delay_s: float | None = None,
        reason: str = "",
        *,
        counted: bool = True,
    ) -> None:
        """It is redelivered after `delay_s`, by default as the group's retry policy says."""
        try:
            await self._settling.nack(message, delay_s, reason, counted=counted)
        finally:
            self._let_go(message)

    async def reject(self, message: ReceivedMessage, reason: str) -> None:
        """To the dead letters of its group at once."""
        try:
            await self._settling.reject(message, reason)
        finally:
            self._let_go(message)

    async def extend(self, message: ReceivedMessage, seconds: float) -> None:
        """Its lease is `seconds` long from now, and is renewed for so long each time."""
        await self._settling.extend(message, seconds)
        if seconds <= 0:
            self._let_go(message)

    async def close(self) -> None:
        """What is held goes back at once, not counted."""
        self._closed = True
        self._settled.set()
        for receiving in self._receives:
            receiving.cancel()
        await asyncio.gather(*self._receives, return_exceptions=True)
        held = list(self._held.values())
        given_back = [self._settling.nack(message, 0, counted=False, reason="") for message in held]
        results = await asyncio.gather(*given_back, return_exceptions=True)
        for message, failed in zip(held, results, strict=True):
            if isinstance(failed, Exception):
                text = "message %s is redelivered when its lease ends: %s"
                log.info(text, message.message_id, failed, extra=fields(message, failed))
        self._held.clear()
        self._ready.clear()

    def _open(self) -> None:
        if self._closed:
            raise ClientClosed("the consumer is closed")

    def _let_go(self, message: ReceivedMessage) -> None:
        self._held.pop(id(message), None)
        self._settled.set()
