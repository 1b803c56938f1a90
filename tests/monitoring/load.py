"""Something of everything that a figure counts, so that no panel of a dashboard is empty."""

import asyncio
from contextlib import suppress
from typing import Any

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq import Client
from popmq.errors import PopMQClientError

ORDERS, LINES, PLACED = "orders", "lines", "placed"
BILLING, ORDERING, WATCHING = "billing", "ordering", "watching"
LEASE_S = 1.0
LEFT_EVERY = 12
"""Loops, of which one leaves what is in order to its lease."""
RENEWER = (("x-mq-client-id", "renewer@1@1@1"),)


async def load(endpoint: str, stop: asyncio.Event) -> None:
    """Until `stop` is set."""
    async with Client(endpoint) as client, grpc.aio.insecure_channel(endpoint) as channel:
        stub: Any = service_grpc.MessagingServiceStub(channel)
        number = 0
        while not stop.is_set():
            await produce(client, number)
            await consume(client, number)
            await renew(stub, number)
            with suppress(PopMQClientError):
                await client.send("no topic has a blank", b"x")
            number += 1


async def produce(client: Client, number: int) -> None:
    for i in range(10):
        await client.send(ORDERS, b"%d" % i, keys=[f"{number}-{i}"])
    for i in range(2):
        await client.send(LINES, b"%d" % i, message_group="a")
    await client.send(ORDERS, b"later", delay_s=60)
    await client.transactions.send(PLACED, b"half")


async def consume(client: Client, number: int) -> None:
    """Most are acked; one each is nacked, rejected, acked too late, and left to be blocked by."""
    found = await client.receive(ORDERS, BILLING, invisible_s=LEASE_S, max_messages=32, wait_s=1)
    for _ in range(2):  # each from one queue
        found += await client.receive(
            ORDERS, BILLING, invisible_s=LEASE_S, max_messages=32, wait_s=0
        )
    for fate, message in enumerate(found):
        with suppress(PopMQClientError):  # on a slow machine the lease may be over
            if fate == 0:
                await client.nack(message, delay_s=60)
            elif fate == 1:
                await client.reject(message, "not an order")
            elif fate > 3:
                await client.ack(message)
    first = await client.receive(LINES, ORDERING, invisible_s=20, max_messages=8, wait_s=0.1)
    if number % LEFT_EVERY:
        with suppress(PopMQClientError):
            await client.ack(*first)
    await asyncio.sleep(LEASE_S + 0.2)
    for message in found[2:4]:
        with suppress(PopMQClientError):
            await client.ack(message)


async def renew(stub: Any, number: int) -> None:
    """A push consumer's poll: the server renews what it holds as long as it lives. It keeps one
    message for ever."""
    topic = v2.Resource(name=ORDERS)
    request = service.ReceiveMessageRequest(
        group=v2.Resource(name=WATCHING),
        message_queue=v2.MessageQueue(topic=topic),
        batch_size=32,
        auto_renew=True,
    )
    request.long_polling_timeout.FromMilliseconds(0)
    call = stub.ReceiveMessage(request, timeout=10, metadata=RENEWER)
    found = [one.message.system_properties async for one in call if one.HasField("message")]
    for one in found if number else found[:-1]:
        entry = service.AckMessageEntry(
            message_id=one.message_id, receipt_handle=one.receipt_handle
        )
        ack = service.AckMessageRequest(group=request.group, topic=topic, entries=[entry])
        await stub.AckMessage(ack, timeout=10, metadata=RENEWER)
    beat = service.HeartbeatRequest(group=v2.Resource(name=WATCHING), client_type=v2.PUSH_CONSUMER)
    await stub.Heartbeat(beat, timeout=10, metadata=RENEWER)
