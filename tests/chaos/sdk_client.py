"""Load of our SDK: python -m chaos.sdk_client ENDPOINTS TOPIC FIFO_TOPIC GROUP FIFO_GROUP FILE.

Sends until its input says so (a line), and receives until that ends.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from chaos.load import (
    FIFO_GAP_S,
    FIFO_LINES,
    GAP_S,
    INVISIBLE_S,
    PAUSE_S,
    POLL_S,
    RECEIVE_MAX,
)
from popmq import Client, PopMQClientError

Call = Callable[[], Awaitable[Any]]


class Load:
    def __init__(self, arguments: list[str]) -> None:
        self.endpoints, self.topic, self.fifo_topic, self.group, self.fifo_group, file = arguments
        self.out = open(file, "a", buffering=1)  # noqa: SIM115 - as long as the process
        self.draining = asyncio.Event()
        self.done = asyncio.Event()

    def note(self, what: str, began_s: float, body: str, attempt: int = 0, error: str = "") -> None:
        event = {"what": what, "began_s": began_s, "ended_s": time.time(), "body": body}
        self.out.write(json.dumps({**event, "attempt": attempt, "error": error}) + "\n")

    async def call(self, what: str, body: str, call: Call) -> bool:
        began_s = time.time()
        try:
            await call()
        except PopMQClientError as failed:
            self.note(what, began_s, body, error=repr(failed)[:300])
            return False
        self.note(what, began_s, body)
        return True

    async def send(self, client: Client) -> None:
        producer = client.producer()
        number = 0
        while not self.draining.is_set():
            body = f"sdk/n0/{number}"
            number += 1
            await self.call("send", body, partial(producer.send, self.topic, body.encode()))
            await asyncio.sleep(GAP_S)

    async def send_in_order(self, client: Client, line: int) -> None:
        producer = client.producer()
        number = 0
        while not self.draining.is_set():
            body = f"sdk/f{line}/{number}"
            send = partial(
                producer.send, self.fifo_topic, body.encode(), message_group=f"sdk-{line}"
            )
            if await self.call("send", body, send):
                number += 1
            await asyncio.sleep(FIFO_GAP_S)

    async def receive(self, client: Client, topic: str, group: str) -> None:
        while not self.done.is_set():
            began_s = time.time()
            try:
                messages = await client.receive(
                    topic,
                    group,
                    max_messages=RECEIVE_MAX,
                    invisible_s=INVISIBLE_S,
                    wait_s=POLL_S,
                )
            except PopMQClientError as failed:
                self.note("receive", began_s, "", error=repr(failed)[:300])
                await asyncio.sleep(PAUSE_S)
                continue
            for message in messages:
                self.note("receive", began_s, message.body.decode(), message.delivery_attempt)
            acks = [(message.body.decode(), partial(client.ack, message)) for message in messages]
            # beside each other: what lies at a broker that is away holds up no other one's
            await asyncio.gather(*(self.call("ack", body, ack) for body, ack in acks))

    async def listen(self) -> None:
        await asyncio.to_thread(sys.stdin.readline)
        self.draining.set()
        await asyncio.to_thread(sys.stdin.read)
        self.done.set()

    async def run(self) -> None:
        async with Client(self.endpoints, counts=True) as client, asyncio.TaskGroup() as tasks:
            tasks.create_task(self.listen())
            tasks.create_task(self.send(client))
            for line in range(FIFO_LINES):
                tasks.create_task(self.send_in_order(client, line))
            tasks.create_task(self.receive(client, self.topic, self.group))
            for _ in range(2):
                tasks.create_task(self.receive(client, self.fifo_topic, self.fifo_group))


async def main() -> None:
    await Load(sys.argv[1:]).run()


if __name__ == "__main__":
    asyncio.run(main())
