"""Delays that a client of a test asks for, on the clock that the test moves."""

from datetime import UTC, datetime, timedelta

import pytest

from popmq import Client
from popmq.testing import PopmqBroker


@pytest.mark.parametrize("passed_s", [0, 7200])
async def test_a_delay_counts_from_the_moment_of_the_send(
    passed_s: int, popmq_broker: PopmqBroker
) -> None:
    """However much time the test has let pass before."""
    popmq_broker.advance(passed_s)
    async with Client(popmq_broker.endpoint) as client:
        await client.send("orders", b"later", delay_s=600)
        in_ten = datetime.now(UTC) + timedelta(minutes=10)
        await client.producer().send("orders", b"then", deliver_at=in_ten)
        popmq_broker.advance(500)
        assert popmq_broker.receive("orders", "billing") == []
        popmq_broker.advance(100)
        found = popmq_broker.receive("orders", "billing")
    assert sorted(message.body for message in found) == [b"later", b"then"]


async def test_a_delayed_message_is_recalled(popmq_broker: PopmqBroker) -> None:
    async with Client(popmq_broker.endpoint) as client:
        receipt = await client.send("orders", b"later", delay_s=600)
        popmq_broker.advance(599)
        await client.recall("orders", receipt.recall_handle)
        popmq_broker.advance(600)
        assert popmq_broker.receive("orders", "billing") == []


async def test_a_nack_with_a_delay(popmq_broker: PopmqBroker) -> None:
    popmq_broker.send("orders", "1")
    async with Client(popmq_broker.endpoint) as client:
        (message,) = await client.receive("orders", "billing", wait_s=0)
        await message.nack(delay_s=600)
        popmq_broker.advance(599)
        assert await client.receive("orders", "billing", wait_s=0) == []
        popmq_broker.advance(1)
        assert len(await client.receive("orders", "billing", wait_s=0)) == 1
