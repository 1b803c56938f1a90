"""T60: the largest message that is taken goes through each front, in both directions."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_common.records import properties as names

TOPIC, GROUP = "t" * 127, "g" * 120
BODY = bytes(range(256)) * (4 << 12)
TAG, KEYS = "a" * 1_000, ["k" * 100, "l" * 100]
PROPERTIES = {f"name-{i:03d}": "" for i in range(127)} | {"name-999": "v" * 14_160}
DELAY_S = 2


def _later() -> dict[str, Any]:
    due_ns = time.time_ns() + DELAY_S * 1_000_000_000
    stamp = {"seconds": due_ns // 1_000_000_000, "nanos": due_ns % 1_000_000_000}
    return {"delivery_timestamp": stamp}


TYPES: dict[str, Callable[[], dict[str, Any]]] = {
    "NORMAL": dict,
    "FIFO": lambda: {"message_group": "g" * 63},
    "DELAY": _later,
    "TRANSACTION": lambda: {"orphaned_transaction_recovery_duration": Duration(seconds=3_600)},
}
"""What makes a message one of that type, as large as it may be."""


async def make(channel: grpc.aio.Channel, kind: str) -> None:
    stub = admin_grpc.AdminStub(channel)
    topic = admin.Topic(name=TOPIC, message_type=kind, queues=1)
    await stub.CreateTopic(admin.CreateTopicRequest(topic=topic), timeout=10)
    group = admin.Group(name=GROUP, fifo=kind == "FIFO", consume_from="FIRST")
    await stub.CreateGroup(admin.CreateGroupRequest(group=group), timeout=10)


def system_of(kind: str, **changes: Any) -> dict[str, Any]:
    return {
        "message_id": "i" * 255,
        "tag": TAG,
        "keys": KEYS,
        "trace_context": "c" * 8_000,
        "message_type": v2.MessageType.Value(kind),
        **TYPES[kind](),
        **changes,
    }


@pytest.mark.parametrize("kind", TYPES)
async def test_t60_the_largest_message_of_each_type(raw: Raw, kind: str) -> None:
    assert len(BODY) == 4 << 20
    used = sum(len(name) + len(value) for name, value in PROPERTIES.items())
    assert used + len(TAG) + sum(map(len, KEYS)) == 16 << 10
    assert len(PROPERTIES) == 128
    unbounded = [("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(raw.endpoint, unbounded) as channel:
        await make(channel, kind)
        large = replace(raw, stub=service_grpc.MessagingServiceStub(channel))
        sent = await large.send(TOPIC, BODY, user_properties=PROPERTIES, **system_of(kind))
        assert sent.status.code == v2.OK, sent.status.message
        if kind == "TRANSACTION":
            await commit(large, sent.entries[0].transaction_id)
        for attempt in (1, 2):  # the second one is a copy, but of a message in order
            responses = await large.receive(
                TOPIC, GROUP, poll_ms=5_000, invisible_duration=Duration(nanos=50_000_000)
            )
            (message,) = [one.message for one in responses if one.HasField("message")]
            assert message.body == BODY
            assert dict(message.user_properties) == PROPERTIES
            found = message.system_properties
            assert (found.tag, list(found.keys), found.trace_context) == (TAG, KEYS, "c" * 8_000)
            assert found.delivery_attempt == attempt
    assert used + 8_000 + 255 + 63 < names.SENT_BYTES_MAX


async def commit(client: Raw, transaction_id: str) -> None:
    request = service.EndTransactionRequest(
        topic=v2.Resource(name=TOPIC), transaction_id=transaction_id, resolution=v2.COMMIT
    )
    assert (await client.call("EndTransaction", request)).status.code == v2.OK


@pytest.mark.parametrize("kind", TYPES)
async def test_t60_one_byte_more_is_refused_of_each_type(raw: Raw, kind: str) -> None:
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        await make(channel, kind)
    large = {"user_properties": PROPERTIES}
    more = {"user_properties": {**PROPERTIES, "name-999": PROPERTIES["name-999"] + "v"}}
    too_much: list[tuple[bytes, dict[str, Any], v2.Code.ValueType]] = [
        (BODY + b"x", large, v2.MESSAGE_BODY_TOO_LARGE),
        (b"x", more, v2.MESSAGE_PROPERTIES_TOO_LARGE),
        (b"x", {**large, "message_id": "i" * 256}, v2.ILLEGAL_MESSAGE_ID),
    ]
    for body, changes, code in too_much:
        refused = await raw.send(TOPIC, body, **system_of(kind, **changes))
        assert refused.status.code == code, refused.status.message
    taken = await raw.send(TOPIC, b"x", **system_of(kind, **large))
    assert taken.status.code == v2.OK, taken.status.message
