"""python -m sdk_compare.load_popmq ENDPOINT TOPIC GROUP: one client process of ours."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial

from popmq import App, Client, Message, ReceivedMessage
from sdk_compare.counting import BODY, Count

IN_FLIGHT = 512
MANY = 256
CONCURRENCY, HELD = 1_024, 256
Way = Callable[[float], Awaitable[dict[str, float]]]


async def send(client: Client, topic: str, seconds: float) -> dict[str, float]:
    """One message a call, many calls at a time."""
    producer = client.producer()
    count = Count(seconds)

    async def repeat() -> None:
        while not count.is_over:
            await producer.send(topic, BODY)
            count.messages += 1

    await asyncio.gather(*(repeat() for _ in range(IN_FLIGHT)))
    return count.done()


async def send_many(client: Client, topic: str, seconds: float) -> dict[str, float]:
    producer = client.producer()
    messages = [Message(body=BODY)] * MANY
    count = Count(seconds)

    async def repeat() -> None:
        while not count.is_over:
            count.messages += len(await producer.send_many(topic, messages))

    await asyncio.gather(*(repeat() for _ in range(4)))
    return count.done()


async def handler(client: Client, topic: str, group: str, seconds: float) -> dict[str, float]:
    """A handler that does nothing; the time goes on until the last ack is answered."""
    app = App(client)
    count = Count(seconds)

    @app.handler(topic, group, concurrency=CONCURRENCY)
    async def handle(message: ReceivedMessage) -> None:
        count.messages += 1
        count.wrong += message.body != BODY

    async with asyncio.TaskGroup() as both:
        both.create_task(app.run(signals=False))
        await asyncio.sleep(seconds)
        app.stop()
    return count.done()


async def calls(client: Client, topic: str, group: str, seconds: float) -> dict[str, float]:
    """A receive after the other, and a call that acks each message."""
    count = Count(seconds)
    async with client.consumer(topic, group, held_max=HELD) as consumer:
        while not count.is_over:
            found = await consumer.receive(HELD, wait_s=1)
            count.wrong += sum(message.body != BODY for message in found)
            await asyncio.gather(*(message.ack() for message in found))
            count.messages += len(found)
    return count.done()


async def main(endpoint: str, topic: str, group: str) -> None:
    loop = asyncio.get_running_loop()
    async with Client(endpoint) as client:
        mine: dict[str, Way] = {
            "send": partial(send, client, topic),
            "send_many": partial(send_many, client, topic),
            "receive and ack by a handler": partial(handler, client, topic, group),
            "receive and ack by calls": partial(calls, client, topic, group),
        }
        print(json.dumps(list(mine)), flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            way, seconds = json.loads(line)
            print(json.dumps(await mine[way](seconds)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
