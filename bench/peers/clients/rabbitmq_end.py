"""aio-pika: a queue, publisher confirms, and a consumer with a prefetch."""

import asyncio
from collections.abc import Sequence
from typing import Any

import aio_pika

from peers.clients.end import PREFETCH, Take


class RabbitmqEnd:
    def __init__(self, port: int, kind: str) -> None:
        self._url = f"amqp://guest:guest@127.0.0.1:{port}/"
        self._arguments = {"x-queue-type": "classic" if kind.endswith("classic") else "quorum"}
        self._connection: Any = None
        self._sending: Any = None
        self._receiving: Any = None
        self._place = ""

    async def _connect(self) -> None:
        if self._connection is None:
            self._connection = await aio_pika.connect(self._url)
            self._sending = await self._connection.channel(publisher_confirms=True)
            self._receiving = await self._connection.channel()
            await self._receiving.set_qos(prefetch_count=PREFETCH)

    async def create(self, place: str) -> None:
        await self._connect()
        await self._sending.declare_queue(place, durable=True, arguments=self._arguments)

    async def open(self, place: str) -> None:
        await self._connect()
        self._place = place

    async def send(self, body: bytes) -> None:
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await self._sending.default_exchange.publish(message, self._place)

    async def send_many(self, bodies: Sequence[bytes]) -> None:
        raise NotImplementedError("AMQP has no call for several messages")

    async def receive(self, take: Take, over: asyncio.Event, *, steady: bool) -> None:
        queue = await self._receiving.get_queue(self._place, ensure=False)

        async def handle(message: Any) -> None:
            take(message.body)
            await message.ack()

        tag = await queue.consume(handle)
        await over.wait()
        await queue.cancel(tag)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
