"""Pulls and offsets through the public API: what a consumer that keeps its place needs."""

import asyncio
import time
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_consumer.v1 import consumer_pb2_grpc as consumer_grpc

GROUP = v2.Resource(name="reader")


@pytest.fixture
async def queue(raw: Raw) -> v2.MessageQueue:
    """The only queue of a topic of the test's own."""
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        topic = admin.Topic(name=f"t{time.monotonic_ns()}", queues=1, message_type="MIXED")
        await admin_grpc.AdminStub(channel).CreateTopic(admin.CreateTopicRequest(topic=topic))
    request = service.QueryRouteRequest(topic=v2.Resource(name=topic.name))
    (found,) = (await raw.call("QueryRoute", request)).message_queues
    return v2.MessageQueue.FromString(found.SerializeToString())


async def pull(
    raw: Raw, queue: v2.MessageQueue, offset: int, poll_ms: int = 0, **fields: Any
) -> tuple[int, list[v2.Message], int]:
    """(status, messages, next offset)"""
    request = service.PullMessageRequest(
        group=GROUP,
        message_queue=queue,
        offset=offset,
        long_polling_timeout=Duration(seconds=poll_ms // 1000, nanos=poll_ms % 1000 * 1_000_000),
        **{"batch_size": 32, **fields},
    )
    stream = raw.stub.PullMessage(request, metadata=raw.metadata, timeout=10)
    responses = [response async for response in stream]
    first = responses[0].status.code
    messages = [one.message for one in responses if one.HasField("message")]
    return first, messages, responses[-1].next_offset


async def update(raw: Raw, queue: v2.MessageQueue, offset: int) -> int:
    request = service.UpdateOffsetRequest(group=GROUP, message_queue=queue, offset=offset)
    return int((await raw.call("UpdateOffset", request)).status.code)


async def test_messages_come_in_order_and_whole_without_a_lease(
    raw: Raw, queue: v2.MessageQueue
) -> None:
    for i in range(5):
        name = queue.topic.name
        await raw.send(name, b"%d" % i, tag="a", keys=["k"], user_properties={"colour": "blue"})
    code, messages, next_offset = await pull(raw, queue, 1, batch_size=3)
    assert (code, next_offset) == (v2.OK, 4)
    assert [message.body for message in messages] == [b"1", b"2", b"3"]
    system = messages[0].system_properties
    assert (system.tag, list(system.keys), system.queue_offset) == ("a", ["k"], 1)
    assert not system.HasField("receipt_handle")
    assert not system.HasField("invisible_duration")
    assert messages[0].user_properties == {"colour": "blue"}
    code, messages, next_offset = await pull(raw, queue, 5)
    assert (code, messages, next_offset) == (v2.MESSAGE_NOT_FOUND, [], 5)


async def test_an_offset_that_the_queue_does_not_have_is_corrected(
    raw: Raw, queue: v2.MessageQueue
) -> None:
    await raw.send(queue.topic.name)
    assert await pull(raw, queue, 7, poll_ms=900) == (v2.ILLEGAL_OFFSET, [], 1)
    assert await pull(raw, queue, -3, poll_ms=900) == (v2.ILLEGAL_OFFSET, [], 0)


async def test_a_pull_waits_for_what_comes_in_its_own_queue(
    raw: Raw, queue: v2.MessageQueue
) -> None:
    waiting = [asyncio.ensure_future(pull(raw, queue, 0, poll_ms=5_000)) for _ in range(3)]
    await asyncio.sleep(0.1)
    await raw.send(queue.topic.name, b"late")
    for code, messages, next_offset in await asyncio.gather(*waiting):
        assert (code, next_offset) == (v2.OK, 1)
        assert [message.body for message in messages] == [b"late"]


async def test_a_pull_ends_when_its_client_says_goodbye(raw: Raw, queue: v2.MessageQueue) -> None:
    waiting = asyncio.ensure_future(pull(raw, queue, 0, poll_ms=9_000))
    await asyncio.sleep(0.1)
    await raw.call("NotifyClientTermination", service.NotifyClientTerminationRequest())
    async with asyncio.timeout(2):
        assert (await waiting)[0] == v2.MESSAGE_NOT_FOUND


async def test_the_broker_keeps_the_place(raw: Raw, queue: v2.MessageQueue) -> None:
    get = service.GetOffsetRequest(group=GROUP, message_queue=queue)
    for _ in range(4):
        await raw.send(queue.topic.name)
    assert await update(raw, queue, 3) == v2.OK
    assert await update(raw, queue, 2) == v2.OK  # goes forward only
    assert (await raw.call("GetOffset", get)).offset == 3
    assert await update(raw, queue, 5) == v2.ILLEGAL_OFFSET
    assert await update(raw, queue, -1) == v2.ILLEGAL_OFFSET


async def test_no_offset_yet_is_told_as_that(raw: Raw, queue: v2.MessageQueue) -> None:
    get = service.GetOffsetRequest(group=GROUP, message_queue=queue)
    assert (await raw.call("GetOffset", get)).status.code == v2.OFFSET_NOT_FOUND


async def test_a_queue_is_searched_by_place_and_time(raw: Raw, queue: v2.MessageQueue) -> None:
    await raw.send(queue.topic.name)
    await asyncio.sleep(0.02)
    between_ns = time.time_ns()
    await asyncio.sleep(0.02)
    await raw.send(queue.topic.name)

    async def find(policy: "v2.QueryOffsetPolicy.ValueType", ns: int | None = None) -> Any:
        request = service.QueryOffsetRequest(message_queue=queue, query_offset_policy=policy)
        if ns is not None:
            request.timestamp.CopyFrom(Timestamp(seconds=ns // 10**9, nanos=ns % 10**9))
        return await raw.call("QueryOffset", request)

    assert (await find(v2.BEGINNING)).offset == 0
    assert (await find(v2.END)).offset == 2
    assert (await find(v2.TIMESTAMP, between_ns)).offset == 1
    assert (await find(v2.TIMESTAMP, 0)).offset == 0
    assert (await find(v2.TIMESTAMP, time.time_ns() + 10**12)).offset == 2
    assert (await find(v2.TIMESTAMP)).status.code == v2.BAD_REQUEST


async def test_our_own_pull_tells_the_queues_ends(raw: Raw, queue: v2.MessageQueue) -> None:
    for body in (b"a", b"b", b"c"):
        await raw.send(queue.topic.name, body)
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        request = consumer.PullRequest(group=GROUP, message_queue=queue, offset=1, batch_size=1)
        found = await consumer_grpc.ConsumerStub(channel).Pull(request, metadata=raw.metadata)
    assert [message.body for message in found.messages] == [b"b"]
    assert (found.status.code, found.next_offset) == (v2.OK, 2)
    assert (found.min_offset, found.max_offset) == (0, 3)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"batch_size": 0}, v2.BAD_REQUEST),
        ({"queue_id": 99}, v2.BAD_REQUEST),
        ({"no_broker": True}, v2.BAD_REQUEST),
        ({"filter_expression": v2.FilterExpression(type=v2.SQL, expression="((")}, 40010),
        ({"group": v2.Resource(name="no group!")}, v2.ILLEGAL_CONSUMER_GROUP),
    ],
)
async def test_nonsense_is_refused(
    raw: Raw, queue: v2.MessageQueue, change: dict[str, Any], code: int
) -> None:
    asked = v2.MessageQueue()
    asked.CopyFrom(queue)
    fields = {"group": GROUP, "message_queue": asked, "batch_size": 1, **change}
    if fields.pop("no_broker", False):
        asked.broker.ClearField("name")
    asked.id = fields.pop("queue_id", asked.id)
    request = service.PullMessageRequest(**fields)
    stream = raw.stub.PullMessage(request, metadata=raw.metadata, timeout=10)
    assert [response.status.code async for response in stream] == [code]
