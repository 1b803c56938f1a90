"""A cluster, producers and consumers of the SDK, and what is done to them.

stop    SIGTERM and a new start, of each in turn: nothing is lost, nothing handled twice
kill    kill -9, of each in turn: nothing is lost
"""

import asyncio
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.processes import POPMQ, Server, cluster

from popmq import Client
from sdk_chaos.handlers import FILE, GROUP, LEASE_S, TOPIC

Fault = Literal["stop", "kill"]
TESTS = Path(__file__).resolve().parents[1]
CONSUMERS = 2
SENDERS = 32
STOP_S = 60.0
START_S = 60.0
DRAIN_S_MAX = 300.0
LOOK_S = 0.2
QUIET_S = 6.0
"""So long nothing more may come when all has come: duplicates would."""
LEASES: dict[Fault, float] = {"stop": 120.0, "kill": 3.0}
"""A stop must not outlast a lease; after a kill a short one comes again soon."""
ENV = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "100"}


@dataclass
class Consumer:
    """`popmq run` as a process; a new one after each end."""

    env: Mapping[str, str]
    log: Path
    running: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        with open(self.log, "ab") as out:
            command = [POPMQ, "run", "sdk_chaos.handlers:app"]
            environ = {**os.environ, **self.env}
            before = out.tell()
            self.running = subprocess.Popen(command, env=environ, stdout=out, stderr=out)
        for _ in range(int(START_S / LOOK_S)):
            if b"running" in self.log.read_bytes()[before:]:
                return
            time.sleep(LOOK_S)  # nothing else tells that it has begun
        raise AssertionError(f"a consumer did not start:\n{self.log.read_text()}")

    def end(self, how: signal.Signals) -> int:
        assert self.running is not None
        self.running.send_signal(how)
        return self.running.wait(STOP_S)


@dataclass
class Campaign:
    server: Server
    consumers: list[Consumer]
    file: Path
    fault: Fault
    messages: int
    rate: float
    sent: set[bytes] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return endpoints(self.server)

    def handled(self) -> Counter[bytes]:
        return Counter(self.file.read_bytes().split(b"\n")[:-1])

    async def run(self, gap_s: float, rounds: int) -> None:
        """`rounds` of faults while messages flow, and until all are sent; then all that was
        sent has to come."""
        sending = asyncio.create_task(self._send())
        done_rounds = 0
        while not sending.done() or done_rounds < rounds:
            for name in (*(f"consumer-{i}" for i in range(CONSUMERS)), *self.services()):
                await asyncio.sleep(gap_s)
                await asyncio.to_thread(self._strike, name)
            done_rounds += 1
        await sending
        await self._drain()

    def services(self) -> list[str]:
        return [name for name in self.server.processes if name != "nameserver"]

    def _strike(self, name: str) -> None:
        self.faults[name.partition("-")[0]] += 1
        if name.startswith("consumer"):
            consumer = self.consumers[int(name.partition("-")[2])]
            code = consumer.end(signal.SIGTERM if self.fault == "stop" else signal.SIGKILL)
            if self.fault == "stop" and code:
                self.wrong.append(f"{name} ended with {code} after SIGTERM")
            consumer.start()
            return
        process = self.server.processes[name]
        if self.fault == "kill":
            process.kill()
        else:
            process.stop()
        process.start()

    async def _send(self) -> None:
        began = time.monotonic()
        numbers = iter(range(self.messages))
        async with Client(self.endpoint) as client, client.producer(retry_s=120.0) as producer:

            async def some() -> None:
                for number in numbers:
                    body = b"%d" % number
                    await producer.send(TOPIC, body)
                    self.sent.add(body)
                    early_s = number / self.rate - (time.monotonic() - began)
                    await asyncio.sleep(max(0.0, early_s))

            await asyncio.gather(*(some() for _ in range(SENDERS)))

    async def _drain(self) -> None:
        for _ in range(int(DRAIN_S_MAX / LOOK_S)):
            if not self.sent - set(self.handled()):
                break
            await asyncio.sleep(LOOK_S)
        await asyncio.sleep(QUIET_S)

    def verdict(self) -> list[str]:
        handled = self.handled()
        lost = self.sent - set(handled)
        again = sum(count - 1 for count in handled.values())
        print(
            f"{self.fault}: {len(self.sent)} of {self.messages} sent OK, {len(lost)} lost, "
            f"{again} handled again, faults {dict(self.faults)}",
            flush=True,
        )
        wrong = list(self.wrong)
        if lost:
            wrong.append(f"{len(lost)} lost: {sorted(lost)[:10]}")
        if len(self.sent) != self.messages:
            wrong.append(f"{self.messages - len(self.sent)} were not sent")
        if self.fault == "stop" and again:
            twice = sorted(body for body, count in handled.items() if count > 1)
            wrong.append(f"{again} handled again: {twice[:10]}")
        return wrong


def endpoints(server: Server) -> str:
    names = [name for name in server.processes if name.startswith("proxy")]
    return ";".join(f"127.0.0.1:{server.processes[name].port}" for name in names)


@contextmanager
def consumers(server: Server, folder: Path, fault: Fault) -> Iterator[list[Consumer]]:
    env = {
        "PYTHONPATH": str(TESTS),
        "POPMQ_ENDPOINT": endpoints(server),
        FILE: str(folder / "handled"),
        LEASE_S: str(LEASES[fault]),
    }
    (folder / "handled").touch()
    made = [Consumer(env, folder / f"consumer-{i}.log") for i in range(CONSUMERS)]
    try:
        for consumer in made:
            consumer.start()
        yield made
    finally:
        for consumer in made:
            consumer.end(signal.SIGTERM)


def campaign(
    folder: Path, fault: Fault, messages: int, *, rate: float, gap_s: float, rounds: int = 1
) -> list[str]:
    """What went wrong. `rate`: messages a second; `gap_s`: between faults."""
    folder.mkdir(parents=True, exist_ok=True)
    with cluster(folder, ENV, brokers=1, proxies=2) as server:
        server.cli("topic", "create", TOPIC, "--queues", "4")
        server.cli("group", "create", GROUP, "--from", "first", "--max-attempts", "100")
        with consumers(server, folder, fault) as running:
            work = Campaign(server, running, folder / "handled", fault, messages, rate)
            asyncio.run(work.run(gap_s, rounds))
            return work.verdict()
