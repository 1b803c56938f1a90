"""Groups that are reset under load, back and forward: exactly what must come again does.

    python -m campaigns.reset_load [TIMES [SEED]]

Three groups (any order, FIFO, pull), each with a topic of its own that is sent to all the while.
Before each reset the group has consumed what there was; some messages are held, some wait for a
retry. Before one forward nothing is received for a moment, so that there is something to skip.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaigns.reset_book import Reset
from campaigns.reset_consumers import Duties, Receivers
from campaigns.reset_pullers import Puller
from harness.processes import Server, standalone
from harness.queue_reader import QueueReader

from apache.rocketmq.v2 import service_pb2 as service
from popmq import Client

BROKER, QUEUES = "broker-a", 4
SENDERS = 3
SEND_EVERY_S = 0.05  # each
MESSAGE_GROUPS = 24
BACKLOG_S = 1.5
DRAIN_S = 120.0
KINDS = ("any-order", "fifo", "pull")
TARGETS = ("all", "time", "offset")
EFFECTIVE_S = 1.0
ENV = {"POPMQ_PROXY_INVISIBLE_MS_MIN": "100"}


@dataclass
class Outcome:
    kind: str
    wrong: list[str]
    resets: int
    sent: int
    again: int
    effective_s: float
    fenced: int
    dropped: int


@dataclass
class Trial:
    """One group, its topic, and who sends to it."""

    server: Server
    kind: str
    rng: random.Random
    client: Client
    fenced: int = 0
    """Leases that resets ended, as they said."""
    dropped: int = 0
    reader: QueueReader = field(init=False)
    group: Receivers | Puller = field(init=False)
    duties: Duties = field(init=False)

    def __post_init__(self) -> None:
        self.reader = QueueReader(self.client, self.kind, BROKER, QUEUES)
        self.duties = Duties(self.rng)
        consumers = Puller if self.kind == "pull" else Receivers
        self.group = consumers(self.server.endpoint, self.kind, self.duties)

    async def run(self, times: int) -> Outcome:
        duties, first = self.duties, KINDS.index(self.kind)
        duties.may_receive.set()
        duties.is_settled.set()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            sending = [tasks.create_task(self._send(i, stop)) for i in range(SENDERS)]
            consuming = tasks.create_task(self.group.consume())
            await asyncio.sleep(BACKLOG_S)
            for i in range(times):
                target = TARGETS[(first + i) % len(TARGETS)]
                await self._back(target)
                await self._forward(target)
            stop.set()
            await asyncio.gather(*sending)
            await self._drain()
            duties.stop.set()
            await consuming
        placed = self.reader.placed
        wrong = self.group.verdict(placed) + await self._at_the_end()
        return Outcome(
            self.kind,
            wrong,
            len(self.group.book.resets),
            sum(map(len, placed.values())),
            self.group.again(placed),
            self.group.effective_s(placed),
            self.fenced,
            self.dropped,
        )

    async def _send(self, number: int, stop: asyncio.Event) -> None:
        async with Client(self.server.endpoint, request_timeout_s=60.0) as client:
            count = 0
            while not stop.is_set():
                count += 1
                order = f"order-{self.rng.randrange(MESSAGE_GROUPS)}"
                body = f"{self.kind}-{number}-{count}"
                await client.send(self.kind, body.encode(), message_group=order)
                await asyncio.sleep(SEND_EVERY_S)

    async def _drain(self) -> None:
        """Until all that has been sent by now is settled; what comes meanwhile may not be."""
        mark = await self._ends()
        deadline = time.monotonic() + DRAIN_S
        while (left := self.group.left(self.reader.placed, mark)) > 0:
            assert time.monotonic() < deadline, f"{self.kind}: {left} messages do not come"
            await asyncio.sleep(0.1)
        self.group.book.drained.append((time.monotonic(), mark))

    async def _ends(self) -> dict[int, int]:
        for queue_id in range(QUEUES):
            await self.reader.catch_up(queue_id)
        return {queue_id: len(found) for queue_id, found in self.reader.placed.items()}

    async def _back(self, target: str) -> None:
        async with self._without_retries(target):
            await self._drain()
            queue_id = self.rng.randrange(QUEUES)
            messages = self.reader.placed[queue_id]
            at = self.rng.randrange(max(1, len(messages)))
            options: dict[str, Any] = {"--to-earliest": None}
            if target == "time" and messages:  # a time that some message was stored at
                options = {"--to-time": messages[at].stored_ms}
            elif target == "offset":
                options = {"--to-offset": at, "--queue": f"{BROKER}:{queue_id}"}
            await self._reset(options)

    async def _forward(self, target: str) -> None:
        async with self._without_retries(target):
            await self._drain()
            self.duties.may_receive.clear()
            await asyncio.sleep(BACKLOG_S)
            ends = await self._ends()
            queue_id = max(ends, key=lambda i: ends[i])
            options: dict[str, Any] = {"--to-latest": None}
            if target == "time":
                options = {"--to-time": time.time_ns() // 1_000_000 - 300}
            elif target == "offset":
                options = {"--to-offset": ends[queue_id], "--queue": f"{BROKER}:{queue_id}"}
            await self._reset(options)
            self.duties.may_receive.set()

    @asynccontextmanager
    async def _without_retries(self, target: str) -> AsyncIterator[None]:
        """A reset of one queue leaves retries that wait, of any queue: there must be none. What is
        being received to be let go of has come before, and is drained."""
        async with self.duties.letting_go:
            self.duties.acks_all = target == "offset"
        yield
        self.duties.acks_all = False

    async def _reset(self, options: dict[str, Any]) -> None:
        ends = await self._ends()
        async with self.duties.letting_go:
            self.duties.is_settled.clear()
        began_s = time.monotonic()
        words = [str(word) for pair in options.items() for word in pair if word is not None]
        command = ["group", "reset-offset", self.kind, self.kind, *words, "--yes"]
        done: Any = await asyncio.to_thread(self.server.cli, *command)
        to = {int(queue["queueId"]): int(queue["toOffset"]) for queue in done["queues"]}
        reset = Reset(began_s, time.monotonic(), to, ends, options.get("--to-time"))
        self.fenced += sum(int(queue["fenced"]) for queue in done["queues"])
        self.dropped += int(done["retriesDropped"])
        self.group.book.resets.append(reset)
        self.duties.is_settled.set()

    async def _at_the_end(self) -> list[str]:
        """The group is at the end of each queue, and says so."""
        wrong = []
        for queue_id, messages in self.reader.placed.items():
            connection = self.client.connection
            request = service.GetOffsetRequest(
                group=connection.resource(self.kind), message_queue=self.reader.queue(queue_id)
            )
            found = (await connection.ask(connection.stub.GetOffset, request)).offset
            if found != len(messages):
                wrong.append(f"queue {queue_id}: at {found} of {len(messages)} at the end")
        return wrong


async def campaign(server: Server, times: int, seed: int) -> list[Outcome]:
    """`times` back and as often forward, of each group."""
    for kind in KINDS:
        server.cli("topic", "create", kind, "--queues", str(QUEUES), "--type", "MIXED")
        fifo = ["--fifo"] if kind == "fifo" else []
        server.cli("group", "create", kind, "--from", "first", "--max-attempts", "1000", *fifo)
    async with (
        Client(server.endpoint, request_timeout_s=60.0) as client,
        asyncio.TaskGroup() as tasks,
    ):
        trials = [
            tasks.create_task(
                Trial(server, kind, random.Random(f"{seed}{kind}"), client).run(times)
            )
            for kind in KINDS
        ]
    return [trial.result() for trial in trials]


def main() -> int:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder, standalone(Path(folder), ENV) as server:
        found = asyncio.run(campaign(server, times, seed))
    print("| group | resets | messages | came again | fenced | retries dropped | effective, s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for one in found:
        print(
            f"| {one.kind} | {one.resets} | {one.sent} | {one.again} | {one.fenced} "
            f"| {one.dropped} | {one.effective_s:.2f} |"
        )
    for one in found:
        for text in one.wrong[:20]:
            print(f"{one.kind}: {text}")
    late = [one.kind for one in found if one.effective_s > EFFECTIVE_S]
    print(f"wrong: {sum(len(one.wrong) for one in found)}; later than {EFFECTIVE_S} s: {late}")
    return 1 if late or any(one.wrong for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
