"""Consumers that receive while their group is reset, and the book they keep.

They ack at once, ack late, nack, or let go. What was received while a reset was under way is acked
behind it, so that the answer says to which side it belongs.
"""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from campaigns.reset_book import ACKED, EXPIRED, SUPERSEDED, Book, Delivery, is_sure
from harness.queue_reader import Placed

from popmq import Client, InvalidReceiptHandle, ReceivedMessage

INVISIBLE_S = 60.0
LET_GO_S = 2.0
"""The invisible time of what is let go of."""
HELD_S = 1.5
RETRY_S = 1.0
TIMEOUT_S = 60.0  # a call that fails would leave a hole in the book
RECEIVERS = 2


@dataclass
class Duties:
    """What the consumers of a group are to do just now."""

    rng: random.Random
    acks_all: bool = False
    """No nacks, nothing let go: no retries that wait."""
    may_receive: asyncio.Event = field(default_factory=asyncio.Event)
    is_settled: asyncio.Event = field(default_factory=asyncio.Event)
    """No reset is under way."""
    letting_go: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while messages are received that will be let go of; no reset comes then."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Receivers:
    endpoint: str
    name: str
    """Of the group, and of its topic."""
    duties: Duties
    book: Book = field(default_factory=Book)
    _acked_s: dict[str, float] = field(default_factory=dict)
    """Body → when the ack was called that was answered OK last."""

    async def consume(self) -> None:
        """Until the end, and until everything that was received is settled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(RECEIVERS):
                tasks.create_task(self._receive(tasks))

    async def _receive(self, tasks: asyncio.TaskGroup) -> None:
        duties, held = self.duties, list[asyncio.Task[None]]()
        async with Client(self.endpoint, request_timeout_s=TIMEOUT_S) as client:
            while not duties.stop.is_set():
                await duties.may_receive.wait()
                if duties.rng.random() < 0.05 and not duties.acks_all:
                    async with duties.letting_go:
                        if duties.is_settled.is_set() and not duties.acks_all:
                            await self._take(client, LET_GO_S, 0.0)
                    continue
                for message, one in await self._take(client, INVISIBLE_S, 1.0):
                    held.append(tasks.create_task(self._handle(client, message, one)))
                held = [task for task in held if not task.done()]
            await asyncio.gather(*held)

    async def _take(
        self, client: Client, invisible_s: float, wait_s: float
    ) -> list[tuple[ReceivedMessage, Delivery]]:
        invoked_s = time.monotonic()
        messages = await client.receive(
            self.name, self.name, max_messages=8, invisible_s=invisible_s, wait_s=wait_s
        )
        now_s = time.monotonic()
        taken = []
        for message in messages:
            body, attempt = message.body.decode(), message.delivery_attempt
            one = Delivery(body, attempt, invoked_s, now_s, invoked_s + invisible_s)
            self.book.deliveries[body].append(one)
            taken.append((message, one))
        return taken

    async def _handle(self, client: Client, message: ReceivedMessage, one: Delivery) -> None:
        duties = self.duties
        if not duties.is_settled.is_set() or not is_sure(one, self.book.resets):
            await duties.is_settled.wait()
            await self._ack(client, message, one)
            return
        what = duties.rng.random()
        if what < 0.05 and not duties.acks_all:
            await self._nack(client, message, one)
            return
        await asyncio.sleep(HELD_S if what < 0.15 else duties.rng.uniform(0.0, 0.05))
        await self._ack(client, message, one)

    async def _ack(self, client: Client, message: ReceivedMessage, one: Delivery) -> None:
        one.settled_s = time.monotonic()
        try:
            await client.ack(message)
        except InvalidReceiptHandle as refused:
            one.outcome = SUPERSEDED if "moved elsewhere" in str(refused) else EXPIRED
            return
        one.outcome = ACKED
        self._acked_s[one.body] = one.settled_s

    async def _nack(self, client: Client, message: ReceivedMessage, one: Delivery) -> None:
        try:
            await client.nack(message, RETRY_S, "later")
        except InvalidReceiptHandle:  # its group was moved in the same moment
            one.outcome, one.settled_s = SUPERSEDED, time.monotonic()

    def left(self, placed: Mapping[int, list[Placed]], mark: Mapping[int, int]) -> int:
        """Messages before `mark` that must be acked since the last reset, and are not."""
        count = 0
        for queue_id, messages in placed.items():
            resets = [reset for reset in self.book.resets if queue_id in reset.to]
            first = resets[-1].to[queue_id] if resets else 0
            since_s = resets[-1].done_s if resets else 0.0
            count += sum(
                self._acked_s.get(one.body, -1.0) < since_s
                for one in messages[first : mark[queue_id]]
            )
        return count

    def verdict(self, placed: Mapping[int, list[Placed]]) -> list[str]:
        return self.book.judge(placed)

    def again(self, placed: Mapping[int, list[Placed]]) -> int:
        """Messages that came in more than one epoch, each time."""
        return self.book.again(placed)

    def effective_s(self, placed: Mapping[int, list[Placed]]) -> float:
        return self.book.effective_s(placed)
