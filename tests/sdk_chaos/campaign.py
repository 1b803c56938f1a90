"""A cluster, producers and consumers of the SDK, and what is done to them.

stop    SIGTERM and a new start, of each in turn: nothing is lost, nothing handled twice
kill    kill -9, of each in turn: nothing is lost
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.processes import POPMQ, Server, cluster

from popmq import Client
from sdk_chaos.findings import Findings, Handled, Sent, Strike, found
from sdk_chaos.handlers import FILE, GROUP, LEASE_S, TOPIC

Fault = Literal["stop", "kill"]
TESTS = Path(__file__).resolve().parents[1]
CONSUMERS, PROXIES, BROKERS = 2, 2, 2
SENDERS = 32
STOP_S = 60.0
START_S = 180.0
STALLED_S_MAX = 300.0
"""What has not come when nothing came for so long is lost."""
BACKLOG_MAX = 2_000
"""With more that are sent and not handled nothing is sent: strikes shall hit a flow, not a heap."""
LATE_S_MAX = 0.2
LOOK_S = 0.2
TELL_S = 5.0
LINES_MAX = 20
"""Of logs, shown when something is wrong."""
QUIET_S = 6.0
"""So long is waited when all has come: duplicates would come then."""
LEASES: dict[Fault, float] = {"stop": 120.0, "kill": 3.0}
"""A stop must not outlast a lease; after a kill a short one is redelivered soon."""
SIGNALS: dict[Fault, signal.Signals] = {"stop": signal.SIGTERM, "kill": signal.SIGKILL}
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
            if b"ready: " in self.log.read_bytes()[before:]:
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
    book: "Book"
    fault: Fault
    messages: int
    rate: float
    tell: Callable[[str], None]
    """Hears how far it is, after each strike and while the rest is waited for."""
    sent: list[Sent] = field(default_factory=list)
    strikes: list[Strike] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    """More may be sent."""

    @property
    def endpoint(self) -> str:
        return endpoints(self.server)

    async def run(self, gap_s: float, rounds: int) -> None:
        """`rounds` of faults while messages flow, and until all are sent; then all that was
        sent has to come."""
        sending = asyncio.create_task(self._send())
        reading = asyncio.create_task(self._read())
        done_rounds = 0
        while not sending.done() or done_rounds < rounds:
            for name in (*(f"consumer-{i}" for i in range(CONSUMERS)), *self.services()):
                await asyncio.sleep(gap_s)
                await asyncio.to_thread(self._strike, name)
            done_rounds += 1
        await sending
        await self._drain()
        reading.cancel()

    def services(self) -> list[str]:
        return [name for name in self.server.processes if name != "nameserver"]

    def _strike(self, name: str) -> None:
        began_s = time.monotonic()
        if name.startswith("consumer"):
            consumer = self.consumers[int(name.partition("-")[2])]
            code = consumer.end(SIGNALS[self.fault])
            restart = consumer.start
        else:
            process = self.server.processes[name]
            assert process.running is not None
            process.running.send_signal(SIGNALS[self.fault])
            code = process.running.wait(STOP_S)
            restart = process.start
        ended_s = time.monotonic()
        if self.fault == "stop" and code:
            self.wrong.append(f"{name} ended with {code} after SIGTERM")
        restart()
        back_s = time.monotonic()
        self.strikes.append(Strike(name.partition("-")[0], began_s, back_s))
        took = f"ended in {ended_s - began_s:.1f} s, started in {back_s - ended_s:.1f} s"
        self._tell(f"{name} {took}")

    def _tell(self, what: str) -> None:
        self.tell(f"{what}; {len(self.sent):,} sent, {len(self.book.numbers):,} handled")

    async def _send(self) -> None:
        """At the rate; what a pause has held up is not made up for: a burst would be no flow."""
        due_s = time.monotonic()
        numbers = iter(range(self.messages))
        async with Client(self.endpoint) as client, client.producer(retry_s=120.0) as producer:

            async def some() -> None:
                nonlocal due_s
                for number in numbers:
                    await self.room.wait()
                    began_s = time.monotonic()
                    due_s = max(due_s + 1 / self.rate, began_s - LATE_S_MAX)
                    await asyncio.sleep(max(0.0, due_s - began_s))
                    began_s = time.monotonic()
                    await producer.send(TOPIC, b"%d" % number)
                    self.sent.append(Sent(number, began_s, time.monotonic()))

            await asyncio.gather(*(some() for _ in range(SENDERS)))

    async def _drain(self) -> None:
        numbers = {sent.number for sent in self.sent}
        known = 0
        since_s = told_s = time.monotonic()
        while not numbers <= self.book.numbers and time.monotonic() - since_s < STALLED_S_MAX:
            await asyncio.sleep(LOOK_S)
            if time.monotonic() - told_s > TELL_S:
                told_s = time.monotonic()
                self._tell("waiting for the rest")
            if len(self.book.numbers) > known:
                known, since_s = len(self.book.numbers), time.monotonic()
        await asyncio.sleep(QUIET_S)
        self.book.read()

    async def _read(self) -> None:
        while True:
            self.book.read()
            if len(self.sent) - len(self.book.numbers) <= BACKLOG_MAX:
                self.room.set()
            else:
                self.room.clear()
            await asyncio.sleep(LOOK_S)

    def findings(self) -> Findings:
        findings = found(self.fault, self.messages, self.strikes, self.sent, self.book.handled)
        wrong = findings.wrong = list(self.wrong)
        if findings.lost:
            wrong.append(f"{len(findings.lost)} lost: {sorted(findings.lost)[:10]}")
        if findings.sent != self.messages:
            wrong.append(f"{self.messages - findings.sent} were not sent")
        if self.fault == "stop" and findings.again:
            again = set(sorted(findings.again)[:10])
            told = [one for one in self.book.handled if one.number in again]
            wrong.append(f"{len(findings.again)} handled again: {sorted(told)}")
            wrong += self._logged({one.message_id for one in told})
        return findings

    def _logged(self, message_ids: set[str]) -> list[str]:
        """What the consumers said of these messages."""
        lines = [line for one in self.consumers for line in one.log.read_text().splitlines()]
        found = [line for line in lines if any(name in line for name in message_ids)]
        return found[:LINES_MAX]


class Book:
    """What the handlers wrote down."""

    def __init__(self, file: Path) -> None:
        self.handled: list[Handled] = []
        self.numbers: set[int] = set()
        self._file = file
        self._read_bytes = 0

    def read(self) -> None:
        """What is new; a line is written in one piece."""
        with open(self._file, "rb") as book:
            book.seek(self._read_bytes)
            for line in book.read().splitlines(keepends=True):
                one = Handled.read(line)
                self._read_bytes += len(line)
                self.handled.append(one)
                self.numbers.add(one.number)


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
    folder: Path,
    fault: Fault,
    messages: int,
    *,
    rate: float,
    gap_s: float,
    rounds: int = 1,
    tell: Callable[[str], None] = lambda _: None,
) -> Findings:
    """`rate`: messages a second; `gap_s`: between strikes."""
    folder.mkdir(parents=True, exist_ok=True)
    with cluster(folder, ENV, brokers=BROKERS, proxies=PROXIES) as server:
        server.cli("topic", "create", TOPIC, "--queues", "4")
        server.cli("group", "create", GROUP, "--from", "first", "--max-attempts", "100")
        with consumers(server, folder, fault) as running:
            book = Book(folder / "handled")
            work = Campaign(server, running, book, fault, messages, rate, tell)
            asyncio.run(work.run(gap_s, rounds))
            return work.findings()
