"""The SDK's part of a message: one client process before a standalone in another one.

Only the client's CPU time counts, gRPC's threads included, so the machine may do other things.
The standalone is the same for every source tree that is compared.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from micro.instructions import mark
from popmq import App, Client, Message, ReceivedMessage
from sdk_compare.server import new_group, standalone

TOPIC, GROUP = "micro", "micro-readers"
BODY = bytes(1024)
IN_FLIGHT = 512
CONCURRENCY = 256
Work = Callable[[Client, int], Coroutine[Any, Any, float]]
"""So many messages; the CPU time that counts, in seconds."""


class Sdk:
    def __init__(self, client: Client, work: Work) -> None:
        self._client, self._work = client, work

    async def round(self, count: int) -> float:
        return await self._work(self._client, count) / count * 1e6


class CpuSpent:
    cpu_s = 0.0


@contextmanager
def measured() -> Iterator[CpuSpent]:
    """The CPU time of what happens meanwhile; its bytecodes can be counted too, but for threads."""
    spent = CpuSpent()
    mark()
    began_s = time.process_time()
    yield spent
    spent.cpu_s = time.process_time() - began_s
    mark()


async def fill(client: Client, count: int) -> None:
    await client.producer().send_many(TOPIC, [Message(body=BODY)] * count)


async def send(client: Client, count: int) -> float:
    """One message a call, many calls at a time."""
    producer = client.producer()
    left = count

    async def some() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await producer.send(TOPIC, BODY)

    with measured() as spent:
        await asyncio.gather(*(some() for _ in range(IN_FLIGHT)))
    return spent.cpu_s


async def send_many(client: Client, count: int) -> float:
    with measured() as spent:
        await fill(client, count)
    return spent.cpu_s


async def handle(client: Client, count: int) -> float:
    """Received, given to a handler that does nothing, and acked."""
    await fill(client, count)
    app, handled = App(client), 0

    @app.handler(TOPIC, GROUP, concurrency=CONCURRENCY)
    async def one(message: ReceivedMessage) -> None:
        nonlocal handled
        handled += 1
        if handled == count:
            app.stop()

    with measured() as spent:
        await app.run(signals=False)
    return spent.cpu_s


async def receive_and_ack(client: Client, count: int) -> float:
    """The same by calls: each message is acked by a call of its own."""
    await fill(client, count)
    with measured() as spent:
        async with client.consumer(TOPIC, GROUP, held_max=CONCURRENCY) as consumer:
            left = count
            while left:
                found = await consumer.receive(CONCURRENCY)
                await asyncio.gather(*(message.ack() for message in found))
                left -= len(found)
    return spent.cpu_s


@asynccontextmanager
async def connected(folder: Path, work: Work) -> AsyncIterator[Sdk]:
    with standalone(folder) as endpoint:
        new_group(endpoint, GROUP)
        async with Client(endpoint) as client:
            yield Sdk(client, work)
