"""A topic comes to a broker that was added, while receivers wait: nothing is late there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
import pytest
from integration.served import until

from popmq import Client
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_broker.app import BrokerServer, server
from popmq_broker.config import BrokerConfig
from popmq_broker.metrics import BrokerCollector
from popmq_common.process.clock import SystemClock
from popmq_nameserver.app import nameserver
from popmq_nameserver.config import NameserverConfig
from popmq_proxy.app import proxy
from popmq_proxy.config import ProxyConfig
from popmq_proxy.rpc.admin.peers import EVERY_S

TOPIC, GROUP = "orders", "billing"
RECEIVERS = 4
POLL_S = 20.0
BEFORE, SENDS = 20, 500
LATE_S = 2.0
"""A receiver that hears of the added broker by its own polls alone is up to 30 s late."""


class Cluster:
    """A nameserver, two proxies, and brokers as they come, in this process."""

    def __init__(self, folder: Path, stack: AsyncExitStack, address: str) -> None:
        self._folder = folder
        self._stack = stack
        self._address = address

    async def add(self, name: str) -> BrokerServer:
        config = BrokerConfig(
            name=name,
            create_groups=True,
            data_dir=self._folder / name,
            port=0,
            disk_reserve_bytes=0,
            disk_clean_percent=100,
            disk_refuse_percent=100,
            nameservers=(self._address,),
        )
        return await self._stack.enter_async_context(server(config, SystemClock()))


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[tuple[Cluster, list[str]]]:
    """And where the proxies listen."""
    async with AsyncExitStack() as stack:
        found = await stack.enter_async_context(nameserver(NameserverConfig(port=0), SystemClock()))
        made = Cluster(folder, stack, f"127.0.0.1:{found.port}")
        config = ProxyConfig(
            create_topics=True, port=0, nameservers=(f"127.0.0.1:{found.port}",), log_level="error"
        )
        fronts = [await stack.enter_async_context(proxy(config, SystemClock())) for _ in range(2)]
        yield made, [f"127.0.0.1:{front.port}" for front in fronts]


def lag(running: BrokerServer) -> float:
    pages = {family.name: family for family in BrokerCollector(running.broker).collect()}
    return sum(
        sample.value
        for sample in pages["popmq_consumer_lag_messages"].samples
        if sample.labels == {"topic": TOPIC, "consumer_group": GROUP}
    )


@pytest.mark.timeout(180)
async def test_a_topic_is_spread_while_receivers_wait(tmp_path: Path) -> None:
    """Through another proxy than that of the receivers."""
    loop = asyncio.get_running_loop()
    sent_at: dict[bytes, float] = {}
    late_s: list[float] = []

    async def receive(client: Client) -> None:
        while True:
            for message in await client.receive(TOPIC, GROUP, wait_s=POLL_S, max_messages=8):
                late_s.append(loop.time() - sent_at[message.body])
                await client.ack(message)

    async def send(count: int) -> None:
        """Until all have come."""
        for _ in range(count):
            body = b"%d" % len(sent_at)
            sent_at[body] = loop.time()
            await client.send(TOPIC, body)
        await until(lambda: len(late_s) == len(sent_at))

    async with (
        cluster(tmp_path) as (made, (changing, receiving)),
        grpc.aio.insecure_channel(changing) as channel,
        Client(changing) as client,
        Client(receiving) as receiver,
    ):
        first = await made.add("broker-a")
        await until(lambda: bool(first.broker.state.catalog_state.topics))
        stub = admin_grpc.AdminStub(channel)
        topic = admin.Topic(name=TOPIC, queues=2, message_type="NORMAL")
        await stub.CreateTopic(admin.CreateTopicRequest(topic=topic))
        receivers = [asyncio.create_task(receive(receiver)) for _ in range(RECEIVERS)]
        await until(lambda: first.broker.state.runtime.long_polls.count >= RECEIVERS)
        added = await made.add("broker-b")
        await until(lambda: first.broker.state.catalog_state.peers.keys() >= {"broker-b"})
        await asyncio.sleep(2 * EVERY_S)  # now both proxies have asked for what it brought: nothing
        await send(BEFORE)
        spread = await stub.SpreadTopics(admin.SpreadTopicsRequest(name=TOPIC))
        assert [one.brokers for one in spread.topics] == [["broker-b"]]
        await send(SENDS)
        stored = added.broker.state.runtime.store.max_offset(TOPIC, 0)
        for task in receivers:
            task.cancel()
        await asyncio.gather(*receivers, return_exceptions=True)
        for number in range(40):
            await client.send(TOPIC, b"left-%d" % number)
        assert stored > SENDS / 8, "the added broker got next to nothing"
        print(f"\nlatest {max(late_s):.2f} s of {len(late_s)}")
        assert max(late_s) < LATE_S
        assert lag(first) + lag(added) == 40
        assert lag(added) > 0
