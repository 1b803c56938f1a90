"""python -m sdk_compare.probe_popmq WHAT ENDPOINT TOPIC GROUP COUNT: the same with our SDK."""

import asyncio
import sys
import time

from popmq import App, Client, PopMQClientError, ReceivedMessage
from sdk_compare.probing import HANDLING_S, PAUSE_S, say, size


async def consumers(endpoint: str, topic: str, group: str, count: int) -> None:
    """Each waits for messages, on one connection."""
    async with Client(endpoint) as client:
        kept = [client.consumer(topic, f"{group}-{i}") for i in range(count)]
        waiting = [asyncio.create_task(consumer.receive()) for consumer in kept]
        await asyncio.sleep(1 + count / 50)
        say("size", *size())
        await asyncio.to_thread(sys.stdin.read)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def handle(endpoint: str, topic: str, group: str, count: int) -> None:
    app = App(endpoint)

    @app.handler(topic, group, concurrency=count)
    async def slow(message: ReceivedMessage) -> None:
        say("begun", message.body.decode(), message.delivery_attempt)
        await asyncio.sleep(HANDLING_S)
        say("ended", message.body.decode(), message.delivery_attempt)

    await app.run()


async def send(endpoint: str, topic: str, group: str, count: int) -> None:
    async with Client(endpoint) as client:
        producer = client.producer()
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        while not ended.done():
            began_s = time.monotonic()
            try:
                await producer.send(topic, b"x")
                say("sent", time.monotonic() - began_s)
            except PopMQClientError as failed:
                say("failed", time.monotonic() - began_s, type(failed).__name__)
            await asyncio.sleep(PAUSE_S)


if __name__ == "__main__":
    _, what, where, topic, group, count = sys.argv
    work = {"consumers": consumers, "handle": handle, "send": send}[what]
    asyncio.run(work(where, topic, group, int(count)))
