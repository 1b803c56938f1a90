"""A consumer that keeps its place, goes on there after it ended, and looks back by time.

python examples/replay.py [ENDPOINT]
"""

import asyncio
import sys
from datetime import UTC, datetime

from popmq import Client, PullConsumer, Start

ENDPOINT = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8081"


async def read(consumer: PullConsumer) -> list[str]:
    """What is there now; its offsets are committed by the consumer."""
    found = []
    while messages := await consumer.poll(wait_s=0.5):
        for message in messages:
            found.append(message.body.decode())
            consumer.done(message)
    return sorted(found)


async def main() -> None:
    async with Client(ENDPOINT) as client:
        for number in range(3):
            await client.send("entries", f"entry {number}".encode())
        await asyncio.sleep(0.05)
        noon = datetime.now(UTC)
        await asyncio.sleep(0.05)
        async with PullConsumer(ENDPOINT, "entries", "archive", start=Start.FIRST) as consumer:
            print("first", *await read(consumer))
        await client.send("entries", b"entry 3")
        async with PullConsumer(ENDPOINT, "entries", "archive") as consumer:
            print("goes on", *await read(consumer))
            await consumer.seek_to(noon)
            print("since noon", *await read(consumer))
            await consumer.seek_to(Start.FIRST)
            print("from the start", *await read(consumer))


asyncio.run(main())
