"""Clients of the crash campaign: they send, receive, and settle in every way there is.

What a client was told of a message that is out of its hands:

    acked             it never comes again
    changed, nacked   it does not come before its time

Delayed messages and transactions belong into `send` and `settle` as kinds of their own.
"""

import asyncio
import random
import time
from dataclasses import dataclass, field

from crash.record import Record

from popmq import Client, PopMQClientError, ReceivedMessage

TOPIC, GROUP = "load", "load-group"
PAUSE_S = 0.02  # after a call that failed
INVISIBLE_S = 2.0
HIDDEN_S = 3.0
CLOCKS_S = 0.05
"""The broker's wall clock and our monotonic one may differ that much over `HIDDEN_S`."""


@dataclass
class Told:
    """What clients know of each message, beside the record on disk."""

    record: Record
    attempted: set[str] = field(default_factory=set)
    received: set[str] = field(default_factory=set)
    acked_at: dict[str, float] = field(default_factory=dict)
    hidden_until: dict[str, float] = field(default_factory=dict)
    undone: list[str] = field(default_factory=list)
    deliveries: int = 0
    failures: int = 0
    last_delivery: float = 0.0

    def delivered(self, body: str, invoked: float, answered: float) -> None:
        """A message came in a receive that took from `invoked` to `answered`."""
        self.deliveries += 1
        self.last_delivery = answered
        self.received.add(body)
        if body not in self.attempted:
            self.undone.append(f"{body}: nobody sent it")
        if self.acked_at.get(body, invoked) < invoked:
            self.undone.append(f"{body}: came {invoked - self.acked_at[body]:.2f} s after its ack")
        early = self.hidden_until.pop(body, 0.0) - answered
        if early > CLOCKS_S:
            self.undone.append(f"{body}: came {early:.2f} s before its time")

    def check(self) -> None:
        assert not self.undone, self.undone[:10]
        lost = self.record.read()["sent"] - self.received
        assert not lost, f"lost {sorted(lost)[:10]}"

    async def until_quiet(self, quiet_s: float) -> None:
        """Until nothing has come for `quiet_s`: everything is drained."""
        for _ in range(600):
            await asyncio.sleep(1)
            if time.monotonic() - self.last_delivery > quiet_s:
                return
        raise AssertionError("after ten minutes messages still come")


async def send(endpoint: str, told: Told, number: int, stop: asyncio.Event) -> None:
    """One sender, until `stop`."""
    async with Client(endpoint, send_attempts=1) as client:
        count = 0
        while not stop.is_set():
            body = f"{number}-{count}"
            count += 1
            told.attempted.add(body)
            try:
                await client.send(TOPIC, body.encode())
            except PopMQClientError:  # unknown outcome: it may come, it need not
                told.failures += 1
                await asyncio.sleep(PAUSE_S)
            else:
                told.record.ok("sent", body)


async def receive(endpoint: str, told: Told, rng: random.Random, done: asyncio.Event) -> None:
    """One receiver, until `done`."""
    async with Client(endpoint) as client:
        while not done.is_set():
            invoked = time.monotonic()
            try:
                messages = await client.receive(
                    TOPIC, GROUP, max_messages=8, invisible_s=INVISIBLE_S, wait_s=1.0
                )
            except PopMQClientError:
                told.failures += 1
                await asyncio.sleep(PAUSE_S)
                continue
            answered = time.monotonic()
            for message in messages:
                told.delivered(message.body.decode(), invoked, answered)
            for message in messages:
                await settle(client, told, message, rng)


async def settle(client: Client, told: Told, message: ReceivedMessage, rng: random.Random) -> None:
    body = message.body.decode()
    what = rng.random()
    began = time.monotonic()
    try:
        if what < 0.75:
            await client.ack(message)
            told.record.ok("acked", body)
            told.acked_at.setdefault(body, time.monotonic())
        elif what < 0.83:
            await client.change_invisible(message, HIDDEN_S)
            told.record.ok("changed", body)
            told.hidden_until[body] = began + HIDDEN_S
        elif what < 0.91:
            counted = rng.random() < 0.5
            await client.nack(message, HIDDEN_S, "later", counted=counted)
            told.record.ok("nacked", body)
            told.hidden_until[body] = began + HIDDEN_S
    except PopMQClientError:  # else it is let go of, and comes again
        told.failures += 1
