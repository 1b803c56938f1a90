"""The SDK's pull consumer against a real server: shares, commits, seeks, the access lock."""

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from integration.conftest import Raw

from popmq import Client, PullConsumer, Queue, RefusedByServer, Start, Strategy
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc

BROKER = "broker-a"


@pytest.fixture
async def topic(raw: Raw) -> str:
    """Of the test's own, with four queues; the group `g` of that name's has no lock."""
    name = f"t{time.monotonic_ns()}"
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        wanted = admin.Topic(name=name, queues=4, message_type="MIXED")
        await admin_grpc.AdminStub(channel).CreateTopic(admin.CreateTopicRequest(topic=wanted))
    return name


async def set_queues(raw: Raw, topic: str, count: int) -> None:
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        wanted = admin.UpdateTopicRequest(name=topic, queues=count)
        await admin_grpc.AdminStub(channel).UpdateTopic(wanted)


async def make_group(raw: Raw, name: str, lock_hold_ms: int = 0) -> None:
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        group = admin.Group(name=name, consume_from="FIRST", lock_hold_ms=lock_hold_ms)
        await admin_grpc.AdminStub(channel).CreateGroup(admin.CreateGroupRequest(group=group))


async def send(raw: Raw, topic: str, count: int, first: int = 0) -> None:
    async with Client(raw.endpoint) as client:
        for i in range(first, first + count):
            await client.send(topic, b"%d" % i)


async def drain(consumer: PullConsumer, *, done: bool = True) -> list[int]:
    found: list[int] = []
    while messages := await consumer.poll(wait_s=0.2):
        for message in messages:
            found.append(int(message.body))
            if done:
                consumer.done(message)
    return found


async def test_a_crashed_consumer_gets_what_was_not_done_and_all_behind_it(
    raw: Raw, topic: str
) -> None:
    await send(raw, topic, 8)
    one_queue = [Queue(BROKER, 0)]
    first = PullConsumer(raw.endpoint, topic, topic, queues=one_queue, start=Start.FIRST)
    async with first:
        messages = await first.poll()
        bodies = [message.body for message in messages]
        first.done(messages[1])  # and not the one before it
        await first.commit()
    async with PullConsumer(raw.endpoint, topic, topic, queues=one_queue) as second:
        assert second.positions() == {}
        assert [message.body for message in await second.poll()] == bodies
        await send(raw, topic, 4, first=8)
        for message in messages:
            second.done(message)
        await drain(second)
    async with PullConsumer(raw.endpoint, topic, topic, queues=one_queue) as third:
        assert await third.poll(wait_s=0.1) == []


@pytest.mark.parametrize("strategy", Strategy)
async def test_consumers_share_the_queues_and_take_over_when_one_leaves(
    raw: Raw, topic: str, strategy: Strategy
) -> None:
    options = {"strategy": strategy, "start": Start.FIRST, "balance_s": 0.0}
    await send(raw, topic, 12)
    one = PullConsumer(raw.endpoint, topic, topic, **options)  # type: ignore[arg-type]
    two = PullConsumer(raw.endpoint, topic, topic, **options)  # type: ignore[arg-type]
    async with one:
        async with two:
            await one.poll(wait_s=0)
            await two.poll(wait_s=0)
            await one.seek_to(Start.FIRST)
            await one.poll(wait_s=0)
            assert not set(one.queues) & set(two.queues)
            assert len(one.queues) + len(two.queues) == 4
        await one.poll(wait_s=0)
        assert len(one.queues) == 4


async def test_nothing_is_lost_while_consumers_come_and_go(raw: Raw, topic: str) -> None:
    await send(raw, topic, 40)
    seen: Counter[int] = Counter()
    for _ in range(3):
        async with PullConsumer(raw.endpoint, topic, topic, start=Start.FIRST) as consumer:
            for message in await consumer.poll(max_messages=5):
                seen[int(message.body)] += 1
                consumer.done(message)
    async with PullConsumer(raw.endpoint, topic, topic, start=Start.FIRST) as consumer:
        seen.update(await drain(consumer))
    assert seen == Counter(range(40))


async def test_seeking_by_place_and_time(raw: Raw, topic: str) -> None:
    await send(raw, topic, 8)
    await asyncio.sleep(0.02)
    between = datetime.now(UTC)
    await asyncio.sleep(0.02)
    await send(raw, topic, 8, first=8)
    async with PullConsumer(raw.endpoint, topic, topic) as consumer:
        assert await drain(consumer) == []  # begins at the end
        await consumer.seek_to(Start.FIRST)
        assert sorted(await drain(consumer)) == list(range(16))
        await consumer.seek_to(between)
        assert sorted(await drain(consumer)) == list(range(8, 16))
        await consumer.seek_to(between + timedelta(hours=1))
        assert await drain(consumer) == []
        await consumer.seek(Queue(BROKER, 1), 2)
        assert len(await drain(consumer)) == 2
        await consumer.seek(Queue(BROKER, 1), 1_000)  # corrected to the end
        assert await drain(consumer) == []
        assert consumer.positions()[Queue(BROKER, 1)] == 4


async def test_you_may_keep_the_offsets_yourself(raw: Raw, topic: str) -> None:
    await send(raw, topic, 4)
    async with PullConsumer(
        raw.endpoint, topic, topic, start=Start.FIRST, commit_s=None
    ) as consumer:
        assert len(await drain(consumer)) == 4
        kept = consumer.positions()
    async with PullConsumer(raw.endpoint, topic, topic, start=Start.FIRST) as consumer:
        assert len(await drain(consumer, done=False)) == 4
        for queue, offset in kept.items():
            await consumer.seek(queue, offset)
        assert await drain(consumer) == []


async def test_the_access_lock_holds_until_all_is_committed(raw: Raw, topic: str) -> None:
    await make_group(raw, topic, lock_hold_ms=60_000)
    await send(raw, topic, 4)
    queues = [Queue(BROKER, i) for i in range(4)]
    old = PullConsumer(raw.endpoint, topic, topic, queues=queues, start=Start.FIRST)
    new = PullConsumer(raw.endpoint, topic, topic, queues=queues, start=Start.FIRST)
    async with old, new:
        held = await old.poll(max_messages=1)
        taken = Queue(BROKER, held[0].queue_id)
        got = [int(message.body) for message in await new.poll(wait_s=0.1)]
        for _ in range(8):
            got += [int(message.body) for message in await new.poll(wait_s=0)]
        assert sorted([int(held[0].body), *got]) == list(range(4))
        old.done(held[0])
        await old.commit()
        await send(raw, topic, 4, first=4)
        await old.__aexit__(None, None, None)
        await old.__aenter__()
        more: list[int] = []
        while messages := await new.poll(wait_s=0.5):
            more += [int(message.body) for message in messages]
        assert int(held[0].body) not in more
        assert sorted(more) == [4, 5, 6, 7]
        assert taken in new.queues


async def test_a_commit_is_refused_while_the_group_receives(raw: Raw, topic: str) -> None:
    await make_group(raw, topic)
    await send(raw, topic, 4)
    async with (
        Client(raw.endpoint) as client,
        PullConsumer(raw.endpoint, topic, topic, start=Start.FIRST) as consumer,
    ):
        (held, *others) = await client.receive(topic, topic, max_messages=8)
        await consumer.seek_to(Start.FIRST)
        messages = await consumer.poll()
        for message in messages:
            consumer.done(message)
        with pytest.raises(RefusedByServer, match="by receives"):
            await consumer.commit()
        await client.ack(held, *others)


async def test_nothing_sent_after_a_consumer_is_there_is_skipped(raw: Raw, topic: str) -> None:
    """Also not before its first poll, or in a queue that came later."""
    await send(raw, topic, 8)
    async with PullConsumer(raw.endpoint, topic, topic, balance_s=0.0) as consumer:
        await send(raw, topic, 8, first=8)
        assert sorted(await drain(consumer)) == list(range(8, 16))
        await set_queues(raw, topic, 6)
        await send(raw, topic, 12, first=16)
        assert sorted(await drain(consumer)) == list(range(16, 28))
