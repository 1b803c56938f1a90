"""PopMQ's SDK: a producer, and an App's handler."""

import asyncio
from collections.abc import Sequence

from peers.clients.end import GROUP, PREFETCH, Take
from popmq import App, Client, Message, ReceivedMessage


class PopmqEnd:
    def __init__(self, port: int, kind: str) -> None:
        self._client = Client(f"127.0.0.1:{port}")
        self._producer = self._client.producer()
        self._place = ""

    async def create(self, place: str) -> None:
        await self._client.admin.ensure_topic(place)
        await self._client.admin.ensure_group(f"{GROUP}-{place}", start="first")

    async def open(self, place: str) -> None:
        self._place = place

    async def send(self, body: bytes) -> None:
        await self._producer.send(self._place, body)

    async def send_many(self, bodies: Sequence[bytes]) -> None:
        await self._producer.send_many(self._place, [Message(body=body) for body in bodies])

    async def receive(self, take: Take, over: asyncio.Event, *, steady: bool) -> None:
        app = App(self._client)

        @app.handler(self._place, f"{GROUP}-{self._place}", concurrency=PREFETCH)
        async def handle(message: ReceivedMessage) -> None:
            take(message.body)

        async with asyncio.TaskGroup() as both:
            both.create_task(app.run(signals=False))
            await over.wait()
            app.stop()

    async def close(self) -> None:
        await self._client.close()
