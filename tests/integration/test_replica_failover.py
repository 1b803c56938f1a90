"""What clients keep when another replica becomes primary: processes that are killed and moved."""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from harness.processes import Server
from harness.replica_processes import replicated
from integration.test_replicas import in_sync, listed, until

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq import Client

NAMES = {"a1", "a2", "a3"}
ENV = {"POPMQ_PROXY_BROKER_WAIT_MS": "5000", "POPMQ_PROXY_INVISIBLE_MS_MIN": "100"}
SENDS, AT_ONCE = 3_000, 200
LEASE_S = 4.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with replicated(tmp_path, *sorted(NAMES), env=ENV) as made:
        until(lambda: in_sync(made) == NAMES)
        made.cli("topic", "create", "orders", "--queues", "2")
        made.cli("group", "create", "g", "--from", "first")
        yield made


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 120))


@pytest.mark.timeout(300)
def test_sends_that_are_tried_again_while_the_primary_is_killed_are_stored_once(
    server: Server,
) -> None:
    async def work() -> None:
        async with Client(server.endpoint, request_timeout_s=1.0, send_attempts=30) as client:
            places = asyncio.Semaphore(AT_ONCE)
            primary = server.processes[listed(server)["replicas"][0]["name"]]

            async def send(number: int) -> None:
                async with places:
                    await client.send("orders", b"%d" % number)
                if number == SENDS // 3:
                    primary.kill()

            await asyncio.gather(*(send(number) for number in range(SENDS)))
            found: Counter[bytes] = Counter()
            while messages := await client.receive("orders", "g", max_messages=32, wait_s=3.0):
                found.update(message.body for message in messages)
                await client.ack(*messages)
            assert found == {b"%d" % number: 1 for number in range(SENDS)}

    run(work())


@pytest.mark.timeout(300)
def test_a_lease_goes_on_where_it_stopped_when_the_primary_died(server: Server) -> None:
    async def work() -> None:
        async with Client(server.endpoint, send_attempts=30) as client:
            await client.send("orders", b"held")
            (held,) = await client.receive("orders", "g", invisible_s=LEASE_S, wait_s=10.0)
            for name in NAMES:
                server.processes[name].kill()
            await asyncio.sleep(LEASE_S + 1.0)  # nobody could ack it in time
            for name in NAMES:
                server.processes[name].start()
            await asyncio.to_thread(until, lambda: len(in_sync(server)) > 1)
            await client.ack(held)
            assert await client.receive("orders", "g", wait_s=LEASE_S) == []

    run(work())


@pytest.mark.timeout(300)
def test_a_receive_that_waits_at_a_primary_goes_on_at_the_next_one(server: Server) -> None:
    """It has waited longer than a call waits for a broker, when the primary hands over."""
    topic = v2.Resource(name="orders")
    queue = v2.MessageQueue(topic=topic, broker=v2.Broker(name="broker-a"))
    request = service.ReceiveMessageRequest(
        group=v2.Resource(name="g"), message_queue=queue, batch_size=1
    )
    request.invisible_duration.seconds = 30
    request.long_polling_timeout.seconds = 20

    async def work() -> None:
        async with (
            Client(server.endpoint) as client,
            grpc.aio.insecure_channel(server.endpoint) as channel,
        ):
            stub: Any = service_grpc.MessagingServiceStub(channel)
            metadata = (("x-mq-client-id", "me"),)
            poll = stub.ReceiveMessage(request, metadata=metadata, timeout=40)
            answer = asyncio.ensure_future(_all(poll))
            await asyncio.sleep(6.0)
            await asyncio.to_thread(server.cli, "replica", "move-primary", "broker-a")
            assert not answer.done()
            await client.send("orders", b"after")
            responses = await answer
            assert [one.status.code for one in responses if one.HasField("status")] == [v2.OK]
            assert [one.message.body for one in responses if one.HasField("message")] == [b"after"]

    run(work())


async def _all(stream: Any) -> list[service.ReceiveMessageResponse]:
    return [one async for one in stream]
