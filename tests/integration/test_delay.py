"""Delayed messages and recall through the public endpoint, each front."""

import base64
import time
from datetime import UTC, datetime, timedelta

import pytest
from integration.conftest import Raw
from integration.test_sdk import make_group

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq import Client, Message, RefusedByServer

DAY_MS = 86_400_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_it_comes_at_its_time_and_says_when(raw: Raw, client: Client) -> None:
    await make_group(raw, "g")
    sent_ms = now_ms()
    receipt = await client.send("t", b"later", delay_s=0.6, tag="a", properties={"p": "v"})
    assert receipt.recall_handle
    assert await client.receive("t", "g", wait_s=0) == []
    (message,) = await client.receive("t", "g", wait_s=5)
    waited_ms = now_ms() - sent_ms
    assert message.deliver_at_ms is not None
    assert sent_ms + 600 <= message.deliver_at_ms <= now_ms()
    assert 600 <= waited_ms < 3_000
    assert (message.body, message.tag, message.properties) == (b"later", "a", {"p": "v"})
    assert (message.message_id, message.delivery_attempt) == (receipt.message_id, 1)


async def test_its_type_and_nanoseconds_come_back(raw: Raw) -> None:
    await raw.receive("t")  # makes the group
    due = now_ms() + 300
    stamp = {"seconds": due // 1000, "nanos": due % 1000 * 1_000_000 + 7}
    response = await raw.send("t", message_type=v2.DELAY, delivery_timestamp=stamp)
    assert response.entries[0].recall_handle
    await raw.send("t", b"other")
    found: list[v2.Message] = []
    while len(found) < 2 and now_ms() < due + 10_000:
        found += [r.message for r in await raw.receive("t", poll_ms=500) if r.HasField("message")]
        assert len(found) < 2 or now_ms() > due
    (message,) = [m for m in found if m.system_properties.message_type == v2.DELAY]
    assert message.system_properties.delivery_timestamp.nanos == stamp["nanos"]
    assert not message.user_properties


async def test_what_is_due_is_delivered_at_once(raw: Raw, client: Client) -> None:
    await make_group(raw, "g")
    receipt = await client.send("t", b"x", deliver_at=datetime.now(UTC) - timedelta(days=3))
    assert receipt.recall_handle == ""
    (message,) = await client.receive("t", "g", wait_s=2)
    assert message.body == b"x"


async def test_a_recalled_one_never_comes(raw: Raw, client: Client) -> None:
    await make_group(raw, "g")
    several = [Message(body=b"%d" % i, delay_s=0.8) for i in range(3)]
    first, second, _ = await client.send_many("t", several)
    await client.recall("t", first.recall_handle)
    await client.recall("t", first.recall_handle)  # the first answer may have been lost
    bodies: list[bytes] = []
    while len(bodies) < 2:
        bodies += [m.body for m in await client.receive("t", "g", wait_s=5)]
    assert sorted(bodies) == [b"1", b"2"]
    assert await client.receive("t", "g", wait_s=0.2) == []
    with pytest.raises(RefusedByServer, match="cannot be recalled any more") as late:
        await client.recall("t", second.recall_handle)
    assert late.value.code == v2.BAD_REQUEST


async def test_handles_that_are_refused(raw: Raw, client: Client) -> None:
    receipt = await client.send("t", b"x", delay_s=600)
    await client.send("other", b"x")
    plain = base64.urlsafe_b64decode(receipt.recall_handle).decode()
    version, topic, broker, due, message_id = plain.split(" ")
    assert (version, topic, message_id) == ("v1", "t", receipt.message_id)

    def handle(*fields: str) -> str:
        return base64.urlsafe_b64encode(" ".join(fields).encode()).decode()

    refused = [
        ("other", receipt.recall_handle, "not given for this topic", v2.BAD_REQUEST),
        ("t", "nonsense", "not one of this server's", v2.BAD_REQUEST),
        ("t", "", "not one of this server's", v2.BAD_REQUEST),
        ("t", handle("v2", topic, broker, due, message_id), "this server's", v2.BAD_REQUEST),
        ("t", handle("v1", topic, broker, "soon", message_id), "its time", v2.BAD_REQUEST),
        ("t", handle("v1", topic, "broker-z", due, message_id), "broker-z", v2.BAD_REQUEST),
        ("t", handle("v1", topic, broker, due, "unknown"), "No message", v2.MESSAGE_NOT_FOUND),
        ("t", handle("v1", topic, broker, str(int(due) + 1), message_id), "No", 40401),
    ]
    for on_topic, text, reason, code in refused:
        with pytest.raises(RefusedByServer, match=reason) as refusal:
            await client.recall(on_topic, text)
        assert refusal.value.code == code
    await client.recall("t", receipt.recall_handle)


async def test_how_far_ahead_it_may_be(raw: Raw) -> None:
    for days, code in ((39, v2.OK), (41, v2.ILLEGAL_DELIVERY_TIME)):
        due_s = (now_ms() + days * DAY_MS) // 1000
        response = await raw.send("t", message_type=v2.DELAY, delivery_timestamp={"seconds": due_s})
        assert response.status.code == code


async def test_a_recall_says_which_message(raw: Raw) -> None:
    later = {"seconds": now_ms() // 1000 + 60}
    response = await raw.send(
        "t", message_type=v2.DELAY, delivery_timestamp=later, message_id="01AB"
    )
    request = service.RecallMessageRequest(
        topic=v2.Resource(name="t"), recall_handle=response.entries[0].recall_handle
    )
    answer = await raw.call("RecallMessage", request)
    assert (answer.status.code, answer.message_id) == (v2.OK, "01AB")


async def test_a_retry_is_not_delayed_again(raw: Raw, client: Client) -> None:
    await make_group(raw, "g")
    await client.send("t", b"x", delay_s=0.5)
    (message,) = await client.receive("t", "g", wait_s=5)
    await client.nack(message, delay_s=0)
    began = time.monotonic()
    (again,) = await client.receive("t", "g", wait_s=5)
    assert (again.body, again.delivery_attempt) == (b"x", 2)
    assert again.deliver_at_ms == message.deliver_at_ms
    assert time.monotonic() - began < 2
