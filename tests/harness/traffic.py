"""Load on a cluster, and an external record of what clients were told.

A message answered OK that never came is lost; one that came in a receive invoked after its ack had
completed is undone.
"""

import asyncio
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field

from popmq import Client, PopMQClientError

TOPIC, GROUP = "load", "load-group"
PAUSE_S = 0.02  # after a call that failed


@dataclass
class Ledger:
    """What clients were told, kept outside the server."""

    sent_ok: set[str] = field(default_factory=set)
    attempted: set[str] = field(default_factory=set)
    acked_at: dict[str, float] = field(default_factory=dict)
    received: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: list[str] = field(default_factory=list)
    stored_twice: set[str] = field(default_factory=set)
    """Came twice as a first delivery. Where a send is tried again, its first try was stored as well
    and only the answer was lost: two messages, of which acks end one."""
    tries: int = 1
    """Of a send."""

    @property
    def deliveries(self) -> int:
        return sum(map(len, self.received.values()))

    def lost(self) -> set[str]:
        return self.sent_ok - self.received.keys()

    def undone(self) -> set[str]:
        found = {
            body
            for body, acked in self.acked_at.items()
            if any(invoked > acked for invoked in self.received[body])
        }
        return found - self.stored_twice if self.tries > 1 else found

    def check(self, hint: str = "") -> None:
        assert not self.received.keys() - self.attempted
        assert not self.lost(), f"{hint}: lost {sorted(self.lost())[:10]}"
        assert not self.undone(), f"{hint}: came after their ack {sorted(self.undone())[:10]}"

    async def until_quiet(self, quiet_s: float) -> None:
        """Until nothing has come for `quiet_s`, several invisible times: everything is drained."""
        for _ in range(20):
            before = self.deliveries
            await asyncio.sleep(quiet_s)
            if before == self.deliveries:
                return
        raise AssertionError(f"after {20 * quiet_s} s messages still come")


async def send(
    endpoint: str,
    ledger: Ledger,
    number: int,
    stop: asyncio.Event,
    *,
    attempts: int = 1,
    pause_s: float = 0,
) -> None:
    """One sender, until `stop`, with a pause behind each send. More than one of the `attempts` may
    leave a message twice."""
    ledger.tries = attempts
    async with Client(endpoint, send_attempts=attempts) as client:
        count = 0
        while not stop.is_set():
            body = f"{number}-{count}"
            count += 1
            ledger.attempted.add(body)
            try:
                await client.send(TOPIC, body.encode())
                ledger.sent_ok.add(body)
                await asyncio.sleep(pause_s)
            except PopMQClientError as failed:  # unknown outcome: it may come, it need not
                ledger.failures.append(repr(failed))
                await asyncio.sleep(PAUSE_S)


async def receive(
    endpoint: str,
    ledger: Ledger,
    rng: random.Random,
    done: asyncio.Event,
    *,
    invisible_s: float,
    acked: float = 0.9,
) -> None:
    """One receiver, until `done`; it acks that part of what it gets."""
    async with Client(endpoint) as client:
        while not done.is_set():
            invoked = time.monotonic()
            try:
                messages = await client.receive(
                    TOPIC, GROUP, max_messages=8, invisible_s=invisible_s, wait_s=1.0
                )
            except PopMQClientError as failed:
                ledger.failures.append(repr(failed))
                await asyncio.sleep(PAUSE_S)
                continue
            for message in messages:
                body = message.body.decode()
                if message.delivery_attempt == 1 and body in ledger.received:
                    ledger.stored_twice.add(body)
                ledger.received[body].append(invoked)
            for message in messages:
                if rng.random() >= acked:
                    continue  # let it come again
                try:
                    await client.ack(message)
                    ledger.acked_at.setdefault(message.body.decode(), time.monotonic())
                except PopMQClientError as failed:
                    ledger.failures.append(repr(failed))
