"""Whatever a client gets wrong is told with the right code and what to do, and nothing is lost."""

import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from integration.conftest import Raw

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_broker.config import BrokerConfig
from popmq_common.process.clock import SystemClock
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_consumer.v1 import consumer_pb2_grpc as consumer_grpc
from popmq_proxy.config import ProxyConfig
from popmq_standalone.app import standalone

KIB16 = 16 * 1024
NAMED = v2.SystemProperties(message_id="1")


def status(responses: list[service.ReceiveMessageResponse]) -> v2.Status:
    return responses[0].status


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("", v2.ILLEGAL_TOPIC),
        ("with blank", v2.ILLEGAL_TOPIC),
        ("x" * 128, v2.ILLEGAL_TOPIC),
        ("SCHEDULE_TOPIC_XXXX", v2.ILLEGAL_TOPIC),
        ("rmq_sys_REVIVE_LOG_PopMQ", v2.ILLEGAL_TOPIC),
        ("x" * 127, v2.OK),
    ],
)
async def test_topic_names(raw: Raw, topic: str, code: int) -> None:
    assert (await raw.send(topic)).status.code == code


@pytest.mark.parametrize("group", ["", "a b", "x" * 121, "CID_RMQ_SYS_x"])
async def test_group_names(raw: Raw, group: str) -> None:
    assert status(await raw.receive("t", group)).code == v2.ILLEGAL_CONSUMER_GROUP


async def test_unknown_topic_names_the_command_that_makes_it(tmp_path: Path) -> None:
    broker = BrokerConfig(create_groups=True, data_dir=tmp_path, disk_reserve_bytes=0)
    proxy = ProxyConfig(port=0, create_topics=False)
    async with standalone(broker, proxy, SystemClock()) as serving:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{serving.proxy.port}")
        raw = Raw(service_grpc.MessagingServiceStub(channel), "", tmp_path)
        response = await raw.send("orders")
        await channel.close(None)
    assert response.status.code == v2.TOPIC_NOT_FOUND
    assert "popmq topic create orders" in response.status.message


@pytest.mark.parametrize(
    ("body_bytes", "code"),
    [(0, v2.MESSAGE_BODY_EMPTY), (4 << 20, v2.OK), ((4 << 20) + 1, v2.MESSAGE_BODY_TOO_LARGE)],
)
async def test_body_at_its_limits(raw: Raw, body_bytes: int, code: int) -> None:
    assert (await raw.send("t", b"x" * body_bytes)).status.code == code


@pytest.mark.parametrize(
    ("system", "code"),
    [
        ({"tag": "a|b"}, v2.ILLEGAL_MESSAGE_TAG),
        ({"tag": " "}, v2.ILLEGAL_MESSAGE_TAG),
        ({"tag": "a\x00"}, v2.ILLEGAL_MESSAGE_TAG),
        ({"tag": "x" * KIB16}, v2.OK),
        ({"tag": "x" * (KIB16 + 1)}, v2.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"keys": [""]}, v2.ILLEGAL_MESSAGE_KEY),
        ({"keys": ["\x02"]}, v2.ILLEGAL_MESSAGE_KEY),
        ({"trace_context": "t\x02TIMER_OUT_MS\x011"}, v2.MESSAGE_CORRUPTED),
        ({"born_host": "h\x02KEYS\x01k"}, v2.MESSAGE_CORRUPTED),
        ({"message_id": ""}, v2.ILLEGAL_MESSAGE_ID),
        ({"message_id": "x" * 255}, v2.OK),
        ({"message_id": "x" * 256}, v2.ILLEGAL_MESSAGE_ID),
        ({"message_group": "x" * 63}, v2.OK),
        ({"message_group": "x" * 64}, v2.ILLEGAL_MESSAGE_GROUP),
        ({"user_properties": {"UNIQ_KEY": "1"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"user_properties": {"a": "\x01"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"user_properties": {f"n{i}": "" for i in range(128)}}, v2.OK),
        (
            {"user_properties": {f"n{i}": "" for i in range(129)}},
            v2.MESSAGE_PROPERTIES_TOO_LARGE,
        ),
        ({"message_type": v2.FIFO}, v2.MESSAGE_CORRUPTED),
        ({"message_type": v2.TRANSACTION}, v2.OK),
    ],
)
async def test_message_fields_at_their_limits(raw: Raw, system: dict[str, Any], code: int) -> None:
    assert (await raw.send("t", **system)).status.code == code


async def test_delivery_times_at_their_limits(raw: Raw) -> None:
    now_s = int(time.time())
    for seconds, code in ((1, v2.OK), (now_s + 60, v2.OK), (1 << 40, v2.ILLEGAL_DELIVERY_TIME)):
        response = await raw.send("t", delivery_timestamp=Timestamp(seconds=seconds))
        assert response.status.code == code
    response = await raw.send("t", delivery_timestamp=Timestamp(seconds=now_s, nanos=-1))
    assert response.status.code == v2.ILLEGAL_DELIVERY_TIME


async def test_message_type_must_be_the_topics(raw: Raw, tmp_path: Path) -> None:
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        stub = admin_grpc.AdminStub(channel)
        wanted = admin.Topic(name="normal", message_type="NORMAL")
        await stub.CreateTopic(admin.CreateTopicRequest(topic=wanted))
    refused = (await raw.send("normal", message_group="g")).status
    assert refused.code == v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert "popmq topic create NAME --type FIFO" in refused.message


async def test_messages_of_one_request_are_for_one_topic(raw: Raw) -> None:
    messages = [
        v2.Message(topic=v2.Resource(name=name), body=b"x", system_properties=NAMED)
        for name in ("a", "b")
    ]
    response = await raw.call("SendMessage", service.SendMessageRequest(messages=messages))
    assert response.status.code == v2.MESSAGE_CORRUPTED
    assert (await raw.call("SendMessage", service.SendMessageRequest())).status.code == (
        v2.MESSAGE_CORRUPTED
    )


async def test_one_bad_message_of_several_is_refused_alone(raw: Raw) -> None:
    messages = [
        v2.Message(topic=v2.Resource(name="t"), body=body, system_properties=NAMED)
        for body in (b"good", b"", b"good too")
    ]
    response = await raw.call("SendMessage", service.SendMessageRequest(messages=messages))
    assert response.status.code == v2.MULTIPLE_RESULTS
    assert [entry.status.code for entry in response.entries] == [
        v2.OK,
        v2.MESSAGE_BODY_EMPTY,
        v2.OK,
    ]


async def test_batch_sizes(raw: Raw) -> None:
    assert status(await raw.receive("t", batch_size=0)).code == v2.BAD_REQUEST
    assert status(await raw.receive("t", batch_size=100_000)).code == v2.MESSAGE_NOT_FOUND
    for i in range(40):
        await raw.send("t", str(i).encode())
    messages = [r for r in await raw.receive("t", batch_size=50) if r.HasField("message")]
    assert len(messages) == 32


@pytest.mark.parametrize(
    ("invisible_ms", "text"), [(49, "too small"), (12 * 3_600_000 + 1, "too large")]
)
async def test_invisible_time_out_of_range(raw: Raw, invisible_ms: int, text: str) -> None:
    duration = Duration()
    duration.FromMilliseconds(invisible_ms)
    refused = status(await raw.receive("t", invisible_duration=duration))
    assert refused.code == v2.ILLEGAL_INVISIBLE_TIME
    assert f"the invisibleTime is {text}" in refused.message


async def test_missing_client_id(raw: Raw) -> None:
    raw.client_id = ""
    assert (await raw.send("t")).status.code == v2.CLIENT_ID_REQUIRED
    assert status(await raw.receive("t")).code == v2.CLIENT_ID_REQUIRED


async def test_a_deadline_shorter_than_the_poll_is_kept(raw: Raw) -> None:
    began = time.monotonic()
    responses = await raw.receive("t", timeout=2.5, poll_ms=20_000)
    assert status(responses).code == v2.MESSAGE_NOT_FOUND
    assert 1.5 < time.monotonic() - began < 2.5


async def test_an_empty_poll_is_held_its_whole_time(raw: Raw) -> None:
    began = time.monotonic()
    assert status(await raw.receive("t", poll_ms=700)).code == v2.MESSAGE_NOT_FOUND
    assert time.monotonic() - began >= 0.7


async def _held(raw: Raw) -> str:
    await raw.receive("t")
    await raw.send("t")
    responses = await raw.receive("t", invisible_duration={"seconds": 30})
    handle: str = responses[1].message.system_properties.receipt_handle
    return handle


async def test_forged_foreign_and_stale_handles(raw: Raw) -> None:
    handle = await _held(raw)
    fields = handle.split(" ")
    fields[7] = str(int(fields[7]) + 1)
    invalid = v2.INVALID_RECEIPT_HANDLE
    assert (await raw.ack("t", " ".join(fields))).entries[0].status.code == invalid
    assert (await raw.ack("t", "nonsense")).status.code == invalid
    assert (await raw.ack("t", handle, group="other")).status.code == invalid
    assert (await raw.ack("t2", handle)).status.code == invalid
    change = service.ChangeInvisibleDurationRequest(
        group=v2.Resource(name="g"), topic=v2.Resource(name="t"), receipt_handle=handle
    )
    change.invisible_duration.FromSeconds(20)
    changed = await raw.call("ChangeInvisibleDuration", change)
    assert changed.status.code == v2.OK
    stale = await raw.ack("t", handle)
    assert stale.status.code == invalid
    assert "newer handle" in stale.status.message
    repeated = await raw.call("ChangeInvisibleDuration", change)  # the first answer may be lost
    assert repeated.status.code == v2.OK
    change.receipt_handle = repeated.receipt_handle
    newer = await raw.call("ChangeInvisibleDuration", change)
    change.receipt_handle = handle
    refused = await raw.call("ChangeInvisibleDuration", change)
    assert (refused.status.code, refused.receipt_handle) == (invalid, handle)
    assert (await raw.ack("t", newer.receipt_handle)).status.code == v2.OK
    again = await raw.ack("t", newer.receipt_handle)
    assert (again.status.code, again.status.message) == (v2.OK, "already acked")


async def _nack(raw: Raw, handle: str, **fields: Any) -> consumer.NackResponse:
    request = consumer.NackRequest(
        group=v2.Resource(name="g"),
        topic=v2.Resource(name="t"),
        entries=[consumer.NackEntry(receipt_handle=handle)],
        **fields,
    )
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        stub = consumer_grpc.ConsumerStub(channel)
        response: consumer.NackResponse = await stub.Nack(request, metadata=raw.metadata)
    return response


async def test_nacks_that_cannot_be_served(raw: Raw) -> None:
    handle = await _held(raw)
    assert (await _nack(raw, handle)).status.code == v2.BAD_REQUEST
    counted = consumer.NACK_KIND_COUNTED
    negative = Duration(seconds=-1)
    assert (await _nack(raw, handle, kind=counted, delay=negative)).status.code == v2.BAD_REQUEST
    long = await _nack(raw, handle, kind=counted, reason="x" * 20_000)
    assert long.status.code == v2.BAD_REQUEST
    assert (await _nack(raw, "nonsense", kind=counted)).status.code == v2.INVALID_RECEIPT_HANDLE
    raw.client_id = ""
    assert (await _nack(raw, handle, kind=counted)).status.code == v2.CLIENT_ID_REQUIRED
    raw.client_id = "test@1@1@1"
    assert (await raw.ack("t", handle)).status.code == v2.OK


@pytest.mark.parametrize("kind", list(consumer.NackKind.values())[1:])
async def test_t39_a_handle_is_refused_for_good_once_its_message_was_given_back(
    raw: Raw, kind: "consumer.NackKind.ValueType"
) -> None:
    """With the code that makes official clients stop asking, whatever they ask for."""
    handle = await _held(raw)
    assert (await _nack(raw, handle, kind=kind, delay=Duration())).status.code == v2.OK
    invalid = v2.INVALID_RECEIPT_HANDLE
    assert (await _nack(raw, handle, kind=kind)).entries[0].status.code == invalid
    assert (await raw.ack("t", handle)).status.code == invalid
    change = service.ChangeInvisibleDurationRequest(
        group=v2.Resource(name="g"), topic=v2.Resource(name="t"), receipt_handle=handle
    )
    change.invisible_duration.FromSeconds(20)
    assert (await raw.call("ChangeInvisibleDuration", change)).status.code == invalid


async def _dead_letter_status(raw: Raw, **fields: Any) -> tuple[grpc.StatusCode, str]:
    async with grpc.aio.insecure_channel(raw.endpoint) as channel:
        try:
            request = admin.ListDeadLettersRequest(**fields)
            await admin_grpc.AdminStub(channel).ListDeadLetters(request)
        except grpc.aio.AioRpcError as failed:
            return failed.code(), failed.details() or ""
    return grpc.StatusCode.OK, ""


async def test_dead_letters_that_cannot_be_listed(raw: Raw) -> None:
    await _held(raw)
    assert (await _dead_letter_status(raw, group="g"))[0] is grpc.StatusCode.OK
    code, text = await _dead_letter_status(raw, group="nobody")
    assert (code, "nobody does not exist" in text) == (grpc.StatusCode.NOT_FOUND, True)
    for wrong in (
        {"cursor": "nonsense"},
        {"cursor": "broker-z:0:0"},
        {"cursor": "broker-a:x:0"},
        {"count_max": 1_001},
        {"count_max": -1},
    ):
        code, _ = await _dead_letter_status(raw, group="g", **wrong)
        assert code is grpc.StatusCode.INVALID_ARGUMENT, wrong


@pytest.mark.parametrize(
    "method",
    [
        "SyncLiteSubscription",
    ],
)
async def test_what_is_not_served_says_so(raw: Raw, method: str) -> None:
    response = await raw.call(method, getattr(service, f"{method}Request")())
    assert response.status.code == v2.NOT_IMPLEMENTED
    assert method in response.status.message
