"""Topics, groups and dead letters from code: no step needs the command line."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from harness.processes import cluster
from integration.served import serving

from popmq import (
    Client,
    Exponential,
    Group,
    GroupNotFound,
    Place,
    RefusedByServer,
    Topic,
    TopicNotFound,
)
from popmq import sync as popmq_sync
from popmq.testing import PopmqBroker


async def test_topics(popmq_broker: PopmqBroker) -> None:
    async with Client(popmq_broker.endpoint) as client:
        admin = client.admin
        await admin.create_topic("orders", type="FIFO", queues=3)
        await admin.create_topic("plain")
        assert await admin.list_topics() == [
            Topic(name="orders", type="FIFO", queues=3),
            Topic(name="plain", type="NORMAL", queues=8),
        ]
        await client.send("orders", b"1", message_group="one")
        topic, queues = await admin.describe_topic("orders")
        assert (topic.type, sum(queue.max_offset for queue in queues)) == ("FIFO", 1)
        await admin.delete_topic("orders")
        with pytest.raises(TopicNotFound):
            await admin.describe_topic("orders")
        kind: Any = "COLOURED"
        with pytest.raises(RefusedByServer, match="COLOURED"):
            await admin.create_topic("odd", type=kind)


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


async def test_groups(popmq_broker: PopmqBroker) -> None:
    async with Client(popmq_broker.endpoint) as client:
        admin = client.admin
        await admin.create_group(
            "billing",
            start="first",
            fifo=True,
            max_attempts=5,
            max_hand_outs=50,
            retry=[1, 2.5],
        )
        await admin.create_group(
            "reports", start=NOON, retry=Exponential(first_s=1, longest_s=60, factor=3)
        )
        assert await admin.list_groups() == [
            Group(
                name="billing",
                start="first",
                fifo=True,
                max_attempts=5,
                max_hand_outs=50,
                retry=(1.0, 2.5),
                access_lock_s=0.0,
            ),
            Group(
                name="reports",
                start=NOON,
                fifo=False,
                max_attempts=16,
                max_hand_outs=1_000,
                retry=Exponential(first_s=1.0, longest_s=60.0, factor=3.0),
                access_lock_s=0.0,
            ),
        ]
        popmq_broker.send("orders", "1")
        await client.receive("orders", "billing", wait_s=0)
        _, queues = await admin.describe_group("billing")
        assert [queue.lag for queue in queues if queue.lag] == [1]
        await admin.reset_group("billing", "orders", "last")
        _, queues = await admin.describe_group("billing")
        assert [queue.lag for queue in queues if queue.lag] == []
        await admin.delete_group("billing")
        with pytest.raises(GroupNotFound):
            await admin.describe_group("billing")


@pytest.mark.parametrize("wrong", ["earliest", "", None])
async def test_a_wrong_start_is_refused_here(wrong: Any) -> None:
    async with Client() as client:
        with pytest.raises(ValueError, match='"first", "last" or a datetime'):
            await client.admin.create_group("billing", start=wrong)


async def test_what_is_declared_is_made_once_and_changed_in_what_was_said(
    popmq_broker: PopmqBroker,
) -> None:
    async with Client(popmq_broker.endpoint) as client:
        admin = client.admin
        assert await admin.ensure_topic("orders", type="FIFO")
        assert not await admin.ensure_topic("orders")
        assert not await admin.ensure_topic("orders", type="FIFO")
        assert await admin.ensure_topic("orders", queues=4)
        assert await admin.list_topics() == [Topic(name="orders", type="FIFO", queues=4)]

        assert await admin.ensure_group("billing", start="first", retry=[1, 10])
        assert not await admin.ensure_group("billing", retry=(1, 10))
        assert await admin.ensure_group("billing", max_attempts=3)
        assert await admin.ensure_group("billing", max_hand_outs=9)
        assert not await admin.ensure_group("billing", max_hand_outs=9)
        with pytest.raises(RefusedByServer, match="popmq group set billing"):
            await admin.create_group("billing", start="last")
        assert not await admin.ensure_group("billing", start="first", retry=[1, 10])
        assert await admin.ensure_group("billing", retry=[5])
        (group,) = await admin.list_groups()
        assert (group.start, group.max_attempts, group.retry) == ("first", 3, (5.0,))
        assert group.max_hand_outs == 9
        assert await admin.ensure_group("plain")
        grows = Exponential(first_s=1, longest_s=60)
        for retry in ([7], grows):
            assert await admin.ensure_group("plain", retry=retry)
            assert not await admin.ensure_group("plain", retry=retry)


async def test_dead_letters(popmq_broker: PopmqBroker) -> None:
    async with Client(popmq_broker.endpoint) as client:
        for body in ("1", "2"):
            popmq_broker.send("orders", body)
        for message in await client.receive("orders", "billing", wait_s=0):
            await message.reject(f"order {message.body.decode()} is no order")
        reasons = [letter.reason async for letter in client.admin.dead_letters("billing")]
        assert sorted(reasons) == ["order 1 is no order", "order 2 is no order"]
        (letter,) = [one async for one in client.admin.dead_letters("billing", reason="order 2")]
        assert (letter.body, letter.topic, letter.redriven) == (b"2", "orders", False)
        done = await client.admin.redrive_dead_letters("billing", message_id=letter.message_id)
        assert (done.sent, done.already, done.without_topic, done.in_order) == (1, 0, 0, 0)
        (again,) = await client.receive("orders", "billing", wait_s=0)
        assert again.body == b"2"
        to_topic = await client.admin.redrive_dead_letters("billing", to_topic=True)
        assert (to_topic.sent, to_topic.already) == (1, 1)


async def test_dead_letters_are_purged(popmq_broker: PopmqBroker) -> None:
    async with Client(popmq_broker.endpoint) as client:
        admin = client.admin

        async def give_up(body: str) -> None:
            popmq_broker.send("orders", body)
            (message,) = await client.receive("orders", "billing", wait_s=0)
            await message.reject("no order")

        async def left() -> list[bytes]:
            return [letter.body async for letter in admin.dead_letters("billing")]

        await give_up("1")
        popmq_broker.advance(60)
        between = datetime.fromtimestamp(popmq_broker.now_ms / 1000, UTC)
        popmq_broker.advance(60)
        await give_up("2")
        planned = await admin.redrive_dead_letters("billing", dry_run=True)
        assert (planned.sent, await client.receive("orders", "billing", wait_s=0)) == (2, [])
        assert (await admin.purge_dead_letters("billing", before=None, dry_run=True)).count == 2
        assert (await admin.purge_dead_letters("billing", before=between)).count == 1
        assert await left() == [b"2"]
        await admin.redrive_dead_letters("billing")
        purged = await admin.purge_dead_letters("billing", before=None)
        assert (purged.count, purged.sent_again) == (1, 1)
        assert await left() == []
        with pytest.raises(GroupNotFound):
            await admin.purge_dead_letters("nobody", before=None)


async def test_messages_are_found_and_explained(popmq_broker: PopmqBroker) -> None:
    async with Client(popmq_broker.endpoint) as client:
        admin = client.admin
        await admin.create_group("billing", start="first")
        await client.send("orders", b"x" * 300, keys="order-1", tag="new")
        receipt = await client.send("orders", b"y", keys=["order-1", "order-2"])
        found = await admin.find_messages("orders", "order-1")
        assert (len(found.messages), found.incomplete) == (2, False)
        assert {message.body_bytes for message in found.messages} == {300, 1}
        assert len((await admin.find_messages("orders", "order-1", limit=1)).messages) == 1
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        assert (await admin.find_messages("orders", "order-1", before=long_ago)).messages == []
        assert (await admin.find_messages("orders", "none", after=long_ago)).messages == []
        with pytest.raises(TopicNotFound):
            await admin.find_messages("nothing", "order-1")

        (message,) = (await admin.find_messages("orders", "order-2")).messages
        assert (message.message_id, message.keys) == (receipt.message_id, ("order-1", "order-2"))
        assert message.stored_at.tzinfo is UTC
        for which in (message.message_id, message.place):
            assert await admin.get_message("orders", which) == message
        assert await admin.get_message("orders", "01AB") is None
        nowhere = Place(broker=message.place.broker, queue_id=0, offset=99)
        assert await admin.get_message("orders", nowhere) is None

        told = await admin.explain(message.message_id)
        assert (told.found, told.topic) == (True, "orders")
        assert [verdict.state for verdict in told.verdicts] == ["unread"]
        received = await client.receive("orders", "billing", wait_s=0)
        told = await admin.explain(message.message_id, topic="orders", group="billing")
        (verdict,) = told.verdicts
        assert (verdict.group, verdict.state, verdict.visible) == ("billing", "leased", False)
        assert verdict.until is not None
        assert [event.kind for event in told.timeline] == ["sent", "delivered-to"]
        assert told.timeline[0].at <= told.timeline[1].at
        await client.ack(*received)
        told = await admin.explain("01AB")
        assert (told.found, [verdict.state for verdict in told.verdicts]) == (False, ["unknown"])


async def test_transactions_are_settled_for_their_producer(popmq_broker: PopmqBroker) -> None:
    async with Client(popmq_broker.endpoint) as client:
        admin = client.admin
        await admin.create_group("ledger", start="first")
        kept = await client.transactions.send("paid", b"yes", keys=["k7", "k8"], tag="new")
        dropped = await client.transactions.send("refunded", b"no")
        first, second = await admin.open_transactions()
        assert (first.transaction_id, first.topic) == (kept.transaction_id, "paid")
        assert (first.keys, first.tag, first.body_bytes) == (("k7", "k8"), "new", 3)
        assert await admin.open_transactions("refunded") == [second]
        assert await admin.open_transactions(limit=1) == [first]
        await admin.settle_transaction(kept.transaction_id, commit=True)
        await admin.settle_transaction(dropped.transaction_id, commit=False)
        await admin.settle_transaction(dropped.transaction_id, commit=False)
        with pytest.raises(RefusedByServer, match="was rolled back before"):
            await admin.settle_transaction(dropped.transaction_id, commit=True)
        assert await admin.open_transactions() == []
        (message,) = await client.receive("paid", "ledger", wait_s=0)
        assert message.body == b"yes"


async def test_a_broker_is_emptied(popmq_broker: PopmqBroker) -> None:
    async with Client(popmq_broker.endpoint, send_attempts=1) as client:
        receipt = await client.send("orders", b"1")
        place = await client.admin.get_message("orders", receipt.message_id)
        assert place is not None
        await client.admin.set_permission(place.place.broker, "read")
        with pytest.raises(RefusedByServer):
            await client.send("orders", b"2")
        await client.admin.set_permission(place.place.broker, "read-write")
        await client.send("orders", b"3")
        with pytest.raises(RefusedByServer, match="nowhere"):
            await client.admin.set_permission("nowhere", "read")
        assert await client.admin.spread_topics() == {}
        with pytest.raises(TopicNotFound):
            await client.admin.spread_topics("nothing")


async def test_names_are_of_the_namespace(popmq_broker: PopmqBroker) -> None:
    async with (
        Client(popmq_broker.endpoint, namespace="shop") as shop,
        Client(popmq_broker.endpoint) as everywhere,
    ):
        await shop.admin.create_topic("orders")
        await shop.admin.create_group("billing", start="first")
        await everywhere.admin.create_topic("other")
        await shop.send("orders", b"1", keys="k")
        assert len(await shop.receive("orders", "billing", wait_s=0)) == 1
        assert [topic.name for topic in await shop.admin.list_topics()] == ["orders"]
        assert [group.name for group in await shop.admin.list_groups()] == ["billing"]
        _, queues = await shop.admin.describe_group("billing")
        assert {queue.topic for queue in queues if queue.lag} == {"orders"}
        names = [topic.name for topic in await everywhere.admin.list_topics()]
        assert names == ["other", "shop%orders"]
        (found,) = (await shop.admin.find_messages("orders", "k")).messages
        assert found.topic == "orders"
        told = await shop.admin.explain(found.message_id, topic="orders", group="billing")
        assert (told.topic, [one.group for one in told.verdicts]) == ("orders", ["billing"])
        for client in (shop, everywhere):
            await client.transactions.send("paid", b"1")
        assert [one.topic for one in await shop.admin.open_transactions()] == ["paid"]
        assert len(await everywhere.admin.open_transactions()) == 2
        assert await shop.admin.spread_topics() == {}


async def test_changes_need_the_secret_where_there_is_one(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("0123456789abcdef")
    async with serving(tmp_path, admin_secret_file=file) as endpoint:
        async with Client(endpoint) as client:
            with pytest.raises(RefusedByServer, match="UNAUTHORIZED"):
                await client.admin.create_topic("t")
        async with Client(endpoint, admin_secret="0123456789abcdef") as client:
            await client.admin.create_topic("t")
            assert not await client.admin.ensure_topic("t")


def test_without_asyncio(popmq_broker: PopmqBroker) -> None:
    with popmq_sync.SyncClient(popmq_broker.endpoint) as client:
        client.admin.create_group("billing", start="first")
        client.admin.ensure_topic("orders", type="NORMAL")
        client.send("orders", b"1")
        consumer = client.consumer("orders", "billing")
        (message,) = consumer.receive()
        consumer.reject(message, "no order")
        assert [letter.reason for letter in client.admin.dead_letters("billing")] == ["no order"]
        assert client.admin.redrive_dead_letters("billing").sent == 1
        assert client.admin.purge_dead_letters("billing", before=None).count == 1
        found = client.admin.get_message("orders", message.message_id)
        assert found is not None
        assert client.admin.get_message("orders", found.place) == found
        assert len(client.admin.find_messages("orders", message.message_id).messages) == 1
        assert client.admin.explain(message.message_id).found
        assert client.admin.open_transactions() == []
        with pytest.raises(RefusedByServer):
            client.admin.settle_transaction("x", commit=True)
        client.admin.set_permission(found.place.broker, "read-write")
        assert client.admin.spread_topics() == {}
        assert [topic.name for topic in client.admin.list_topics()] == ["orders"]


@pytest.mark.timeout(180)
def test_what_is_there_is_found_while_a_broker_is_away(tmp_path: Path) -> None:
    """An app that starts meanwhile is not held up by what it declares."""

    async def declared(endpoint: str) -> list[bool]:
        async with Client(endpoint) as client:
            topic = await client.admin.ensure_topic("orders", type="FIFO")
            return [topic, await client.admin.ensure_group("billing", start="first")]

    with cluster(tmp_path, {}, brokers=2, proxies=1) as server:
        assert asyncio.run(declared(server.endpoint)) == [True, True]
        server.processes["broker-b"].kill()
        assert asyncio.run(declared(server.endpoint)) == [False, False]
