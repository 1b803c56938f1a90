"""kill -9 of broker and consumers while they commit: no offset is behind what was answered OK, none
ahead of what was handled.

make crash-offsets RUNS=200
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from crash.offset_book import GROUPS, Book
from crash.offset_consumers import FIFO, PAUSE_S, POP, PULL, TOPIC
from crash.offset_look import QUEUES, Look
from harness.processes import Server, cluster

from popmq import Client, PopMQClientError

RUNS = int(os.environ.get("CRASH_OFFSETS_RUNS", "6"))
CONSUMERS = 2
BROKER = 0.6  # of the kills
MESSAGE_GROUPS = 20
SEND_EVERY_S = 0.02
DRAIN_S = 300.0
BEGIN_S = 120.0
TELL_EVERY = 20
ENV = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "100", "POPMQ_BROKER_SEGMENT_BYTES": str(1 << 20)}
TESTS = Path(__file__).parents[1]


@dataclass
class Consumers:
    """One process of consumers, and its next one."""

    endpoint: str
    record: Path
    seed: int
    lives: int = 0
    began_bytes: int = 0
    running: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        self.lives += 1
        self.began_bytes = self._size()
        command = [sys.executable, "-m", "crash.offset_consumers", self.endpoint, str(self.record)]
        with open(self.record.with_suffix(".log"), "ab") as out:
            self.running = subprocess.Popen(
                [*command, str(self.seed + self.lives)], cwd=TESTS, stdout=out, stderr=out
            )

    def _size(self) -> int:
        return self.record.stat().st_size if self.record.exists() else 0

    def began(self) -> bool:
        """It has handled something in this life."""
        assert self.running is not None
        ended = self.running.poll()
        assert ended is None, f"ended with {ended}: see {self.record.with_suffix('.log')}"
        return self._size() > self.began_bytes

    def tell(self, number: signal.Signals) -> None:
        assert self.running is not None
        self.running.send_signal(number)

    def kill(self) -> None:
        self.tell(signal.SIGKILL)
        assert self.running is not None
        self.running.wait()


async def _send(endpoint: str, rng: random.Random, stop: asyncio.Event) -> None:
    """Every body once; it may lie in the queue although no OK came."""
    async with Client(endpoint, send_attempts=1) as client:
        count = 0
        while not stop.is_set():
            count += 1
            group = f"order-{rng.randrange(MESSAGE_GROUPS)}"
            try:
                await client.send(TOPIC, b"m%d" % count, message_group=group)
            except PopMQClientError:
                await asyncio.sleep(PAUSE_S)
            await asyncio.sleep(SEND_EVERY_S)


@dataclass
class Campaign:
    server: Server
    consumers: list[Consumers]
    look: Look
    rng: random.Random

    async def begun(self) -> None:
        """Some consumers have; those that have not may still be starting."""
        deadline = time.monotonic() + BEGIN_S
        while not any([one.began() for one in self.consumers]):
            assert time.monotonic() < deadline, "consumers handle nothing"
            await asyncio.sleep(PAUSE_S)

    async def kill_broker(self) -> list[str]:
        """Consumers stand still until its offsets have been looked at."""
        broker = self.server.processes["broker-a"]
        await asyncio.to_thread(broker.kill)
        for one in self.consumers:
            one.tell(signal.SIGSTOP)
        self.look.read_file()
        await asyncio.to_thread(broker.start)
        wrong = await self.look.at_broker() + self.look.at_file()
        for one in self.consumers:
            one.tell(signal.SIGCONT)
        return wrong

    async def kill_consumers(self) -> list[str]:
        one = self.rng.choice([one for one in self.consumers if one.began()])
        await asyncio.to_thread(one.kill)
        wrong = await self.look.at_broker()
        one.start()
        return wrong

    async def run(self, runs: int) -> Counter[str]:
        killed: Counter[str] = Counter()
        for run in range(1, runs + 1):
            await self.begun()
            await asyncio.sleep(self.rng.uniform(0.0, 1.0))
            what = "broker" if self.rng.random() < BROKER else "consumers"
            killed[what] += 1
            kill = self.kill_broker if what == "broker" else self.kill_consumers
            wrong = await kill()
            assert not wrong, f"after {run} kills, the last one of the {what}: {wrong}"
            if run % TELL_EVERY == 0:
                print(f"{run} kills, {dict(self.look.book.lines)}", flush=True)
        return killed

    async def drained(self) -> None:
        """Until every group has handled and settled whatever lies in the queues."""
        deadline, book = time.monotonic() + DRAIN_S, self.look.book
        while True:
            wrong = await self.look.at_broker()
            assert not wrong, wrong
            left = {group: len(book.unhandled(group)) for group in GROUPS}
            behind = [place for place in self.look.told if not self.look.at_end(*place)]
            if not any(left.values()) and not behind:
                return
            assert time.monotonic() < deadline, f"unhandled {left}, not at the end {behind}"
            await asyncio.sleep(0.5)


async def _campaign(server: Server, folder: Path, rng: random.Random) -> tuple[Counter[str], Book]:
    records = [folder / f"told-{i}" for i in range(CONSUMERS)]
    consumers = [Consumers(server.endpoint, path, rng.randrange(1 << 32)) for path in records]
    book, stop = Book(), asyncio.Event()
    async with Client(server.endpoint) as client, asyncio.TaskGroup() as tasks:
        look = Look(client, book, records, folder / "broker-a")
        campaign = Campaign(server, consumers, look, rng)
        tasks.create_task(_send(server.endpoint, rng, stop))
        try:
            for one in consumers:
                one.start()
            killed = await campaign.run(RUNS)
            stop.set()
            await campaign.drained()
        finally:
            stop.set()
            for one in consumers:
                one.kill()
    assert server.processes["broker-a"].stop() == 0
    campaign.look.read_file()
    assert not campaign.look.at_file()
    for group in (PULL, POP, FIFO):
        for i in range(QUEUES):
            at = campaign.look.in_file[group, i]
            assert at == len(book.placed[i]), f"{group}, queue {i}: {at} in the file at the end"
    return killed, book


@pytest.mark.timeout(600 + 20 * RUNS)
def test_offsets_keep_to_what_was_answered_and_what_was_handled(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    began = time.monotonic()
    with cluster(tmp_path, ENV, brokers=1, proxies=1) as server:
        server.cli("topic", "create", TOPIC, "--queues", str(QUEUES), "--type", "MIXED")
        options = ["--from", "first", "--max-attempts", "1000"]
        server.cli("group", "create", PULL, *options)
        server.cli("group", "create", POP, *options)
        server.cli("group", "create", FIFO, "--fifo", *options)
        killed, book = asyncio.run(_campaign(server, tmp_path, random.Random(seed)))
    print(
        f"{dict(killed)} killed in {time.monotonic() - began:.0f} s; told: {dict(book.lines)}; "
        f"{sum(map(len, book.placed.values()))} messages"
    )
    assert book.lines["committed"] > RUNS
    assert book.lines["acked"] > RUNS
