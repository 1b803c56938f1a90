"""Retention and starts through the public API: what is gone, who is told, where groups go on."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from integration.conftest import SERVERS
from integration.conftest import Raw as RawClient

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq import Client, PullConsumer, Start
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_broker.config import BrokerConfig
from popmq_proxy.config import ProxyConfig

TOPIC, SENT = "short", 12
RETENTION_MS = 300
GONE_S = 60.0


@pytest.fixture
async def short(tmp_path: Path) -> AsyncIterator[RawClient]:
    """A server whose messages are old after a moment, and whose files hold a few."""
    broker = BrokerConfig(
        create_groups=True,
        data_dir=tmp_path / "data",
        disk_reserve_bytes=0,
        segment_bytes=2_048,
        retention_ms=RETENTION_MS,
        retention_interval_ms=50,
    )
    proxy = ProxyConfig(create_topics=True, port=0, log_level="error")
    async with SERVERS[0](broker, proxy) as port:
        endpoint = f"127.0.0.1:{port}"
        async with grpc.aio.insecure_channel(endpoint) as channel:
            yield RawClient(service_grpc.MessagingServiceStub(channel), endpoint, tmp_path)


async def make(endpoint: str, group: str, start: str, ms: int = 0) -> None:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        stub = admin_grpc.AdminStub(channel)
        topic = admin.Topic(name=TOPIC, queues=1, message_type="MIXED")
        await stub.CreateTopic(admin.CreateTopicRequest(topic=topic))
        wanted = admin.Group(name=group, consume_from=start, consume_from_ms=ms)
        await stub.CreateGroup(admin.CreateGroupRequest(group=wanted))


async def offset(raw: RawClient, policy: "v2.QueryOffsetPolicy.ValueType") -> int:
    request = service.QueryOffsetRequest(message_queue=queue(), query_offset_policy=policy)
    if policy == v2.TIMESTAMP:
        request.timestamp.CopyFrom(Timestamp(seconds=1))  # older than anything
    response: Any = await raw.call("QueryOffset", request)
    assert response.status.code == v2.OK
    return int(response.offset)


def queue() -> v2.MessageQueue:
    broker = v2.Broker(name="broker-a")
    return v2.MessageQueue(topic=v2.Resource(name=TOPIC), id=0, broker=broker)


async def test_what_is_old_goes_and_whoever_asks_for_it_is_told(short: RawClient) -> None:
    await make(short.endpoint, "behind", "FIRST")
    async with Client(short.endpoint) as client:
        for i in range(SENT):
            await client.send(TOPIC, b"%3d" % i + b"x" * 200)
        deadline = time.monotonic() + GONE_S
        while (oldest := await offset(short, v2.BEGINNING)) == 0:
            assert time.monotonic() < deadline, "nothing was deleted"
            await asyncio.sleep(0.05)
        request = service.PullMessageRequest(
            group=v2.Resource(name="reader"), message_queue=queue(), offset=0, batch_size=1
        )
        stream = short.stub.PullMessage(request, metadata=short.metadata, timeout=10)
        responses = [response async for response in stream]
        assert responses[0].status.code == v2.ILLEGAL_OFFSET
        assert oldest <= responses[-1].next_offset < SENT
        assert await offset(short, v2.TIMESTAMP) >= oldest, "a time before all of it"
        assert await offset(short, v2.END) == SENT
        (first, *_) = await client.receive(TOPIC, "behind", wait_s=5.0)
        assert first.queue_offset >= oldest
    async with PullConsumer(
        short.endpoint, TOPIC, "puller", start=Start.FIRST, queues="all"
    ) as puller:
        assert (await puller.poll())[0].queue_offset >= oldest


@pytest.mark.parametrize(("start", "wanted"), [("FIRST", "abcd"), ("LAST", "d"), ("TIME", "bcd")])
async def test_a_group_starts_where_it_says(raw: RawClient, start: str, wanted: str) -> None:
    """TIME: that of the second message, to the millisecond."""
    await make(raw.endpoint, "first", "FIRST")
    async with Client(raw.endpoint) as client:
        for body in (b"a", b"b", b"c"):
            await client.send(TOPIC, body)
            await asyncio.sleep(0.02)
        second = (await client.receive(TOPIC, "first", wait_s=5.0))[1]
        await make(raw.endpoint, "asked", start, second.store_timestamp_ms)
        got = await client.receive(TOPIC, "asked", wait_s=0.0)
        await client.send(TOPIC, b"d")
        while len(got) < len(wanted):
            got += await client.receive(TOPIC, "asked", wait_s=5.0)
    assert b"".join(message.body for message in got).decode() == wanted
