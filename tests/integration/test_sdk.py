"""The SDK against a standalone: what an application sees."""

import asyncio
from typing import Any

import grpc
import pytest
from integration.conftest import Raw

from popmq import Client, InvalidReceiptHandle, Message, NotAllSent, RefusedByServer, SendReceipt
from popmq import sync as popmq_sync
from popmq._core.messages.held_message import give_handle
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc


async def make_group(
    raw: Raw, name: str, max_attempts: int = 16, retry_policy: admin.RetryPolicy | None = None
) -> None:
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        group = admin.Group(
            name=name, max_attempts=max_attempts, consume_from="FIRST", retry_policy=retry_policy
        )
        await admin_grpc.AdminStub(channel).CreateGroup(admin.CreateGroupRequest(group=group))


async def test_send_receive_ack(raw: Raw, client: Client) -> None:
    await make_group(raw, "g")
    receipt = await client.send("t", b"hello", tag="a", keys=["k"], properties={"p": "v"})
    (message,) = await client.receive("t", "g", wait_s=2)
    assert (message.body, message.message_id) == (b"hello", receipt.message_id)
    assert (message.tag, message.keys, message.properties) == ("a", ("k",), {"p": "v"})
    assert message.delivery_attempt == 1
    await client.ack(message)
    assert await client.receive("t", "g", wait_s=0.1) == []


async def test_a_body_that_is_text_is_refused_where_it_was_written(endpoint: str) -> None:
    """By each way to send; nothing is stored, and the next message goes."""
    text: Any = "text"
    words = "a body is bytes, not str: encode it, or take a producer with a serializer"
    async with Client(endpoint) as client:
        await client.admin.create_group("g", start="first")
        with pytest.raises(TypeError, match=words):
            await client.send("t", text)
        with pytest.raises(TypeError, match=words):
            await client.send_many("t", [Message(body=b"good"), Message(body=text)])
        with pytest.raises(TypeError, match=words):
            await client.producer().send("t", text)
        with pytest.raises(TypeError, match=words):
            await client.transactions.send("t", text)
        await client.send("t", b"bytes")
        assert [one.body for one in await client.receive("t", "g", wait_s=0)] == [b"bytes"]
    with popmq_sync.SyncClient(endpoint) as sync_client, pytest.raises(TypeError, match=words):
        await asyncio.to_thread(sync_client.send, "t", text)


async def test_an_sql_condition(raw: Raw, client: Client) -> None:
    await make_group(raw, "g")
    for price in ("10", "30"):
        await client.send("t", price.encode(), tag="a", properties={"price": price})
    (message,) = await client.receive("t", "g", wait_s=2, sql="TAGS = 'a' AND price > 20")
    assert message.body == b"30"
    with pytest.raises(RefusedByServer, match="column 8: it ends here"):
        await client.receive("t", "g", sql="price >")


async def test_several_in_one_request(raw: Raw, client: Client) -> None:
    await make_group(raw, "g")
    several = [Message(body=b"1"), Message(body=b""), Message(body=b"3")]
    results = await client.send_many("t", several, return_exceptions=True)
    assert isinstance(results[0], SendReceipt)
    assert isinstance(results[1], RefusedByServer)
    assert isinstance(results[2], SendReceipt)
    messages = await client.receive("t", "g", wait_s=2)
    assert sorted(message.body for message in messages) == [b"1", b"3"]
    await client.ack(*messages)


@pytest.mark.parametrize("by_producer", [False, True])
async def test_one_of_several_that_is_refused_is_raised(client: Client, by_producer: bool) -> None:
    several = [Message(body=b"1"), Message(body=b""), Message(body=b"3")]
    sender = client.producer() if by_producer else client
    with pytest.raises(NotAllSent, match=r"1 of 3 messages was not stored: .*EMPTY") as refused:
        await sender.send_many("t", several)
    results = refused.value.results
    assert [isinstance(one, SendReceipt) for one in results] == [True, False, True]
    assert refused.value.exceptions == (results[1],)
    seen: list[Exception] = []
    try:
        raise refused.value
    except* RefusedByServer as group:
        seen += group.exceptions
    assert seen == [results[1]]
    assert len(await sender.send_many("t", [Message(body=b"1")] * 3)) == 3


async def test_a_changed_message_is_acked_with_its_new_handle(raw: Raw, client: Client) -> None:
    await make_group(raw, "g")
    await client.send("t", b"x")
    (message,) = await client.receive("t", "g", invisible_s=5, wait_s=2)
    old = message.receipt_handle
    await client.change_invisible(message, 30)
    assert message.receipt_handle != old
    new, message.receipt_handle = message.receipt_handle, old
    with pytest.raises(InvalidReceiptHandle, match="newer handle"):
        await client.ack(message)
    message.receipt_handle = new
    await client.ack(message)


async def test_a_nacked_message_comes_again_after_its_delay(raw: Raw, client: Client) -> None:
    await make_group(raw, "g")
    await client.send("t", b"x")
    (message,) = await client.receive("t", "g", wait_s=2)
    await client.nack(message, delay_s=0.2, reason="no connection")
    assert await client.receive("t", "g", wait_s=0) == []
    with pytest.raises(InvalidReceiptHandle, match="newer handle"):
        await client.ack(message)
    (message,) = await client.receive("t", "g", wait_s=5)
    assert message.delivery_attempt == 2
    await client.nack(message, delay_s=0, counted=False)
    (message,) = await client.receive("t", "g", wait_s=5)
    assert message.delivery_attempt == 2
    await client.ack(message)
    with pytest.raises(InvalidReceiptHandle, match="acknowledged"):
        await client.nack(message)


async def test_a_nack_without_a_delay_waits_as_the_policy_says(raw: Raw, client: Client) -> None:
    policy = admin.RetryPolicy(delays_ms=[300, 60_000])
    await make_group(raw, "g", retry_policy=policy)
    await client.send("t", b"x")
    (message,) = await client.receive("t", "g", wait_s=2)
    await client.nack(message)
    assert await client.receive("t", "g", wait_s=0) == []
    (message,) = await client.receive("t", "g", wait_s=5)
    await client.nack(message)
    assert await client.receive("t", "g", wait_s=0.5) == []


async def test_a_rejected_message_keeps_its_reason(raw: Raw, client: Client) -> None:
    await make_group(raw, "g")
    await client.send("t", b"x")
    (message,) = await client.receive("t", "g", wait_s=2)
    await client.reject(message, "bad schema:\n" + "x" * 5_000)
    with pytest.raises(InvalidReceiptHandle):
        await client.reject(message, "again")
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        request = admin.ListDeadLettersRequest(group="g")
        reply = await admin_grpc.AdminStub(channel).ListDeadLetters(request)
    (letter,) = reply.letters
    assert (letter.topic, letter.message_id, letter.attempts) == ("t", message.message_id, 1)
    assert letter.reason.startswith("bad schema: xxx")
    assert len(letter.reason) <= 1_000


@pytest.mark.parametrize("count", [1_025, 4_000])
async def test_more_messages_than_a_request_takes_are_refused_at_once(
    client: Client, count: int
) -> None:
    """So many that the server does not even take the request apart, too."""
    asked: list[Any] = []
    send = client.connection.stub.SendMessage

    async def noted(request: Any, **options: Any) -> Any:
        asked.append(request)
        return await send(request, **options)

    noted.__name__ = "SendMessage"
    client.connection.stub.SendMessage = noted
    with pytest.raises(RefusedByServer, match="1024"):
        await client.send_many("t", [Message(body=bytes(1024))] * count)
    assert len(asked) == 1
    assert len(await client.send_many("t", [Message(body=b"1")] * 1_024)) == 1_024


async def test_a_nack_that_is_refused_leaves_the_message(raw: Raw, client: Client) -> None:
    await make_group(raw, "g")
    await client.send("t", b"x")
    (message,) = await client.receive("t", "g", wait_s=2)
    for delay_s in (-1, 13 * 3600):
        with pytest.raises(RefusedByServer, match="a delay of"):
            await client.nack(message, delay_s=delay_s)
    good = message.receipt_handle
    give_handle(message, "forged")
    with pytest.raises(InvalidReceiptHandle):
        await client.nack(message)
    give_handle(message, good)
    await client.ack(message)


async def test_dead_letters_can_be_consumed_like_any_topic(raw: Raw, client: Client) -> None:
    await make_group(raw, "g", max_attempts=1)
    await make_group(raw, "undertaker")
    receipt = await client.send("t", b"poison")
    await client.receive("t", "g", invisible_s=0.1, wait_s=2)
    dead = []
    for _ in range(100):  # the topic is announced with the broker's next heartbeat
        try:
            dead = await client.receive("%DLQ%g", "undertaker", wait_s=1)
        except RefusedByServer:
            await asyncio.sleep(0.2)
            continue
        if dead:
            break
    (message,) = dead
    assert (message.body, message.message_id) == (b"poison", receipt.message_id)
    await client.ack(message)
