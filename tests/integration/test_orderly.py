"""The ordered push consumer against a real server: each queue in order, whatever fails and whoever
comes and goes."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from integration.conftest import Raw
from integration.served import send
from integration.test_classic_retry import committed, dead_letters, found_by, make, until

from popmq import (
    OrderlyConsumer,
    PullConsumer,
    Queue,
    ReceivedMessage,
    Reject,
    Retry,
    Start,
)
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_broker.config import BrokerConfig
from popmq_cli.main import main
from popmq_common.process.clock import SystemClock
from popmq_proxy.config import ProxyConfig
from popmq_standalone.app import standalone

BROKER = "broker-a"
SHORT_LOCK_S = 6.0
QUICK = {"commit_s": 0.2, "balance_s": 0.3, "start": Start.FIRST, "suspend_s": 0.05}


@asynccontextmanager
async def serving(folder: Path, **settings: Any) -> AsyncIterator[str]:
    broker = BrokerConfig(create_groups=True, data_dir=folder, disk_reserve_bytes=0, **settings)
    proxy = ProxyConfig(create_topics=True, port=0, log_level="error")
    async with standalone(broker, proxy, SystemClock()) as found:
        yield f"127.0.0.1:{found.proxy.port}"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[str]:
    async with serving(tmp_path / "data") as endpoint:
        yield endpoint


@pytest.fixture
async def short(tmp_path: Path) -> AsyncIterator[str]:
    """Queue locks do not live long."""
    async with serving(tmp_path / "short", queue_lock_ms=int(SHORT_LOCK_S * 1000)) as endpoint:
        yield endpoint


@asynccontextmanager
async def running(
    consumer: OrderlyConsumer, handle: Callable[[ReceivedMessage], Awaitable[None]]
) -> AsyncIterator["asyncio.Task[None]"]:
    async with consumer:
        task = asyncio.create_task(consumer.run(handle))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def holders(server: str, group: str) -> list[tuple[int, str]]:
    async with grpc.aio.insecure_channel(server) as channel:
        request = admin.DescribeGroupRequest(name=group)
        found = await admin_grpc.AdminStub(channel).DescribeGroup(request)
        return [(queue.queue_id, queue.locked_by) for queue in found.queues if queue.locked_by]


async def test_a_message_that_fails_is_tried_in_its_place_and_only_its_queue_waits(
    server: str,
) -> None:
    await make(server, "t", queues=2)
    await send(server, "t", *map(str, range(12)))
    seen: dict[int, list[tuple[bytes, int]]] = defaultdict(list)
    repaired = False

    async def handle(message: ReceivedMessage) -> None:
        seen[message.queue_id].append((message.body, message.delivery_attempt))
        if message.body == stuck and not repaired:
            raise OSError("not yet")

    async with PullConsumer(server, "t", "look", start=Start.FIRST) as look:
        messages = await look.poll()
    stuck, queue = messages[1].body, messages[1].queue_id
    bodies = [message.body for message in messages]
    consumer = OrderlyConsumer(server, "t", "t", **QUICK)  # type: ignore[arg-type]
    async with running(consumer, handle):
        await until(lambda: len(seen[1 - queue]) == 6 and len(seen[queue]) >= 5)
        assert seen[queue][:4] == [(bodies[0], 1), (stuck, 1), (stuck, 2), (stuck, 3)]
        repaired = True
        await until(lambda: [one for one, _ in seen[queue]][-1] == bodies[-1])
    order = list(dict.fromkeys(body for body, _ in seen[queue]))
    assert order == bodies
    assert all(attempt == 1 for body, attempt in seen[queue] if body != stuck)
    assert await committed(server, "t", "t") == 12
    assert consumer.failed >= 3


async def test_after_the_last_attempt_or_when_rejected_it_is_dead_and_its_order_goes_on(
    server: str,
) -> None:
    await make(server, "t")
    await send(server, "t", "a", "fails", "b", "wrong", "c")
    seen: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if message.body == b"fails":
            raise Retry(0.02, "no connection")
        if message.body == b"wrong":
            raise Reject("no order")

    consumer = OrderlyConsumer(server, "t", "t", max_attempts=3, **QUICK)  # type: ignore[arg-type]
    async with running(consumer, handle):
        await until(lambda: b"c" in seen)
    assert seen == [b"a", b"fails", b"fails", b"fails", b"b", b"wrong", b"c"]
    found = await dead_letters(server, "t")
    assert found == [(b"fails", "no connection", 3), (b"wrong", "no order", 1)]


async def test_no_queue_has_two_consumers_while_they_come_and_go(server: str) -> None:
    """What one has begun it finishes, and the next one goes on behind it: each message once, in
    the order of its queue, for every consumer leaves cleanly."""
    await make(server, "t", queues=4)
    await send(server, "t", *map(str, range(120)))
    inside: set[int] = set()
    seen: dict[int, list[int]] = defaultdict(list)

    async def handle(message: ReceivedMessage) -> None:
        assert message.queue_id not in inside, "two at a time"
        inside.add(message.queue_id)
        await asyncio.sleep(0.02)
        seen[message.queue_id].append(message.queue_offset)
        inside.discard(message.queue_id)

    def count() -> int:
        return sum(map(len, seen.values()))

    def consumer() -> Any:
        return running(OrderlyConsumer(server, "t", "t", drain_s=30, **QUICK), handle)  # type: ignore[arg-type]

    async with consumer():
        await until(lambda: count() >= 10)
        async with consumer():
            await until(lambda: count() >= 40)
        async with consumer():
            await until(lambda: count() >= 80)
    async with consumer():
        await until(lambda: count() == 120)
    assert seen == {i: list(range(30)) for i in range(4)}


async def test_a_consumer_that_dies_keeps_its_queue_until_the_lock_is_over(short: str) -> None:
    await make(short, "t")
    await send(short, "t", "a", "b")
    queue = Queue(BROKER, 0)
    seen: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)

    dead = PullConsumer(short, "t", "t", ordered=True, **_pulled())
    await dead.__aenter__()  # and then says nothing any more
    await dead.keep_up()
    assert dead.queues == [queue]
    holder = await holders(short, "t")
    async with PullConsumer(short, "t", "t", queues="all", start=Start.FIRST) as other:
        assert await other.poll(wait_s=0.2) == []  # not by the side of it either
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    consumer = OrderlyConsumer(short, "t", "t", session_s=1.0, **QUICK)  # type: ignore[arg-type]
    async with running(consumer, handle):
        await until(lambda: seen == [b"a", b"b"])
        assert loop.time() - began_s > 0.8 * SHORT_LOCK_S
        assert await holders(short, "t") != holder
    assert await holders(short, "t") == []
    await dead._client.__aexit__(None, None, None)


def _pulled() -> Any:
    return {"start": Start.FIRST, "session_s": 1.0}


async def test_a_queue_that_was_not_asked_for_in_time_is_not_worked_on(short: str) -> None:
    """Half the lock's time after it asked last, a consumer stops by itself, before the broker gives
    the queue to another one."""
    await make(short, "t")
    await send(short, "t", *map(str, range(200)))
    seen: list[float] = []
    loop = asyncio.get_running_loop()

    async def handle(message: ReceivedMessage) -> None:
        seen.append(loop.time())
        await asyncio.sleep(0.2)

    consumer = OrderlyConsumer(short, "t", "t", **{**QUICK, "balance_s": 3_600.0})  # type: ignore[arg-type]
    async with running(consumer, handle):
        await until(lambda: seen)
        await found_by(lambda: holders(short, "t"), 0)  # given back
    assert 1 < len(seen) < 200
    assert max(seen) - seen[0] < SHORT_LOCK_S / 2 + 1
    assert await committed(short, "t", "t") == len(seen)


async def test_who_holds_a_queue_is_shown_and_every_front_locks(raw: Raw) -> None:
    await make(raw.endpoint, "ordered", queues=2)
    await send(raw.endpoint, "ordered", "a", "b")
    seen: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)

    async with running(OrderlyConsumer(raw.endpoint, "ordered", "ordered", **QUICK), handle):  # type: ignore[arg-type]
        await until(lambda: len(seen) == 2)
        found = dict(await holders(raw.endpoint, "ordered"))
        assert sorted(found) == [0, 1]
        assert len(set(found.values())) == 1
        arguments = ["group", "show", "ordered", "--endpoint", raw.endpoint]
        shown = await asyncio.to_thread(CliRunner().invoke, main, arguments)
        assert "PULLED BY" in shown.output
        assert found[0] in shown.output
    assert await holders(raw.endpoint, "ordered") == []
