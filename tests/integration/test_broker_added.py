"""A broker that is added while consumers of each kind are there: each gets what is sent to it from
its first message on, and none is disturbed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from harness.processes import Server, add_broker, cluster
from integration.served import until

from popmq import (
    BroadcastConsumer,
    Client,
    OrderlyConsumer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)

TOPIC = "t"
MESSAGES = 24
BALANCE_S = 0.5
Heard = dict[str, list[str]]
"""By kind of consumer, the bodies that came."""
Handle = Callable[[ReceivedMessage], Awaitable[None]]


def hears(heard: list[str]) -> Handle:
    async def handle(message: ReceivedMessage) -> None:
        heard.append(message.body.decode())

    return handle


async def receive(client: Client, heard: list[str]) -> None:
    while True:
        for message in await client.receive(TOPIC, "pop", wait_s=1.0):
            await message.ack()
            heard.append(message.body.decode())


async def pull(consumer: PullConsumer, heard: list[str]) -> None:
    while True:
        for message in await consumer.poll(wait_s=0.3):
            heard.append(message.body.decode())
            consumer.done(message)


@asynccontextmanager
async def consuming(endpoint: str, folder: Path, heard: Heard) -> AsyncIterator[None]:
    """One of each kind, each in a group of its own, from when it has started. Raises what one of
    them ends with."""
    options: dict[str, Any] = {"balance_s": BALANCE_S}
    async with AsyncExitStack() as opened:
        client = await opened.enter_async_context(Client(endpoint))
        assert await client.receive(TOPIC, "pop", wait_s=0) == []
        pulling = await opened.enter_async_context(PullConsumer(endpoint, TOPIC, "pull", **options))
        push = await opened.enter_async_context(PushConsumer(endpoint, TOPIC, "push", **options))
        orderly = await opened.enter_async_context(
            OrderlyConsumer(endpoint, TOPIC, "orderly", **options)
        )
        broadcast = await opened.enter_async_context(
            BroadcastConsumer(endpoint, TOPIC, "broadcast", folder=folder, **options)
        )
        tasks = [
            asyncio.create_task(receive(client, heard["pop"])),
            asyncio.create_task(pull(pulling, heard["pull"])),
            asyncio.create_task(push.run(hears(heard["push"]))),
            asyncio.create_task(orderly.run(hears(heard["orderly"]))),
            asyncio.create_task(broadcast.run(hears(heard["broadcast"]))),
        ]
        try:
            yield
            for task in tasks:
                assert not task.done(), task.exception()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def spread(server: Server) -> None:
    """The topic to the new broker."""
    shown: Any = {"queues": []}
    while {queue["broker"] for queue in shown["queues"]} != {"broker-a", "broker-b"}:
        await asyncio.to_thread(server.cli, "topic", "spread", TOPIC)
        shown = await asyncio.to_thread(server.cli, "topic", "show", TOPIC)


async def scenario(server: Server, folder: Path) -> tuple[Heard, list[str]]:
    """(what came, what was sent)."""
    heard: Heard = {kind: [] for kind in ("pop", "pull", "push", "orderly", "broadcast")}
    async with consuming(server.endpoint, folder, heard):
        async with Client(server.endpoint) as client:
            await client.send(TOPIC, b"first")
        await until(lambda: all(heard.values()))
        await asyncio.to_thread(add_broker, server, folder, "broker-b")
        await spread(server)
        sent = ["first", *(f"{number}" for number in range(MESSAGES))]
        async with Client(server.endpoint) as client:
            for body in sent[1:]:
                await client.send(TOPIC, body.encode())
            _, queues = await client.admin.describe_topic(TOPIC)
        on_b = sum(queue.max_offset for queue in queues if queue.broker == "broker-b")
        assert on_b >= MESSAGES // 3
        with suppress(AssertionError):  # who lacks what is told by the test
            await until(lambda: all(set(sent) <= set(one) for one in heard.values()))
    return heard, sent


def test_every_kind_of_consumer_gets_all_that_is_sent_to_a_new_broker(tmp_path: Path) -> None:
    with cluster(tmp_path, brokers=1, proxies=1) as server:
        server.cli("topic", "create", TOPIC, "--queues", "2")
        heard, sent = asyncio.run(scenario(server, tmp_path))
    missing = {kind: set(sent) - set(bodies) for kind, bodies in heard.items()}
    assert not any(missing.values()), missing
