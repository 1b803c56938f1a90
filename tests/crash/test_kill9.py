"""kill -9 of the broker under load, again and again: what was answered OK stays so.

An external record is kept of every send and every ack that was answered OK. At the end everything
is drained: a message answered OK that never came is lost; one that came in a receive invoked after
its ack had completed is undone. Both must be none.
"""

import asyncio
import os
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from harness.processes import Server, cluster

from popmq import Client, PopMQClientError

RUNS = int(os.environ.get("POPMQ_CRASH_RUNS", "20"))
SENDERS = 4
RECEIVERS = 4
INVISIBLE_S = 2.0
QUIET_S = 8.0
TOPIC, GROUP = "crash", "crash-group"
ENV = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "100", "POPMQ_BROKER_SEGMENT_BYTES": str(1 << 20)}


@dataclass
class Ledger:
    """What clients were told, kept outside the server."""

    sent_ok: set[str] = field(default_factory=set)
    attempted: set[str] = field(default_factory=set)
    acked_at: dict[str, float] = field(default_factory=dict)
    received: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed_calls: int = 0

    def lost(self) -> set[str]:
        return self.sent_ok - self.received.keys()

    def undone(self) -> set[str]:
        return {
            body
            for body, acked in self.acked_at.items()
            if any(invoked > acked for invoked in self.received[body])
        }


async def _send(server: Server, ledger: Ledger, number: int, stop: asyncio.Event) -> None:
    async with Client(server.endpoint, send_attempts=1) as client:
        count = 0
        while not stop.is_set():
            body = f"{number}-{count}"
            count += 1
            ledger.attempted.add(body)
            try:
                await client.send(TOPIC, body.encode())
                ledger.sent_ok.add(body)
            except PopMQClientError:  # unknown outcome: it may come, it need not
                ledger.failed_calls += 1
                await asyncio.sleep(0.02)


async def _receive(server: Server, ledger: Ledger, rng: random.Random, done: asyncio.Event) -> None:
    async with Client(server.endpoint) as client:
        while not done.is_set():
            invoked = time.monotonic()
            try:
                messages = await client.receive(
                    TOPIC, GROUP, max_messages=8, invisible_s=INVISIBLE_S, wait_s=1.0
                )
            except PopMQClientError:
                ledger.failed_calls += 1
                await asyncio.sleep(0.02)
                continue
            for message in messages:
                ledger.received[message.body.decode()].append(invoked)
            for message in messages:
                if rng.random() < 0.1:
                    continue  # let it come again
                try:
                    await client.ack(message)
                    ledger.acked_at[message.body.decode()] = time.monotonic()
                except PopMQClientError:
                    ledger.failed_calls += 1


async def _campaign(server: Server, ledger: Ledger, rng: random.Random) -> None:
    stop, done = asyncio.Event(), asyncio.Event()
    broker = server.processes["broker-a"]
    async with asyncio.TaskGroup() as tasks:
        for number in range(SENDERS):
            tasks.create_task(_send(server, ledger, number, stop))
        for _ in range(RECEIVERS):
            tasks.create_task(_receive(server, ledger, rng, done))
        for _ in range(RUNS):
            await asyncio.sleep(rng.uniform(0.2, 1.2))
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
        await asyncio.sleep(1.0)
        stop.set()
        await _until_quiet(ledger)
        done.set()


async def _until_quiet(ledger: Ledger) -> None:
    """Until nothing has come for several invisible times: everything is drained."""
    for _ in range(20):
        before = sum(map(len, ledger.received.values()))
        await asyncio.sleep(QUIET_S)
        if before == sum(map(len, ledger.received.values())):
            return


@pytest.mark.timeout(300)
def test_what_was_answered_ok_survives_kill_9(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    ledger = Ledger()
    with cluster(tmp_path, ENV, brokers=1, proxies=1) as server:
        server.cli("topic", "create", TOPIC, "--queues", "4")
        server.cli("group", "create", GROUP, "--from", "first", "--max-attempts", "1000")
        asyncio.run(_campaign(server, ledger, random.Random(seed)))
    deliveries = sum(map(len, ledger.received.values()))
    print(
        f"{RUNS} kills: {len(ledger.sent_ok)} sends and {len(ledger.acked_at)} acks answered OK, "
        f"{deliveries} deliveries, {ledger.failed_calls} failed calls"
    )
    assert len(ledger.sent_ok) > 50 * RUNS
    assert len(ledger.acked_at) > 20 * RUNS
    assert not ledger.received.keys() - ledger.attempted
    assert not ledger.lost(), f"seed {seed}: lost {sorted(ledger.lost())[:10]}"
    assert not ledger.undone(), f"seed {seed}: came after their ack {sorted(ledger.undone())[:10]}"
