"""Producers and consumers against a standalone: shared requests, bounds, failures, threads."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from harness.processes import free_port
from integration.served import left, make_group, send_all, serving, until

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq import (
    Client,
    ClientClosed,
    Json,
    Message,
    NotHeld,
    PopMQClientError,
    ReceivedMessage,
    RefusedByServer,
    SendReceipt,
    sync,
)
from popmq_consumer.v1 import consumer_pb2


@pytest.fixture
async def client(endpoint: str) -> AsyncIterator[Client]:
    async with Client(endpoint) as made:
        yield made


class Counted:
    """Requests of one method of a stub: how many messages each has, how many are under way."""

    def __init__(self, stub: Any, method: str, size: Callable[[Any], int]) -> None:
        self._ask, self._size = getattr(stub, method), size
        self.__name__ = method
        self.sizes: list[int] = []
        self.under_way = self.most = 0
        setattr(stub, method, self)

    async def __call__(self, request: Any, **options: Any) -> Any:
        if isinstance(request, bytes):
            request = service.SendMessageRequest.FromString(request)
        self.sizes.append(self._size(request))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            return await self._ask(request, **options)
        finally:
            self.under_way -= 1


async def test_sends_and_acks_of_many_tasks_share_requests(endpoint: str, client: Client) -> None:
    await make_group(endpoint, "g")
    stub, consumer = client.connection.stub, client.connection.consumer
    sends = Counted(stub, "SendMessage", lambda request: len(request.messages))
    acks = Counted(
        consumer, "AckRuns", lambda request: sum(len(run.queue_offsets) for run in request.runs)
    )
    producer = client.producer(batch_messages_max=32)
    await producer.send("t", b"first")
    receipts = await asyncio.gather(*(producer.send("t", b"%d" % i) for i in range(200)))
    assert len({receipt.message_id for receipt in receipts}) == 200
    assert sum(sends.sizes) == 201
    assert max(sends.sizes) == 32
    assert len(sends.sizes) <= 10
    assert sends.most <= 4
    found: list[ReceivedMessage] = []
    while len(found) < 201:
        found += await client.receive("t", "g", max_messages=32, wait_s=5)
    await asyncio.gather(*(message.ack() for message in found))
    assert sum(acks.sizes) == 201
    assert len(acks.sizes) <= 4
    assert await left(endpoint, "g") == 0


async def test_each_caller_learns_of_its_own_message(client: Client) -> None:
    producer = client.producer()
    results = await asyncio.gather(
        *(producer.send("t", body) for body in (b"1", b"", b"3")), return_exceptions=True
    )
    assert isinstance(results[0], SendReceipt)
    assert isinstance(results[1], RefusedByServer)
    assert isinstance(results[2], SendReceipt)
    both = await producer.send_many(
        "t", [Message(body=b""), Message(body=b"x")], return_exceptions=True
    )
    assert [isinstance(one, SendReceipt) for one in both] == [False, True]


async def test_a_message_group_keeps_the_order_of_the_calls(endpoint: str, client: Client) -> None:
    await make_group(endpoint, "g", fifo=True)
    producer = client.producer(batch_messages_max=3)
    sends = [producer.send("t", b"%d" % i, message_group="a") for i in range(40)]
    await asyncio.gather(*sends)
    found: list[bytes] = []
    while len(found) < 40:
        messages = await client.receive("t", "g", max_messages=32, wait_s=5)
        found += [message.body for message in messages]
        await client.ack(*messages)
    assert found == [b"%d" % i for i in range(40)]


async def test_sends_wait_for_room(client: Client) -> None:
    stub = client.connection.stub
    sends = Counted(stub, "SendMessage", lambda request: len(request.messages))
    producer = client.producer(held_messages_max=5, held_bytes_max=4_000)
    most = 0

    async def send(size: int) -> None:
        nonlocal most
        await producer.send("t", bytes(size))
        most = max(most, producer.held)

    await asyncio.gather(*(send(1_000) for _ in range(20)), send(50_000))
    assert sum(sends.sizes) == 21
    assert max(sends.sizes) <= 3  # of 1,000 bytes and what belongs to them
    assert most <= 5
    assert producer.held == 0


async def test_a_send_that_is_cancelled_leaves_no_trace_in_the_room(client: Client) -> None:
    producer = client.producer(held_messages_max=1)
    sends = [asyncio.create_task(producer.send("t", b"%d" % i)) for i in range(3)]
    await asyncio.sleep(0)
    for task in sends[:2]:
        task.cancel()
    await asyncio.gather(*sends[:2], return_exceptions=True)
    await sends[2]
    await producer.flush()
    assert producer.held == 0


async def test_a_closed_producer_has_sent_everything(endpoint: str, client: Client) -> None:
    await make_group(endpoint, "g")
    async with client.producer() as producer:
        tasks = [asyncio.create_task(producer.send("t", b"%d" % i)) for i in range(50)]
        async with asyncio.timeout(60):
            while producer.held < 50:  # noqa: ASYNC110  each turn is looked at: they are soon sent
                await asyncio.sleep(0)
    assert all(task.done() for task in tasks)
    with pytest.raises(ClientClosed):
        await producer.send("t", b"too late")


async def test_bodies_are_compressed_and_come_as_they_were(endpoint: str, client: Client) -> None:
    await make_group(endpoint, "g")
    body = {"text": "popmq " * 500}
    producer = client.producer(Json(), compress_from_bytes=1_000)
    await producer.send("t", body)
    await producer.send("t", {"text": "short"})
    found: list[ReceivedMessage] = []
    while len(found) < 2:
        found += await client.receive("t", "g", wait_s=5)
    assert [Json().decode(one.body) for one in sorted(found, key=lambda one: -len(one.body))] == [
        body,
        {"text": "short"},
    ]
    await client.ack(*found)


async def test_a_consumer_holds_no_more_than_it_may(endpoint: str, client: Client) -> None:
    await make_group(endpoint, "g")
    await send_all(client, "t", [Message(body=b"%d" % i) for i in range(10)])
    consumer = client.consumer("t", "g", held_max=4)
    messages: list[ReceivedMessage] = []
    while len(messages) < 4:
        messages += await consumer.receive(32, wait_s=5)
    assert len(messages) == consumer.held == 4
    waiting = asyncio.create_task(consumer.receive(32, wait_s=5))
    assert len(await client.receive("t", "g", max_messages=32, wait_s=5)) == 6
    assert not waiting.done()
    await messages[0].nack(0, "not now")
    (again,) = await waiting
    assert (again.body, again.delivery_attempt) == (messages[0].body, 2)
    await messages[1].ack()
    await messages[2].reject("never")
    await again.extend(30)
    await again.ack()
    assert consumer.held == 1
    await consumer.close()
    (given_back,) = await client.receive("t", "g", wait_s=10)
    assert (given_back.body, given_back.delivery_attempt) == (messages[3].body, 1)
    with pytest.raises(ClientClosed):
        await consumer.receive()


async def test_iterating_ends_with_close(endpoint: str, client: Client) -> None:
    await make_group(endpoint, "g")
    await send_all(client, "t", [Message(body=b"%d" % i) for i in range(5)])
    consumer, seen = client.consumer("t", "g", held_max=5, lease_s=4.0), []

    async def consume() -> None:
        async for message in consumer:
            seen.append(message.delivery_attempt)
            await asyncio.sleep(1.0)  # the last ones wait longer than a lease
            await message.ack()

    consuming = asyncio.create_task(consume())
    await until(lambda: len(seen) == 5 and not consumer.held)
    await consumer.close()
    await consuming
    assert seen == [1] * 5
    assert await left(endpoint, "g") == 0


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_receive_may_bring_more_than_a_pop(
    endpoint: str, client: Client, fifo: bool
) -> None:
    await make_group(endpoint, "g", fifo=fifo)
    messages = [Message(body=b"%d" % i, message_group=str(i)) for i in range(300)]
    await send_all(client, "t", messages)
    sizes: list[int] = []
    bodies: set[bytes] = set()
    while len(bodies) < 300:
        found = await client.receive("t", "g", max_messages=100, wait_s=5)
        bodies |= {message.body for message in found}
        sizes.append(len(found))
        await client.ack(*found)
    assert max(sizes) <= (32 if fifo else 100)
    assert fifo or max(sizes) > 32


async def test_large_messages_come_in_small_answers(endpoint: str, client: Client) -> None:
    await make_group(endpoint, "g")
    await send_all(client, "t", [Message(body=bytes(64 * 1024))] * 64)
    assert len(await client.receive("t", "g", max_messages=64, wait_s=5)) <= 32


async def receive_all(client: Client, count: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    while len(found) < count:
        found += await client.receive("t", "g", max_messages=count, wait_s=5)
    return found


async def test_a_server_that_knows_the_public_protocol_alone(endpoint: str, client: Client) -> None:
    """Then the messages of a receive come as a stream."""

    asked: list[Any] = []

    async def unimplemented(request: Any, **_: Any) -> Any:
        asked.append(request)
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNIMPLEMENTED, nothing, nothing, "", "")

    await make_group(endpoint, "g")
    await send_all(client, "t", [Message(body=b"1"), Message(body=b"2")])
    client.connection.consumer.ReceiveRecords = unimplemented
    client.connection.consumer.AckRuns = unimplemented
    found: list[ReceivedMessage] = []
    while len(found) < 2:
        found += await client.receive("t", "g", wait_s=5)
    assert sorted(message.body for message in found) == [b"1", b"2"]
    await client.ack(*found)
    assert await client.receive("t", "g", wait_s=0) == []
    assert len(asked) == 2, "each call was tried once"


async def test_a_broker_that_knows_no_acks_by_runs(endpoint: str, client: Client) -> None:
    """The proxy tells so of each of its messages, and they are acked by their handles."""
    asked: list[Any] = []

    async def not_implemented(request: Any, **_: Any) -> Any:
        asked.append(request)
        status = v2.Status(code=v2.NOT_IMPLEMENTED)
        return consumer_pb2.AckRunsResponse(
            status=status, refusals=[consumer_pb2.RunRefusal(run=0, status=status)]
        )

    await make_group(endpoint, "g")
    await send_all(client, "t", [Message(body=b"1")] * 2)
    client.connection.consumer.AckRuns = not_implemented
    for _ in range(2):
        (message,) = await client.receive("t", "g", max_messages=1, wait_s=5)
        await client.ack(message)
    assert len(asked) == 1  # it is not asked again
    assert await client.receive("t", "g", wait_s=0) == []


async def test_nacks_share_a_request_and_a_handle(endpoint: str, client: Client) -> None:
    asked: list[Any] = []
    nack = client.connection.consumer.NackRuns

    async def noted(request: Any, **options: Any) -> Any:
        asked.append(request)
        return await nack(request, **options)

    await make_group(endpoint, "g")
    await send_all(client, "t", [Message(body=b"1")] * 40)
    client.connection.consumer.NackRuns = noted
    found = await receive_all(client, 40)
    await asyncio.gather(*(message.nack(delay_s=0, reason="not now") for message in found))
    assert [sum(len(run.queue_offsets) for run in one.runs) for one in asked] == [40]
    assert len(asked[0].runs) <= 8 * 2  # of eight queues, received by some calls
    again = await receive_all(client, 40)
    assert {message.delivery_attempt for message in again} == {2}


async def test_a_broker_that_knows_no_nacks_by_runs(endpoint: str, client: Client) -> None:
    """What another broker did of the same request is not asked for again: its handles are void."""
    asked: list[Any] = []
    nack = client.connection.consumer.NackRuns

    async def of_two_brokers(request: Any, **options: Any) -> Any:
        asked.append(request)
        older = request.runs.pop()
        await nack(request, **options)
        status = v2.Status(code=v2.NOT_IMPLEMENTED)
        refusals = [
            consumer_pb2.RunRefusal(run=len(request.runs), queue_offset=offset, status=status)
            for offset in older.queue_offsets
        ]
        several = v2.Status(code=v2.MULTIPLE_RESULTS)
        return consumer_pb2.NackRunsResponse(status=several, refusals=refusals)

    await make_group(endpoint, "g")
    await send_all(client, "t", [Message(body=b"1")] * 16)
    client.connection.consumer.NackRuns = of_two_brokers
    for attempt in (1, 2):
        found = await receive_all(client, 16)
        assert {message.delivery_attempt for message in found} == {attempt}
        await asyncio.gather(*(message.nack(delay_s=0) for message in found))
    assert len(asked) == 1  # it is not asked again
    assert len(await receive_all(client, 16)) == 16


async def test_a_message_without_a_lease_says_so(endpoint: str, client: Client) -> None:
    await make_group(endpoint, "g")
    await client.send("t", b"x")
    (message,) = await client.receive("t", "g", wait_s=5)
    await message.ack()  # of the client, without a consumer
    message.holder = None
    with pytest.raises(NotHeld, match="pull consumer"):
        await message.ack()


async def test_another_endpoint_takes_over(tmp_path: Path) -> None:
    first, second = free_port(), free_port()
    client = Client(f"localhost:{first};127.0.0.1:{second}")  # nothing has connected yet
    producer = client.producer(retry_s=60)
    try:
        async with serving(tmp_path, port=second):
            await producer.send("t", b"1")
        waiting = asyncio.create_task(producer.send("t", b"2"))
        async with serving(tmp_path, port=first):
            await waiting
    finally:
        await client.close()


async def test_a_send_gives_up_in_the_end() -> None:
    async with Client(f"127.0.0.1:{free_port()}", request_timeout_s=0.2) as client:
        with pytest.raises(PopMQClientError) as raised:
            await client.producer(retry_s=0.1).send("t", b"x")
    assert raised.value.retriable


async def test_code_without_asyncio_may_use_several_threads(endpoint: str) -> None:
    await make_group(endpoint, "g")
    done: set[bytes] = set()

    def work() -> None:
        with sync.SyncClient(endpoint) as client:
            producer = client.producer()
            senders = [
                threading.Thread(target=send, args=(producer, number)) for number in range(4)
            ]
            for thread in senders:
                thread.start()
            with client.consumer("t", "g", held_max=8) as consumer:
                for message in consumer:
                    done.add(message.body)
                    consumer.ack(message)
                    if len(done) == 40:
                        break
            for thread in senders:
                thread.join()
        with pytest.raises(ClientClosed):
            producer.send("t", b"x")

    def send(producer: sync.SyncProducer[bytes], number: int) -> None:
        for i in range(10):
            producer.send("t", b"%d-%d" % (number, i))

    await asyncio.to_thread(work)
    assert len(done) == 40
    assert await left(endpoint, "g") == 0
    assert not [thread for thread in threading.enumerate() if thread.name == "popmq-sync"]
