"""Deliveries by the real broker to consumers that are processes, some of which die by kill -9."""

import asyncio
import multiprocessing
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

import grpc
from harness.processes import Server
from idempotence.outcome import Outcome
from idempotence.plan import make
from idempotence.strategies import Strategy
from idempotence.worker import HELD, Job, work

from popmq import Client
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc

PROCESSES = 2
SENT_AT_ONCE = 32
DONE_S = 600.0
LOOK_S = 0.3
QUIET_LOOKS = 3  # in a row
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["idempotence.worker"])


class Consumers:
    """Processes that are started again when they are dead."""

    def __init__(self, job: Job) -> None:
        self.deaths = 0
        self._job = job
        self._running: list[BaseProcess] = [self._start() for _ in range(PROCESSES)]

    def _start(self) -> BaseProcess:
        process = CONTEXT.Process(target=work, args=(self._job,), daemon=True)
        process.start()
        return process

    def revive(self) -> None:
        for i, process in enumerate(self._running):
            if process.is_alive():
                continue
            assert process.exitcode == -9, f"a consumer ended by itself: {process.exitcode}"
            self.deaths += 1
            self._running[i] = self._start()

    def stop(self) -> None:
        for process in self._running:
            process.kill()
            process.join()


def _events(book: Path) -> Counter[str]:
    return Counter(line[0] for line in book.read_text().splitlines() if line)


async def _all_settled(endpoint: str, group: str, sent: int) -> bool:
    """What the broker says: an ack may be done although its consumer died before it heard."""
    async with grpc.aio.insecure_channel(endpoint) as channel:
        request = admin.DescribeGroupRequest(name=group)
        queues = (await admin_grpc.AdminStub(channel).DescribeGroup(request)).queues
    arrived = sum(queue.max_offset for queue in queues if queue.topic == group)
    settled = all(
        queue.committed_offset == queue.max_offset and not queue.in_flight for queue in queues
    )
    return settled and arrived == sent


async def _send(
    endpoint: str, topic: str, strategy: Strategy, messages: int, seed: int, kills: int
) -> tuple[int, set[str]]:
    """(messages sent, keys)."""
    copies = make(strategy.run, seed, messages, deaths=True, kills=kills)
    async with Client(endpoint, request_timeout_s=10) as client:
        for start in range(0, len(copies), SENT_AT_ONCE):
            batch = [copy.to_send() for copy in copies[start : start + SENT_AT_ONCE]]
            await client.send_many(topic, batch)
    return len(copies), {copy.key for copy in copies}


async def with_kills(
    strategy: Strategy,
    outcome: Outcome,
    seed: int,
    kills: int,
    *,
    server: Server,
    urls: tuple[str, str],
    folder: Path,
) -> Outcome:
    """`urls`: of the database and of Redis."""
    messages = outcome.messages
    await strategy.prepare(messages)
    group = strategy.run
    server.cli("group", "create", group, "--from", "first")
    sent, keys = await _send(server.endpoint, group, strategy, messages, seed, kills)
    book = folder / f"{group}.book"
    key = (type(strategy).name, type(strategy).store)
    job = Job(server.endpoint, group, urls[0], urls[1], key, strategy.run, str(book))
    consumers = Consumers(job)
    began_s = time.monotonic()
    quiet = 0
    try:
        while quiet < QUIET_LOOKS:
            await asyncio.sleep(LOOK_S)
            consumers.revive()
            settled = await _all_settled(server.endpoint, group, sent)
            quiet = quiet + 1 if settled else 0
            assert time.monotonic() - began_s < DONE_S, f"{group} is not settled"
    finally:
        consumers.stop()
    events = _events(book)
    outcome.seconds = round(time.monotonic() - began_s, 1)
    outcome.deliveries, outcome.suppressed = events["d"], events["s"]
    outcome.turned_away, outcome.killed = events["t"], consumers.deaths
    outcome.deaths = events["x"] + events["i"]
    # The other messages that a killed process held may have been between effect and mark too.
    outcome.deaths_inside = events["i"] + consumers.deaths * HELD
    outcome.judge(await strategy.effects(), keys)
    return outcome
