"""Clients of the crash campaign: they send, receive, and settle in every way there is.

Told keeps the book; a kind of call belongs into `_KINDS` or `_settle`, and what it promises there.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from crash.told import Told

from popmq import Client, PopMQClientError, ReceivedMessage, RefusedByServer, Resolution

TOPIC, GROUP = "load", "load-group"
PAUSE_S = 0.05
"""After a call that failed."""
GAP_S = 0.02
"""Between two sends of a sender, at most."""
CALL_S = 10.0
"""Longer than a proxy waits for a broker, so no call is tried twice behind our back."""
WAITING_MAX = 600
"""Owed messages at which senders wait for receivers."""
INVISIBLE_S = (2.0, 5.5)
"""With pop_buffer=memory only the longer one is taken, for the other one is written at once."""
HIDDEN_S = 3.0
SETTLED = ((0.75, 0.08, 0.08), (0.88, 0.01, 0.01))
"""The shares that are acked, changed and nacked; the rest is let go of, and is redelivered. The
second row is for pop_buffer=memory, where a change or a nack writes all that is in memory of its
queue."""
DELAYS_S = (0.15, 0.5, 1.0, 2.0, 5.0)
HOLD_S = 4.0

Kind = Callable[["Sender", str], Awaitable[None]]


class Sender:
    def __init__(
        self, client: Client, told: Told, rng: random.Random, tasks: asyncio.TaskGroup
    ) -> None:
        self.client = client
        self.told = told
        self.rng = rng
        self.tasks = tasks

    async def send(self, body: str) -> None:
        self.told.sending(body)
        await self.client.send(TOPIC, body.encode())
        self.told.sent(body, time.monotonic())

    async def delay(self, body: str) -> None:
        """Every third is recalled: at once, in time, at the last moment, or too late."""
        delay_s = self.rng.choice(DELAYS_S) * self.rng.uniform(0.9, 1.1)
        due, due_ms = time.monotonic() + delay_s, wall_ms() + round(delay_s * 1000)
        self.told.delaying(body, due_ms)
        at = datetime.fromtimestamp(due_ms / 1000, UTC)
        receipt = await self.client.send(TOPIC, body.encode(), deliver_at=at)
        self.told.delayed(body, due)
        if receipt.recall_handle and self.rng.random() < 0.33:
            after_s = self.rng.choice((0.0, self.rng.random(), 1.0)) * (due - time.monotonic())
            self.tasks.create_task(self._recall(body, receipt.recall_handle, after_s))

    async def _recall(self, body: str, handle: str, after_s: float) -> None:
        await asyncio.sleep(max(0.0, after_s))
        self.told.recalling(body)
        try:
            await self.client.recall(TOPIC, handle)
        except RefusedByServer as refused:
            self.told.recall_refused(body, refused.code, time.monotonic(), wall_ms())
        except PopMQClientError:
            self.told.failures += 1
        else:
            self.told.recalled(body)

    async def transact(self, body: str) -> None:
        """A third is left to the check; some are known only seconds later."""
        left = self.rng.random() < 0.33
        hold_s = self.rng.random() * HOLD_S if left and self.rng.random() < 0.3 else 0.0
        held_until = time.monotonic() + hold_s
        self.told.deciding(body, commit=self.rng.random() < 0.6, held_until=held_until)
        half = await self.client.transactions.send(TOPIC, body.encode())
        self.told.half(body, time.monotonic())
        if left:
            return
        self.told.settling(body)
        try:
            await (half.commit() if self.told.commits(body) else half.rollback())
        except RefusedByServer as refused:
            self.told.settle_refused(body, refused.code)
        else:
            self.told.settled(body, time.monotonic())


_KINDS: tuple[tuple[Kind, int], ...] = (
    (Sender.send, 50),
    (Sender.delay, 25),
    (Sender.transact, 25),
)
"""What is sent, and how often of a hundred."""


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


async def send(
    endpoint: str, told: Told, number: int, rng: random.Random, stop: asyncio.Event
) -> None:
    """One sender, until `stop`; it answers questions about transactions until it is cancelled."""
    kinds, weights = zip(*_KINDS, strict=True)
    async with (
        Client(endpoint, send_attempts=1, request_timeout_s=CALL_S) as client,
        asyncio.TaskGroup() as tasks,
    ):

        async def outcome(message: ReceivedMessage) -> Resolution:
            commit = told.asked(message.body.decode(), time.monotonic())
            if commit is None:
                return Resolution.UNKNOWN
            return Resolution.COMMIT if commit else Resolution.ROLLBACK

        await client.transactions.answer(TOPIC, outcome)
        sender, count = Sender(client, told, rng, tasks), 0
        while not stop.is_set():
            await asyncio.sleep(rng.random() * GAP_S)
            if len(told.waiting) > WAITING_MAX:
                continue
            (kind,) = rng.choices(kinds, weights)
            try:
                await kind(sender, f"{number}-{count}")
            except PopMQClientError:  # unknown outcome: it may come, it need not
                told.failures += 1
                await asyncio.sleep(PAUSE_S)
            count += 1
        await asyncio.Event().wait()


async def receive(endpoint: str, told: Told, rng: random.Random) -> None:
    """One receiver, until it is cancelled."""
    async with Client(endpoint, request_timeout_s=CALL_S) as client:
        while True:
            invisible_s = INVISIBLE_S[1] if told.in_memory else rng.choice(INVISIBLE_S)
            invoked = time.monotonic()
            try:
                messages = await client.receive(
                    TOPIC, GROUP, max_messages=8, invisible_s=invisible_s, wait_s=1.0
                )
            except PopMQClientError:
                told.failures += 1
                await asyncio.sleep(PAUSE_S)
                continue
            answered, now_ms = time.monotonic(), wall_ms()
            for message in messages:
                told.delivered(message.body.decode(), invoked, answered, now_ms)
            await asyncio.gather(*(_settle(client, told, message, rng) for message in messages))


async def _settle(client: Client, told: Told, message: ReceivedMessage, rng: random.Random) -> None:
    body, what, began = message.body.decode(), rng.random(), time.monotonic()
    acked, changed, nacked = SETTLED[told.in_memory]
    if what < acked:
        await _ack(client, told, message)
        return
    try:
        if what < acked + changed:
            await client.change_invisible(message, HIDDEN_S)
            told.hidden("changed", body, began + HIDDEN_S)
        elif what < acked + changed + nacked:
            await client.nack(message, HIDDEN_S, "later", counted=rng.random() < 0.5)
            told.hidden("nacked", body, began + HIDDEN_S)
    except PopMQClientError:
        told.failures += 1


async def _ack(client: Client, told: Told, message: ReceivedMessage) -> None:
    body, began = message.body.decode(), time.monotonic()
    try:
        await client.ack(message)
    except RefusedByServer as refused:
        told.not_acked(body, refused.code)
    except PopMQClientError:
        told.not_acked(body, None)
    else:
        told.acked(body, began, time.monotonic())
