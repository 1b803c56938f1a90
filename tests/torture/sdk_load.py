"""Load of our SDK: python -m torture.sdk_load ENDPOINTS TOPICS FILE.

`TOPICS`: the name that its topics and groups begin with; see load.py. Sends until its input says so
(a line), and receives until that ends. Each call is tried once: what the answer says is all that is
known.
"""

import asyncio
import itertools
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from popmq import Client, PopMQClientError, ReceivedMessage, Resolution, SendReceipt
from popmq_common.records.receipt import decode
from torture import load

T = TypeVar("T")


def place(message: ReceivedMessage) -> str:
    """Broker and queue. Of the broker the handle tells: `broker` is the one that was asked, and a
    receive gives what another one of the topic has, too."""
    receipt = decode(message.receipt_handle)
    return f"{receipt.broker}/{receipt.queue_id}"


class Book:
    """What was told, one line each; see history.py."""

    def __init__(self, file: str) -> None:
        self._out = open(file, "a", buffering=1)  # noqa: SIM115 - as long as the process

    def note(self, name: str, began_s: float, body: str, **fields: Any) -> None:
        call = {"what": name, "began_s": began_s, "ended_s": time.time(), "body": body, **fields}
        self._out.write(json.dumps(call) + "\n")

    async def call(
        self, name: str, body: str, ask: Callable[[], Awaitable[T]], **fields: Any
    ) -> T | None:
        """None: it failed, or has no answer."""
        began_s = time.time()
        try:
            answer = await ask()
        except PopMQClientError as failed:
            self.note(name, began_s, body, error=repr(failed)[:300], **fields)
            return None
        if isinstance(answer, SendReceipt):
            fields.update(message_id=answer.message_id, queue_offset=answer.queue_offset)
        self.note(name, began_s, body, **fields)
        return answer


class Load:
    def __init__(self, endpoints: str, topics: str, file: str) -> None:
        self.endpoints = endpoints
        self.topics = topics
        self.book = Book(file)
        self.draining = asyncio.Event()
        self.done = asyncio.Event()
        self.rng = random.Random()
        self.decided: dict[str, bool] = {}
        """Transaction → it is to be committed."""

    def topic(self, name: str) -> str:
        return load.topic(self.topics, name)

    # --- sends ---

    async def send(self, client: Client, line: int) -> None:
        topic = self.topic("normal")
        for number in itertools.count():
            if self.draining.is_set():
                return
            body = f"sdk/n{line}/{number}"
            await self.book.call("send", body, partial(client.send, topic, body.encode()))
            await asyncio.sleep(load.GAP_S)

    async def send_in_order(self, client: Client, line: int) -> None:
        """The next one only when the one before was answered OK."""
        topic, number = self.topic("fifo"), 0
        while not self.draining.is_set():
            body, group = f"sdk/f{line}/{number}", f"sdk-{line}"
            send = partial(client.send, topic, body.encode(), message_group=group)
            if await self.book.call("send", body, send):
                number += 1
            await asyncio.sleep(load.FIFO_GAP_S)

    async def delay(self, client: Client) -> None:
        topic = self.topic("delay")
        for number in itertools.count():
            if self.draining.is_set():
                return
            due_s = time.time() + self.rng.uniform(*load.DELAYS_S)
            at, body = datetime.fromtimestamp(due_s, UTC), f"sdk/d0/{number}"
            send = partial(client.send, topic, body.encode(), deliver_at=at)
            await self.book.call("send", body, send, until_s=due_s)
            await asyncio.sleep(load.DELAY_GAP_S)

    async def transact(self, client: Client) -> None:
        """A third is left to the check."""
        topic = self.topic("transaction")
        for number in itertools.count():
            if self.draining.is_set():
                return
            body, commit = f"sdk/t0/{number}", self.rng.random() < load.COMMITTED
            self.decided[body] = commit
            begin = partial(client.transactions.send, topic, body.encode())
            half = await self.book.call("half", body, begin, commit=commit)
            if half is not None and self.rng.random() > load.LEFT_TO_CHECK:
                settle = half.commit if commit else half.rollback
                await self.book.call("settle", body, settle, commit=commit)
            await asyncio.sleep(load.TRANSACTION_GAP_S)

    async def outcome(self, message: ReceivedMessage) -> Resolution:
        body = message.body.decode()
        commit = self.decided.get(body)
        self.book.note("asked", time.time(), body, commit=commit)
        if commit is None:
            return Resolution.UNKNOWN
        return Resolution.COMMIT if commit else Resolution.ROLLBACK

    async def probe(self, client: Client, line: int) -> None:
        """At a fixed rate, whatever becomes of those before."""
        topic, group = self.topic("probe"), f"probe-{line}"
        async with asyncio.TaskGroup() as under_way:
            open_ones = asyncio.Semaphore(load.PROBES_MAX)
            for number in itertools.count():
                if self.draining.is_set():
                    return
                await open_ones.acquire()
                body = f"sdk/p{line}/{number}"
                send = partial(client.send, topic, body.encode(), message_group=group)
                task = under_way.create_task(self.book.call("send", body, send))
                task.add_done_callback(lambda _: open_ones.release())
                await asyncio.sleep(load.PROBE_GAP_S)

    # --- receives ---

    async def receive(self, client: Client, name: str) -> None:
        topic = group = self.topic(name)
        while not self.done.is_set():
            began_s = time.time()
            try:
                messages = await client.receive(
                    topic,
                    group,
                    max_messages=load.RECEIVE_MAX,
                    invisible_s=load.INVISIBLE_S,
                    wait_s=load.POLL_S,
                )
            except PopMQClientError as failed:
                self.book.note("receive", began_s, "", error=repr(failed)[:300])
                await asyncio.sleep(load.PAUSE_S)
                continue
            for one in messages:
                self.book.note(
                    "receive",
                    began_s,
                    one.body.decode(),
                    attempt=one.delivery_attempt,
                    message_id=one.message_id,
                    queue_offset=one.queue_offset,
                    place=place(one),
                )
            await asyncio.gather(*(self.settle(client, one) for one in messages))

    async def settle(self, client: Client, message: ReceivedMessage) -> None:
        """Most are acked; some are nacked; some are let go of, and come when their lease ends."""
        body, what = message.body.decode(), self.rng.random()
        if what < load.ACKED:
            await self.book.call("ack", body, partial(client.ack, message))
        elif what < load.ACKED + load.NACKED:
            until_s = time.time() + load.NACK_S
            nack = partial(client.nack, message, load.NACK_S, "later")
            await self.book.call("nack", body, nack, until_s=until_s)

    # --- all of it ---

    async def listen(self) -> None:
        await asyncio.to_thread(sys.stdin.readline)
        self.draining.set()
        await asyncio.to_thread(sys.stdin.read)
        self.done.set()

    async def run(self) -> None:
        """Probes have a client with a short timeout, so that they tell when service is back."""
        calls = {"send_attempts": 1, "request_timeout_s": load.CALL_S}
        probes = {"send_attempts": 1, "request_timeout_s": load.PROBE_S}
        async with (
            Client(self.endpoints, **calls) as client,  # type: ignore[arg-type]
            Client(self.endpoints, **probes) as probing,  # type: ignore[arg-type]
            asyncio.TaskGroup() as tasks,
        ):
            await client.transactions.answer(self.topic("transaction"), self.outcome)
            tasks.create_task(self.listen())
            for line in range(load.LINES):
                tasks.create_task(self.send(client, line))
                tasks.create_task(self.send_in_order(client, line))
            for line in range(load.PROBE_LINES):
                tasks.create_task(self.probe(probing, line))
            tasks.create_task(self.delay(client))
            tasks.create_task(self.transact(client))
            for name in load.CONSUMED:
                for _ in range(load.RECEIVERS):
                    tasks.create_task(self.receive(client, name))


async def main() -> None:
    await Load(*sys.argv[1:]).run()


if __name__ == "__main__":
    asyncio.run(main())
