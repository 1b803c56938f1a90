"""A process of consumers that are to be killed: each writes down what it was told, then goes on.

    python -m crash.offset_consumers ENDPOINT RECORD SEED

    WALL_MS handled GROUP BODY     it is dealt with; the commit or ack that says so comes later
    WALL_MS acked GROUP BODY       its ack was answered OK
    WALL_MS committed QUEUE N      a commit that tells the broker N, or more, was answered OK

A kill loses none of these lines: they are in the page cache when the next call is made.
"""

import asyncio
import random
import sys
from pathlib import Path

from crash.record import Record

from popmq import Client, PopMQClientError, PullConsumer, ReceivedMessage, Start

TOPIC = "load"
PULL, POP, FIFO = "pull-group", "pop-group", "fifo-group"
INVISIBLE_S = 3.0
PAUSE_S = 0.05  # after a call that failed
FORGOTTEN = 0.1
"""Of what is received so much is let go of, and is redelivered."""


async def pull(endpoint: str, record: Record, rng: random.Random) -> None:
    """Handles in any order, and commits after every few."""
    async with PullConsumer(
        endpoint, TOPIC, PULL, queues="all", start=Start.FIRST, commit_s=None
    ) as consumer:
        held: list[ReceivedMessage] = []
        while True:
            try:
                fresh = await consumer.poll(max_messages=16, wait_s=0.5)
                held += fresh
                rng.shuffle(held)
                ready = held[: rng.randrange(len(held) + 1)] if fresh else held
                held = held[len(ready) :]
                for message in ready:
                    record.write("handled", f"{PULL} {message.body.decode()}")
                    consumer.done(message)
                told = _smallest_not_done(consumer, held)
                await consumer.commit()
            except PopMQClientError:
                await asyncio.sleep(PAUSE_S)
                continue
            for queue_id, offset in told.items():
                record.write("committed", f"{queue_id} {offset}")


def _smallest_not_done(consumer: PullConsumer, held: list[ReceivedMessage]) -> dict[int, int]:
    """By queue; by this process's own book, not by that of the SDK."""
    found = {queue.id: offset for queue, offset in consumer.positions().items()}
    for message in held:
        found[message.queue_id] = min(found[message.queue_id], message.queue_offset)
    return found


async def pop(endpoint: str, group: str, record: Record, rng: random.Random) -> None:
    async with Client(endpoint) as client:
        while True:
            try:
                messages = await client.receive(
                    TOPIC, group, max_messages=8, invisible_s=INVISIBLE_S, wait_s=1.0
                )
            except PopMQClientError:
                await asyncio.sleep(PAUSE_S)
                continue
            for message in messages:
                if rng.random() >= FORGOTTEN:
                    await _settle(client, group, record, message)


async def _settle(client: Client, group: str, record: Record, message: ReceivedMessage) -> None:
    name = f"{group} {message.body.decode()}"
    record.write("handled", name)
    try:
        await client.ack(message)
    except PopMQClientError:  # unknown, or its time is over: it may come again
        return
    record.write("acked", name)


async def main(endpoint: str, path: str, seed: str) -> None:
    rng = random.Random(int(seed))
    record = Record(Path(path))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pull(endpoint, record, rng))
        for group in (POP, FIFO):
            tasks.create_task(pop(endpoint, group, record, rng))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
