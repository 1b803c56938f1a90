"""`python -m upgrade.load ENDPOINT TOPIC GROUP FILE`: sends and handles until SIGTERM, then drains.

Runs with the SDK of either version. Each line of FILE is a word and a number: what was sent, what
came, what was acked, each written after its answer; and what the SDK raised.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

from popmq import Client, ReceivedMessage
from popmq.errors import PopMQClientError

RATE: Final = 50.0
"""Messages a second."""
RECEIVERS: Final = 2
LEASE_S: Final = 120.0
"""Longer than any restart: who comes again was not acked for another reason than time."""
QUIET_S: Final = 6.0
"""Nothing came for so long after the last send: all is there."""
Note = Callable[[str, object], None]


async def send(client: Client, topic: str, note: Note, stop: asyncio.Event) -> None:
    async with client.producer() as producer:

        async def one(number: int) -> None:
            try:
                await producer.send(topic, b"%d" % number)
            except PopMQClientError as failed:
                note("send-failed", repr(failed))
            else:
                note("sent", number)

        under_way: set[asyncio.Task[None]] = set()
        number = 0
        while not stop.is_set():
            task = asyncio.create_task(one(number))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            number += 1
            await asyncio.sleep(1 / RATE)
        await asyncio.gather(*under_way)


async def handle(client: Client, topic: str, group: str, note: Note) -> None:
    """As an application without handlers does: message by message. For ever."""
    async with (
        client.consumer(topic, group, lease_s=LEASE_S, wait_s=2.0, held_max=32) as consumer,
        asyncio.TaskGroup() as settling,
    ):
        async for message in consumer:
            note("came", int(message.body))
            settling.create_task(settle(message, note))


async def settle(message: ReceivedMessage, note: Note) -> None:
    try:
        await message.ack()
    except PopMQClientError as failed:
        note("ack-failed", repr(failed))
    else:
        note("acked", int(message.body))


async def quiet(something: asyncio.Event) -> None:
    """Until nothing has come for long enough."""
    while True:
        something.clear()
        try:
            await asyncio.wait_for(something.wait(), QUIET_S)
        except TimeoutError:
            return


async def run(endpoint: str, topic: str, group: str, file: str) -> None:
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    stop, something = asyncio.Event(), asyncio.Event()

    def note(word: str, what: object) -> None:
        something.set()
        os.write(out, f"{word} {what}\n".encode())

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Client(endpoint) as client:
        handling = [
            asyncio.create_task(handle(client, topic, group, note)) for _ in range(RECEIVERS)
        ]
        await send(client, topic, note, stop)
        await quiet(something)
        for task in handling:
            if task.done():
                task.result()  # what ended it
            task.cancel()
        await asyncio.gather(*handling, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:5]))
