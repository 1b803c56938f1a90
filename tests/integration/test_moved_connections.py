"""Busy clients that met at one worker of a standalone: one of them comes to the other worker, and
no call of theirs fails."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from grpc.aio import Channel, insecure_channel
from harness.processes import free_port
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2.service_pb2_grpc import MessagingServiceStub
from popmq_broker.config import BrokerConfig
from popmq_broker.shards.layout import plan
from popmq_common.process.clock import SystemClock
from popmq_common.workers.balance import BalanceRules
from popmq_proxy.config import ProxyConfig
from popmq_standalone.cores.supervisor import on_cores

WITHIN_S = 30.0
AT_ONCE = 8
EAGER = BalanceRules(busy=0.1, gap=0.05, looks=2, rest_looks=3)
"""Clients in this process cannot keep a worker busy for long."""


class TwoCores:
    def __init__(self, endpoint: str, metrics_port: int) -> None:
        self.endpoint = endpoint
        self._metrics_port = metrics_port
        self.stopped = False
        self.sent = 0

    def connections(self) -> dict[int, int]:
        """By shard."""
        with urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics", timeout=10) as page:
            text = page.read().decode()
        found = re.findall(r'^popmq_connections\{shard="(\d)"\} (\d+)', text, re.MULTILINE)
        return {int(shard): int(count) for shard, count in found}

    async def send(self, channel: Channel) -> None:
        """Until it is stopped."""
        raw = Raw(MessagingServiceStub(channel), self.endpoint, Path())  # type: ignore[no-untyped-call, unused-ignore]
        while not self.stopped:
            answer = await raw.send("orders", bytes(1024))
            assert answer.status.code == v2.OK
            self.sent += 1


@pytest.fixture
async def started(tmp_path: Path) -> AsyncIterator[TwoCores]:
    port, metrics_port = free_port(), free_port()
    broker = BrokerConfig(data_dir=tmp_path / "data", create_groups=True)
    proxy = ProxyConfig(host="127.0.0.1", port=port, tls_port=0, create_topics=True)
    shards = plan(broker.data_dir, broker.name, 2, [])
    served = on_cores(shards, broker, proxy, SystemClock(), metrics_port=metrics_port, rules=EAGER)
    async with served:
        yield TwoCores(f"127.0.0.1:{port}", metrics_port)


async def opened(stack: AsyncExitStack, started: TwoCores, count: int) -> list[Channel]:
    """One after the other, so they are handed to the workers by turns."""
    channels = []
    for _ in range(count):
        options = [("grpc.use_local_subchannel_pool", 1)]
        channel = await stack.enter_async_context(
            insecure_channel(started.endpoint, options=options)
        )
        await channel.channel_ready()
        channels.append(channel)
    return channels


async def telling(channel: Channel, client_id: str) -> Any:
    """An open Telemetry stream, as every client has one."""
    raw = Raw(MessagingServiceStub(channel), "", Path(), client_id)  # type: ignore[no-untyped-call, unused-ignore]
    stream = raw.stub.Telemetry(metadata=raw.metadata)
    settings = v2.Settings(publishing=v2.Publishing(topics=[v2.Resource(name="orders")]))
    await stream.write(service.TelemetryCommand(settings=settings))
    assert (await stream.read()).HasField("settings")
    return stream


async def test_two_busy_clients_of_one_worker_are_parted(started: TwoCores) -> None:
    async with AsyncExitStack() as stack:
        channels = await opened(stack, started, 4)
        assert await asyncio.to_thread(started.connections) == {0: 2, 1: 2}
        first = [channels[0], channels[2]]
        telemetry = [await telling(channel, f"c{n}") for n, channel in enumerate(first)]
        sending = [
            asyncio.create_task(started.send(channel)) for channel in first for _ in range(AT_ONCE)
        ]
        async with asyncio.timeout(WITHIN_S):
            while (await asyncio.to_thread(started.connections))[0] != 1:
                await asyncio.sleep(0.2)
                assert not any(one.done() for one in sending), "a send failed"
        assert await asyncio.to_thread(started.connections) == {0: 1, 1: 3}
        before = started.sent
        await asyncio.sleep(0.5)
        started.stopped = True
        await asyncio.gather(*sending)
        assert started.sent > before
        for one in telemetry:
            one.cancel()
