"""The access lock shown: the same coming and going of consumers without it and with it.

    python -m lock_demo [SECONDS [MESSAGES]]

Eight queues are pulled by a group whose consumers join and leave (cleanly) every two seconds. Each
handles its batches slowly and commits once a second. When a queue changes hands, what its old owner
is still handling is pulled again by the new one: a duplicate. With the lock there is none.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from harness.processes import standalone

from popmq import Client, Message, PullConsumer, Start
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc

TOPIC, QUEUES = "lock-demo", 8
CONSUMERS_MIN, CONSUMERS_MAX = 3, 6
TURNOVER_S = 2.0
BATCH, HANDLE_S = 32, 0.1
HOLD_S = 30.0
BODY = b"x" * 100


@dataclass
class Book:
    """Who was handed what."""

    wanted: int
    handled: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    moves: int = 0

    @property
    def duplicates(self) -> int:
        return sum(self.handled.values()) - len(self.handled)


async def consume(endpoint: str, group: str, book: Book, stop: asyncio.Event) -> None:
    async with PullConsumer(
        endpoint, TOPIC, group, start=Start.FIRST, commit_s=1.0, balance_s=1.0
    ) as consumer:
        while not stop.is_set():
            messages = await consumer.poll(max_messages=BATCH, wait_s=0.5)
            if messages:
                await asyncio.sleep(HANDLE_S)
            for message in messages:
                book.handled[message.broker, message.queue_id, message.queue_offset] += 1
                consumer.done(message)


async def come_and_go(endpoint: str, group: str, book: Book, seconds: float) -> None:
    """Until everything was handled, or the time is over."""
    rng = random.Random(group)
    running: dict[asyncio.Task[None], asyncio.Event] = {}

    def start() -> None:
        stop = asyncio.Event()
        running[asyncio.create_task(consume(endpoint, group, book, stop))] = stop

    for _ in range(CONSUMERS_MIN):
        start()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and len(book.handled) < book.wanted:
        await asyncio.sleep(TURNOVER_S)
        if len(running) < CONSUMERS_MAX and (len(running) == CONSUMERS_MIN or rng.random() < 0.5):
            start()
        else:
            leaving = rng.choice(list(running))
            running.pop(leaving).set()
            await leaving
        book.moves += 1
        percent = 100 * len(book.handled) / book.wanted
        print(f"\r{group}: {percent:3.0f} %, {book.duplicates} twice ", end="", file=sys.stderr)
    for task, stop in running.items():
        stop.set()
        await task
    print(file=sys.stderr)


async def fill(endpoint: str, count: int) -> None:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        stub = admin_grpc.AdminStub(channel)
        topic = admin.Topic(name=TOPIC, queues=QUEUES, message_type="NORMAL")
        await stub.CreateTopic(admin.CreateTopicRequest(topic=topic))
        for group, hold_s in (("without-lock", 0.0), ("with-lock", HOLD_S)):
            wanted = admin.Group(name=group, consume_from="FIRST", lock_hold_ms=int(hold_s * 1000))
            await stub.CreateGroup(admin.CreateGroupRequest(group=wanted))
    async with Client(endpoint) as client:
        for first in range(0, count, BATCH):
            some = min(BATCH, count - first)
            await client.send_many(TOPIC, [Message(body=BODY)] * some)


async def demonstrate(endpoint: str, seconds: float, count: int) -> int:
    await fill(endpoint, count)
    print("| group | messages handled | handed out twice | consumers came or went |")
    print("| --- | ---: | ---: | ---: |")
    found = {}
    for group in ("without-lock", "with-lock"):
        book = found[group] = Book(count)
        await come_and_go(endpoint, group, book, seconds)
        print(f"| {group} | {len(book.handled):,} | {book.duplicates:,} | {book.moves} |")
    shown = found["without-lock"].duplicates > 0 and found["with-lock"].duplicates == 0
    complete = all(len(book.handled) == count for book in found.values())
    if not complete:
        print("Not all messages were handled in time.", file=sys.stderr)
    return 0 if shown and complete else 1


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 240.0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    with tempfile.TemporaryDirectory() as folder, standalone(Path(folder)) as server:
        return asyncio.run(demonstrate(server.endpoint, seconds, count))


if __name__ == "__main__":
    sys.exit(main())
