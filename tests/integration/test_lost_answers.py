"""The SDK when an answer is lost on its way: renewals, and receives that were cancelled."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from integration.served import until

from popmq import Client, Message, ReceivedMessage, Resolution, ServerUnreachable
from popmq.testing import PopmqBroker


async def held(client: Client, broker: PopmqBroker) -> ReceivedMessage:
    broker.send("orders", "1")
    (message,) = await client.receive("orders", "billing", invisible_s=60)
    return message


@pytest.mark.parametrize("settle", ["ack", "nack", "reject"])
async def test_a_message_is_settled_after_a_change_whose_answer_was_lost(
    popmq_broker: PopmqBroker, settle: str
) -> None:
    async with Client(popmq_broker.endpoint) as client:
        message = await held(client, popmq_broker)
        popmq_broker.drop_response("change_invisible")
        with pytest.raises(ServerUnreachable):
            await message.extend(120)
        old = message.receipt_handle
        if settle == "nack":
            await message.nack(0)
            (again,) = await client.receive("orders", "billing")
            assert again.delivery_attempt == 2
            await again.ack()
        else:
            await (message.reject("no") if settle == "reject" else message.ack())
        assert message.receipt_handle != old
    popmq_broker.assert_no_messages_left("billing")


async def test_a_transaction_is_begun_once_although_an_answer_is_lost(
    popmq_broker: PopmqBroker,
) -> None:
    """The second try gets the transaction of the first: no half message is left over."""
    asked: list[str] = []

    async def check(message: ReceivedMessage) -> Resolution:
        asked.append(message.message_id)
        return Resolution.ROLLBACK

    async with Client(popmq_broker.endpoint) as client:
        await client.transactions.answer("orders", check)
        popmq_broker.drop_response("send")
        async with client.transactions.begin("orders", b"paid"):
            assert popmq_broker.receive("orders", "billing") == []
        (message,) = popmq_broker.receive("orders", "billing")
        popmq_broker.ack(message)
        popmq_broker.advance(3600)
        assert popmq_broker.receive("orders", "billing") == []
        assert asked == []


async def test_a_send_whose_answer_is_lost_is_stored_once(popmq_broker: PopmqBroker) -> None:
    """The SDK tries again under the same id."""
    bodies = [b"plain", b"in order", b"later", b"one of two", b"two of two"]
    async with Client(popmq_broker.endpoint) as client:
        await client.receive("orders", "billing", wait_s=0)
        for send in (
            lambda: client.send("orders", bodies[0]),
            lambda: client.send("orders", bodies[1], message_group="a"),
            lambda: client.send("orders", bodies[2], delay_s=60),
            lambda: client.send_many("orders", [Message(body=body) for body in bodies[3:]]),
        ):
            popmq_broker.drop_response("send")
            await send()
        popmq_broker.advance(61)
        found: list[bytes] = []
        while messages := popmq_broker.receive("orders", "billing"):
            found += [message.body for message in messages]
            for message in messages:
                popmq_broker.ack(message)
        assert sorted(found) == sorted(bodies)


async def test_a_change_is_not_lost_with_the_broker(popmq_broker: PopmqBroker) -> None:
    async with Client(popmq_broker.endpoint) as client:
        message = await held(client, popmq_broker)
        popmq_broker.drop_response("change_invisible")
        with pytest.raises(ServerUnreachable):
            await message.extend(120)
        popmq_broker.crash_broker()
        popmq_broker.advance(100)
        await message.ack()
    popmq_broker.assert_no_messages_left("billing")


async def test_a_lease_outlives_a_renewal_whose_answer_was_lost(popmq_broker: PopmqBroker) -> None:
    """The clock of the leases stands still; the renewals come in real time."""
    popmq_broker.send("orders", "1")
    async with (
        Client(popmq_broker.endpoint) as client,
        client.consumer("orders", "billing", lease_s=10.0) as consumer,
    ):
        (message,) = await consumer.receive(1)
        held_until_s = message.held_until_s
        popmq_broker.drop_response("change_invisible")
        await until(lambda: message.held_until_s > held_until_s)
        await message.ack()
        assert message.delivery_attempt == 1
    popmq_broker.assert_no_messages_left("billing")


@pytest.mark.parametrize("of", ["client", "consumer"])
async def test_what_was_on_the_way_to_a_cancelled_receive_comes_at_once(
    popmq_broker: PopmqBroker, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    monkeypatch.setattr("popmq.consumer.receiving.END_S", 60.0)
    popmq_broker.send("orders", "1")
    async with Client(popmq_broker.endpoint) as client:
        ask = client.connection.consumer.ReceiveRecords
        came, may_leave = asyncio.Event(), asyncio.Event()

        async def held_up(request: Any, **options: Any) -> Any:
            answer = await ask(request, **options)
            came.set()
            await may_leave.wait()
            return answer

        monkeypatch.setattr(client.connection.consumer, "ReceiveRecords", held_up)
        consumer = client.consumer("orders", "billing", lease_s=60)
        receive = consumer.receive() if of == "consumer" else client.receive("orders", "billing")
        receiving = asyncio.create_task(receive)
        await came.wait()
        receiving.cancel()
        asyncio.get_running_loop().call_later(0.05, may_leave.set)
        with suppress(asyncio.CancelledError):
            await receiving
        (message,) = await client.receive("orders", "billing", wait_s=20)
        assert message.delivery_attempt == 1
        await message.ack()
    popmq_broker.assert_no_messages_left("billing")


async def test_a_cancelled_receive_does_not_wait_for_its_whole_time(
    popmq_broker: PopmqBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends it: without that the answer would be waited for, or lost."""
    monkeypatch.setattr("popmq.consumer.receiving.END_S", 60.0)
    async with Client(popmq_broker.endpoint) as client:
        await client.receive("orders", "billing", wait_s=0)
        ended: list[str] = []
        end = client.connection.consumer.EndPolls

        async def noted(request: Any, **options: Any) -> Any:
            answer = await end(request, **options)
            ended.extend(request.attempt_ids)
            return answer

        monkeypatch.setattr(client.connection.consumer, "EndPolls", noted)
        receiving = asyncio.create_task(client.receive("orders", "billing", wait_s=50))
        await asyncio.sleep(1)  # it has come to the server
        began_s = asyncio.get_running_loop().time()
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        assert asyncio.get_running_loop().time() - began_s < 40
        assert len(ended) == 1
