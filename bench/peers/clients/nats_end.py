"""nats-py: a stream in files, and a pull consumer."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import nats
from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig

from peers.clients.end import GROUP, POLL_S, PREFETCH, Take


class NatsEnd:
    def __init__(self, port: int, kind: str) -> None:
        self._url = f"nats://127.0.0.1:{port}"
        self._connection: Any = None
        self._stream: Any = None
        self._place = ""

    async def _connect(self) -> None:
        if self._connection is None:
            self._connection = await nats.connect(self._url, allow_reconnect=False)
            self._stream = self._connection.jetstream()

    async def create(self, place: str) -> None:
        await self._connect()
        config = StreamConfig(name=place, subjects=[place], storage=StorageType.FILE)
        await self._stream.add_stream(config)
        durable = ConsumerConfig(durable_name=GROUP, ack_policy=AckPolicy.EXPLICIT)
        await self._stream.add_consumer(place, durable)

    async def open(self, place: str) -> None:
        await self._connect()
        self._place = place

    async def send(self, body: bytes) -> None:
        await self._stream.publish(self._place, body, timeout=30)

    async def send_many(self, bodies: Sequence[bytes]) -> None:
        raise NotImplementedError("the client has no call for several messages")

    async def receive(self, take: Take, over: asyncio.Event, *, steady: bool) -> None:
        """A fetch of several waits until it has all of them: in a steady stream it asks for one."""
        consumer = await self._stream.pull_subscribe_bind(GROUP, self._place)
        while not over.is_set():
            with suppress(TimeoutError):
                for message in await consumer.fetch(1 if steady else PREFETCH, timeout=POLL_S):
                    take(message.data)
                    await message.ack()
        await consumer.unsubscribe()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.drain()
