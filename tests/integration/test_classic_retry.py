"""The push consumer over pull against a real server: retries by delay levels, dead letters, what
happens when sending back fails, bounds, and a clean end."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest
from integration.conftest import Raw
from integration.served import send

from popmq import (
    Client,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    Reject,
    Retry,
    RetryAtLevel,
    ServerUnreachable,
    Start,
)
from popmq.pull.send_back import send_back
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_broker.config import BrokerConfig
from popmq_common.process.clock import SystemClock
from popmq_proxy.config import ProxyConfig
from popmq_standalone.app import standalone

QUICK = {"commit_s": 0.2, "balance_s": 0.5, "start": Start.FIRST}
WITHIN_S = 60
T = TypeVar("T")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[str]:
    """With delay levels of a second."""
    broker = BrokerConfig(
        create_groups=True,
        data_dir=tmp_path / "data",
        disk_reserve_bytes=0,
        delay_levels="1s 1s 1s 1s 1s 1s",
    )
    proxy = ProxyConfig(create_topics=True, port=0, log_level="error")
    async with standalone(broker, proxy, SystemClock()) as serving:
        yield f"127.0.0.1:{serving.proxy.port}"


async def make(server: str, topic: str, queues: int = 1, max_attempts: int = 16) -> None:
    """The topic, and the group of its name."""
    async with grpc.aio.insecure_channel(server) as channel:
        stub = admin_grpc.AdminStub(channel)
        wanted = admin.Topic(name=topic, queues=queues, message_type="MIXED")
        await stub.CreateTopic(admin.CreateTopicRequest(topic=wanted))
        group = admin.Group(name=topic, max_attempts=max_attempts)
        await stub.CreateGroup(admin.CreateGroupRequest(group=group))


async def dead_letters(server: str, group: str) -> list[tuple[bytes, str, int]]:
    async with grpc.aio.insecure_channel(server) as channel:
        request = admin.ListDeadLettersRequest(group=group, count_max=100, whole=True)
        found = await admin_grpc.AdminStub(channel).ListDeadLetters(request)
        return [(one.body, one.reason, one.attempts) for one in found.letters]


@asynccontextmanager
async def running(
    consumer: PushConsumer, handle: Callable[[ReceivedMessage], Awaitable[None]]
) -> AsyncIterator[None]:
    async with consumer:
        task = asyncio.create_task(consumer.run(handle))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def found_by(look: Callable[[], Awaitable[list[T]]], count: int = 1) -> list[T]:
    """What it finds when it finds so many."""
    async with asyncio.timeout(WITHIN_S):
        while len(found := await look()) != count:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found


async def committed(server: str, topic: str, group: str) -> int:
    """Where a pull consumer of the group would go on."""
    async with PullConsumer(server, topic, group, commit_s=None) as pull:
        await pull.keep_up()
        return sum(pull.positions().values())


async def test_what_failed_comes_again_under_its_own_topic_and_nothing_waits_for_it(
    server: str,
) -> None:
    await make(server, "orders")
    await send(server, "orders", "bad", "good")
    seen: list[tuple[str, bytes, int]] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append((message.topic, message.body, message.delivery_attempt))
        if message.body == b"bad" and message.delivery_attempt < 3:
            raise ConnectionError("database is down")

    async with running(PushConsumer(server, "orders", "orders", **QUICK), handle):  # type: ignore[arg-type]
        await until(lambda: len(seen) == 4)
    assert [one for one in seen if one[1] == b"bad"] == [("orders", b"bad", n) for n in (1, 2, 3)]
    assert seen.index(("orders", b"good", 1)) < seen.index(("orders", b"bad", 2))
    assert await committed(server, "orders", "orders") == 2
    assert await committed(server, "%RETRY%orders", "orders") == 2
    assert await dead_letters(server, "orders") == []


async def test_after_the_last_attempt_or_when_rejected_it_is_dead_with_its_reason(
    server: str,
) -> None:
    await make(server, "t", max_attempts=3)
    await send(server, "t", "fails", "wrong", "later", "given")
    seen: Counter[bytes] = Counter()

    async def handle(message: ReceivedMessage) -> None:
        seen[message.body] += 1
        first = message.delivery_attempt == 1 and seen[message.body] == 1
        if message.body == b"fails":
            raise ValueError("no number")
        if message.body == b"wrong":
            raise Reject("not an order")
        if message.body == b"later" and first:
            raise RetryAtLevel(2, "busy")
        if message.body == b"given" and first:
            raise Retry(0.5, "not now", counted=False)
        if message.body == b"given":
            assert message.delivery_attempt == 1

    async with running(PushConsumer(server, "t", "t", **QUICK), handle):  # type: ignore[arg-type]
        await until(lambda: sum(seen.values()) == 8)
        found = await found_by(lambda: dead_letters(server, "t"), 2)
    assert seen == {b"fails": 3, b"wrong": 1, b"later": 2, b"given": 2}
    reasons = [(b"fails", "ValueError: no number", 3), (b"wrong", "not an order", 1)]
    assert sorted(found) == reasons


async def test_the_consumer_may_say_how_many_attempts_there_are(server: str) -> None:
    await make(server, "t")
    await send(server, "t", "a")

    async def handle(message: ReceivedMessage) -> None:
        raise Retry(reason="never")

    consumer = PushConsumer(server, "t", "t", max_attempts=2, **QUICK)  # type: ignore[arg-type]
    async with running(consumer, handle):
        found = await found_by(lambda: dead_letters(server, "t"))
    assert found == [(b"a", "never", 2)]
    assert consumer.failed == 2


async def test_when_sending_back_fails_it_is_handled_again_here_and_its_offset_waits(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(server, "t")
    await send(server, "t", "a", "b")
    seen: list[tuple[bytes, int]] = []
    waits = asyncio.Event()

    async def unreachable(*arguments: Any, **more: Any) -> bool:
        if not waits.is_set():
            raise ServerUnreachable("cut off")
        return await send_back(*arguments, **more)

    async def handle(message: ReceivedMessage) -> None:
        seen.append((message.body, message.delivery_attempt))
        if message.body == b"a" and len(seen) < 6:
            raise OSError

    monkeypatch.setattr("popmq.pull.push.send_back", unreachable)
    consumer = PushConsumer(server, "t", "t", local_retry_s=0.1, **QUICK)  # type: ignore[arg-type]
    async with running(consumer, handle):
        await until(lambda: (b"a", 3) in seen)
        assert await committed(server, "t", "t") == 0  # b is done, a holds up the commit
        waits.set()
        await until(lambda: len(seen) >= 6)
    assert await committed(server, "t", "t") == 2


async def test_it_holds_no_more_messages_than_it_may(server: str) -> None:
    await make(server, "t")
    await send(server, "t", *map(str, range(40)))
    held: set[bytes] = set()
    go, most = asyncio.Event(), 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal most
        held.add(message.body)
        most = max(most, consumer._budget.messages)
        await go.wait()

    consumer = PushConsumer(
        server,
        "t",
        "t",
        concurrency=3,
        messages_max=5,
        **QUICK,  # type: ignore[arg-type]
    )
    async with running(consumer, handle):
        await until(lambda: consumer._budget.messages == 5 and len(held) == 3)
        assert [sum(pull.positions().values()) for pull in consumer._pulls] == [5, 0]
        go.set()
        await until(lambda: len(held) == 40)
    assert most == 5


async def test_a_group_of_several_consumers_and_topics_shares_what_failed(server: str) -> None:
    await make(server, "left", queues=4)
    await make(server, "right", queues=4)
    await send(server, "left", *(f"l{i}" for i in range(20)))
    await send(server, "right", *(f"r{i}" for i in range(20)))
    attempts: dict[tuple[str, bytes], list[int]] = defaultdict(list)

    async def handle(message: ReceivedMessage) -> None:
        attempts[message.topic, message.body].append(message.delivery_attempt)
        if message.body.endswith(b"7") and message.delivery_attempt == 1:
            raise OSError("try again")

    topics = {"left": "*", "right": "*"}
    one = PushConsumer(server, topics, "both", **QUICK)  # type: ignore[arg-type]
    two = PushConsumer(server, topics, "both", **QUICK)  # type: ignore[arg-type]
    async with running(one, handle), running(two, handle):
        failing = [("left", b"l7"), ("left", b"l17"), ("right", b"r7"), ("right", b"r17")]
        await until(lambda: len(attempts) == 40 and all(2 in attempts[key] for key in failing))
        await until(
            lambda: all(
                len(one.queues[topic]) + len(two.queues[topic]) == count
                for topic, count in {"left": 4, "right": 4, "%RETRY%both": 1}.items()
            )
        )
    assert all(topic[0].encode() == body[:1] for topic, body in attempts)


async def test_a_batch_is_done_or_failed_as_one(server: str) -> None:
    await make(server, "t")
    await send(server, "t", "a", "b", "c", "d", "e")
    batches: list[list[bytes]] = []

    async def handle(messages: list[ReceivedMessage]) -> None:
        batches.append([message.body for message in messages])
        if messages[0].delivery_attempt == 1 and messages[0].body == b"a":
            raise OSError

    async with PushConsumer(server, "t", "t", concurrency=1, **QUICK) as consumer:  # type: ignore[arg-type]
        task = asyncio.create_task(consumer.run_batches(handle, count_max=2))
        await until(lambda: sum(map(len, batches)) == 7)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert batches[:3] == [[b"a", b"b"], [b"c", b"d"], [b"e"]]
    assert sorted(body for batch in batches[3:] for body in batch) == [b"a", b"b"]


async def test_a_handler_that_does_not_end_has_failed(server: str) -> None:
    await make(server, "t")
    await send(server, "t", "slow")
    attempts: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        attempts.append(message.delivery_attempt)
        if message.delivery_attempt == 1:
            await asyncio.sleep(3_600)

    consumer = PushConsumer(server, "t", "t", handler_timeout_s=0.2, **QUICK)  # type: ignore[arg-type]
    async with running(consumer, handle):
        await until(lambda: attempts == [1, 2])


async def test_when_it_ends_running_handlers_finish_and_the_rest_is_left_to_others(
    server: str,
) -> None:
    await make(server, "t")
    await send(server, "t", "a", "b", "c")
    began, finished = [], []

    async def slowly(message: ReceivedMessage) -> None:
        began.append(message.body)
        await asyncio.sleep(0.3)
        finished.append(message.body)

    first = PushConsumer(server, "t", "t", concurrency=1, drain_s=1_000, **QUICK)  # type: ignore[arg-type]
    async with asyncio.timeout(WITHIN_S), running(first, slowly):
        await until(lambda: began)
    assert began == finished == [b"a"]
    async with running(PushConsumer(server, "t", "t", **QUICK), slowly):  # type: ignore[arg-type]
        await until(lambda: len(finished) == 3)
    assert sorted(finished) == [b"a", b"b", b"c"]


async def test_through_every_front_and_in_a_namespace(raw: Raw) -> None:
    attempts: list[tuple[str, int]] = []

    async def handle(message: ReceivedMessage) -> None:
        attempts.append((message.topic, message.delivery_attempt))
        raise Retry(delay_s=1) if message.delivery_attempt == 1 else Reject("enough")

    async with Client(raw.endpoint, namespace="shop") as client:
        await client.send("orders", b"x")
    consumer = PushConsumer(raw.endpoint, "orders", "billing", namespace="shop", **QUICK)  # type: ignore[arg-type]
    async with running(consumer, handle):
        await until(lambda: attempts == [("orders", 1), ("orders", 2)])
        found = await found_by(lambda: dead_letters(raw.endpoint, "shop%billing"))
    assert found == [(b"x", "enough", 2)]
