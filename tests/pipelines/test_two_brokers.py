"""Random lives of a cluster with two brokers and two proxies, all of which are killed now and then:
neither the audit of a broker nor the counts of clients accuse anybody.

COUNT_SEEDS="3 4 5" and COUNT_LIFE_S=20 choose others."""

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from harness.processes import Server, cluster
from pyspark.sql import SparkSession

from popmq import Client, Message, PopMQClientError
from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.jobs.balance_counts import balance_counts, newest
from popmq_pipelines.jobs.reconcile import GRACE_MS, reconcile
from popmq_pipelines.tables import opened_snapshot

pytestmark = [
    pytest.mark.pipelines,
    pytest.mark.timeout(3_600),
    pytest.mark.usefixtures("few_rows"),
]
SEEDS = [int(seed) for seed in os.environ.get("COUNT_SEEDS", "1").split()]
LIFE_S = float(os.environ.get("COUNT_LIFE_S", "14"))
POSITIONS_S = 6.0
BROKERS = ("broker-a", "broker-b")
TOPICS, GROUPS = ("orders", "bills"), ("billing", "mailing")


class ClusterLife:
    """What clients do and what happens to servers, from a seed. Timing is the machine's."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.rng = random.Random(seed)
        self.over = False

    async def run(self) -> None:
        ends = f"{self.server.endpoint};{self.server.other_endpoint}"
        counting = [Client(ends, counts=True) for _ in range(3)]
        clients = [*counting, Client(ends, counts=False)]
        await asyncio.gather(*(self.first(client) for client in clients))
        doing = [asyncio.create_task(self.use(client)) for client in clients for _ in range(3)]
        doing.append(asyncio.create_task(self.kill()))
        await asyncio.sleep(LIFE_S)
        self.over = True
        await asyncio.gather(*doing)
        await counting[0].connection.close()  # as if its process had crashed: it says nothing more
        await asyncio.gather(*(client.close() for client in clients[1:]))

    async def first(self, client: Client) -> None:
        """Topics are there, and groups have begun."""
        for topic in TOPICS:
            await client.send(topic, b"first")
            for group in GROUPS:
                await client.receive(topic, group, wait_s=0.0)

    async def use(self, client: Client) -> None:
        deeds: list[Callable[[Client], Awaitable[None]]] = [
            *[self.send] * 4,
            *[self.receive] * 4,
            *(self.send_many, self.delay, self.transaction),
        ]
        while not self.over:
            with contextlib.suppress(PopMQClientError):
                await self.rng.choice(deeds)(client)

    async def send(self, client: Client) -> None:
        group = self.rng.choice([None, None, "a", "b"])
        body = b"m" * self.rng.randrange(200)
        topic = self.rng.choice(TOPICS)
        sending = client.send(topic, body, message_group=group)
        if self.rng.random() < 0.05:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(sending, self.rng.random() * 0.01)
        else:
            await sending

    async def send_many(self, client: Client) -> None:
        messages = [Message(body=b"many") for _ in range(self.rng.randint(1, 30))]
        async with client.producer(retry_s=1.0) as producer:
            await producer.send_many(self.rng.choice(TOPICS), messages, return_exceptions=True)

    async def delay(self, client: Client) -> None:
        topic = self.rng.choice(TOPICS)
        receipt = await client.send(topic, b"late", delay_s=self.rng.choice([0.2, 1.0, 900.0]))
        if self.rng.random() < 0.3:
            await client.recall(topic, receipt.recall_handle)

    async def transaction(self, client: Client) -> None:
        half = await client.transactions.send(self.rng.choice(TOPICS), b"half")
        end = self.rng.random()
        if end < 0.5:
            await half.commit()
        elif end < 0.8:
            await half.rollback()

    async def receive(self, client: Client) -> None:
        found = await client.receive(
            self.rng.choice(TOPICS),
            self.rng.choice(GROUPS),
            max_messages=self.rng.randint(1, 16),
            wait_s=self.rng.choice([0.0, 0.3]),
            invisible_s=self.rng.choice([10.0, 60.0]),
        )
        for message in found:
            end = self.rng.random()
            if end < 0.1:
                await message.extend(self.rng.choice([10.0, 30.0]))
            if end < 0.75:
                await message.ack()
            elif end < 0.85:
                await message.nack(delay_s=self.rng.choice([0.0, 0.5]), counted=end < 0.8)
            elif end < 0.9:
                await message.reject("no")

    async def kill(self) -> None:
        """One server at a time; it is back before the next one goes. Brokers have written by then
        from where on their journals tell all: of what was before nothing would be judged."""
        await asyncio.sleep(POSITIONS_S)
        names = sorted(name for name in self.server.processes if name != "nameserver")
        while not self.over:
            await asyncio.sleep(self.rng.uniform(0.5, 2.0))
            process = self.server.processes[self.rng.choice(names)]
            await asyncio.to_thread(process.kill)
            await asyncio.sleep(self.rng.uniform(0.0, 0.5))
            await asyncio.to_thread(process.start)


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_accused(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}, {LIFE_S} s")
    with cluster(tmp_path, brokers=2, proxies=2) as server:
        asyncio.run(ClusterLife(server, seed).run())
    for name in BROKERS:
        export(tmp_path / name, tmp_path / "snapshots" / name)
    found = balance_counts(spark, newest([tmp_path / "snapshots"], None), skew_ms=0)
    print(found.sent, found.taken, found.acked)
    assert (found.findings, found.problems) == ([], [])
    assert found.verdict is AuditVerdict.PASS
    assert sum(row["sent"] for row in found.sent) > 50
    assert sum(row["received"] for row in found.taken) > 50
    for name in BROKERS:
        snapshot = opened_snapshot.open_snapshot(tmp_path / "snapshots" / name)
        report = reconcile(spark, snapshot, None, grace_ms=GRACE_MS)
        assert (report.verdict, report.findings) == (AuditVerdict.PASS, []), report.problems
