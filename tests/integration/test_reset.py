"""Resets through the public API: what runs goes on where it is told, and cannot undo it."""

import time

import grpc
import pytest
from integration.conftest import Raw

from popmq import Client, InvalidReceiptHandle, PullConsumer, Queue, ReceivedMessage, Start
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc

BROKER = "broker-a"


@pytest.fixture
async def topic(raw: Raw) -> str:
    """Of the test's own, with one queue and six messages."""
    name = f"t{time.monotonic_ns()}"
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        wanted = admin.Topic(name=name, queues=1, message_type="MIXED")
        await admin_grpc.AdminStub(channel).CreateTopic(admin.CreateTopicRequest(topic=wanted))
    async with Client(raw.endpoint) as client:
        for body in "abcdef":
            await client.send(name, body.encode(), message_group="one")
    return name


async def make_group(raw: Raw, name: str, *, fifo: bool = False) -> None:
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        group = admin.Group(name=name, consume_from="FIRST", fifo=fifo)
        await admin_grpc.AdminStub(channel).CreateGroup(admin.CreateGroupRequest(group=group))


async def reset(raw: Raw, topic: str, to: int) -> None:
    """The group of the topic's name."""
    request = admin.ResetOffsetsRequest(
        group=topic, topic=topic, broker=BROKER, queue_id=0, offset=to
    )
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        (queue,) = (await admin_grpc.AdminStub(channel).ResetOffsets(request)).queues
    assert queue.to_offset == to


def text(messages: list[ReceivedMessage]) -> str:
    return "".join(message.body.decode() for message in messages)


@pytest.mark.parametrize("fifo", [False, True], ids=["any order", "fifo"])
async def test_receives_go_on_there_and_old_handles_are_superseded(
    raw: Raw, topic: str, fifo: bool
) -> None:
    await make_group(raw, topic, fifo=fifo)
    async with Client(raw.endpoint) as client:
        held = await client.receive(topic, topic, max_messages=4)
        await reset(raw, topic, 1)
        with pytest.raises(InvalidReceiptHandle, match="moved elsewhere"):
            await client.ack(held[0])
        got: list[ReceivedMessage] = []
        while messages := await client.receive(topic, topic, wait_s=0.5):
            assert all(message.delivery_attempt == 1 for message in messages)
            await client.ack(*messages)
            got += messages
    assert text(got) == "bcdef"


async def test_a_pull_consumer_that_runs_goes_on_there(raw: Raw, topic: str) -> None:
    """What it was handed before, and finishes afterwards, neither holds it up nor counts."""
    await make_group(raw, topic)
    queue = Queue(BROKER, 0)
    async with PullConsumer(
        raw.endpoint, topic, topic, queues=[queue], start=Start.FIRST, commit_s=None
    ) as consumer:
        old = await consumer.poll(max_messages=4)
        assert text(old) == "abcd"
        await reset(raw, topic, 1)
        for message in old:
            consumer.done(message)
        await consumer.commit()  # superseded: it is not told to anybody
        again = await consumer.poll(max_messages=3, wait_s=5.0)
        assert text(again) == "bcd"
        for message in old:
            consumer.done(message)
        await consumer.commit()
        async with PullConsumer(raw.endpoint, topic, topic, queues=[queue]) as other:
            assert text(await other.poll(max_messages=2)) == "bc", "nothing of it was done"
        for message in again:
            consumer.done(message)
        await consumer.commit()
        assert text(await consumer.poll()) == "ef"
    async with PullConsumer(raw.endpoint, topic, topic, queues=[queue]) as other:
        assert text(await other.poll()) == "ef"


async def test_a_pull_consumer_skips_what_a_reset_skips(raw: Raw, topic: str) -> None:
    await make_group(raw, topic)
    queue = Queue(BROKER, 0)
    async with PullConsumer(
        raw.endpoint, topic, topic, queues=[queue], start=Start.FIRST, commit_s=None
    ) as consumer:
        assert text(await consumer.poll(max_messages=1)) == "a"
        await reset(raw, topic, 4)
        assert text(await consumer.poll(wait_s=5.0)) == "ef"


async def test_a_reset_outside_the_queue_says_what_there_is(raw: Raw, topic: str) -> None:
    await make_group(raw, topic)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await reset(raw, topic, 7)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "has 0 to 6" in (refused.value.details() or "")
