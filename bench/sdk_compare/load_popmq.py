"""python -m sdk_compare.load_popmq ENDPOINT TOPIC GROUP SECONDS: one client process of ours.

Prints what each load did as JSON.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

from popmq import App, Client, Message, ReceivedMessage, SendReceipt

BODY = bytes(1024)
IN_FLIGHT = 512
MANY = 256
CONCURRENCY = 256


def row(done: int, began: tuple[float, float]) -> dict[str, float]:
    return {
        "messages": done,
        "seconds": time.perf_counter() - began[0],
        "cpu_s": time.process_time() - began[1],
    }


def begin() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


async def send(client: Client, topic: str, seconds: float) -> dict[str, float]:
    """One message a call, many calls at a time."""
    producer = client.producer()

    async def one() -> int:
        await producer.send(topic, BODY)
        return 1

    return await _for(seconds, [one] * IN_FLIGHT)


async def send_many(client: Client, topic: str, seconds: float) -> dict[str, float]:
    producer = client.producer()
    messages = [Message(body=BODY)] * MANY

    async def some() -> int:
        results = await producer.send_many(topic, messages)
        return sum(isinstance(result, SendReceipt) for result in results)

    return await _for(seconds, [some] * 4)


async def _for(seconds: float, works: list[Callable[[], Awaitable[int]]]) -> dict[str, float]:
    began = begin()
    end = began[0] + seconds

    async def repeat(work: Callable[[], Awaitable[int]]) -> int:
        done = 0
        while time.perf_counter() < end:
            done += await work()
        return done

    return row(sum(await asyncio.gather(*(repeat(work) for work in works))), began)


async def receive(endpoint: str, topic: str, group: str, seconds: float) -> dict[str, float]:
    """A handler that does nothing: received, and acked."""
    app = App(endpoint)
    count, first = 0, asyncio.Event()

    @app.handler(topic, group, concurrency=CONCURRENCY)
    async def handle(message: ReceivedMessage) -> None:
        nonlocal count
        count += 1
        first.set()

    running = asyncio.create_task(app.run(signals=False))
    await first.wait()
    before, began = count, begin()
    await asyncio.sleep(seconds)
    done = row(count - before, began)
    app.stop()
    await running
    return done


async def main(endpoint: str, topic: str, group: str, seconds: float) -> None:
    async with Client(endpoint) as client:
        found = {
            "send": await send(client, topic, seconds),
            "send_many": await send_many(client, topic, seconds),
        }
    found["receive_ack"] = await receive(endpoint, topic, group, seconds)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    _, where, to, of, how_long = sys.argv
    asyncio.run(main(where, to, of, float(how_long)))
