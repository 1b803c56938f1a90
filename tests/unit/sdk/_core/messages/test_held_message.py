"""A message that comes as it is stored is the one that a proxy would have made of the record."""

import copy
import gzip
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq import ReceivedMessage
from popmq._core.messages import convert
from popmq._core.messages.held_message import HIDDEN_NAMES, HeldMessage, give_handle, run_of
from popmq._core.messages.lazy_message import LATER_BYTES_MAX
from popmq_common.records import properties as names
from popmq_common.records import receipt
from popmq_common.records.record import Record, SysFlag, decode, encode, own_offset
from popmq_common.units import LogOffset, QueueOffset
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.delivery import DeliveryEncoder
from popmq_proxy.core.messages.popped import held_run

TOPIC, GROUP = "orders", "billing"
RECEIPT = receipt.Receipt(7, 1_700_000_000_000, 60_000, 3, 0, "broker-b", 2, 7, 4711, 1)
HANDLE = receipt.encode(RECEIPT, GROUP, TOPIC)
HOSTS = st.sampled_from([bytes(range(8)), bytes(range(20))])
NAMES = st.sampled_from(
    [
        *("a", "ä", "color", names.TAGS, names.KEYS, names.UNIQ_KEY, names.SHARDING_KEY),
        *(names.TRACE_CONTEXT, names.DLQ_REASON, names.TIMER_OF, names.RETRY_TOPIC, names.PRIORITY),
    ]
)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\x00\x01\x02"), max_size=20)


@st.composite
def records(draw: st.DrawFn) -> Record:
    named = draw(st.dictionaries(NAMES, VALUES, max_size=6))
    if draw(st.booleans()):
        named[names.DELIVER_MS] = str(draw(st.integers(1, 4_000_000_000_000)))
        named[names.DELIVER_NANOS] = str(draw(st.integers(0, 999_999)))
    body = draw(st.binary(max_size=40) | st.just(bytes(LATER_BYTES_MAX + 1)))
    packed = draw(st.booleans())
    return Record(
        topic=draw(st.sampled_from([TOPIC, "%RETRY%billing_orders", "t" * 200])),
        queue_id=draw(st.integers(0, 1 << 20)),
        queue_offset=QueueOffset(draw(st.integers(0, 1 << 40))),
        log_offset=LogOffset(draw(st.integers(0, 1 << 50))),
        body=gzip.compress(body) if packed and draw(st.booleans()) else body,
        properties=names.encode(named),
        sys_flag=SysFlag.COMPRESSED.value if packed else 0,
        flag=0,
        born_timestamp_ms=draw(st.integers(1, 4_000_000_000_000)),
        born_host=draw(HOSTS),
        store_timestamp_ms=draw(st.integers(1, 4_000_000_000_000)),
        store_host=draw(HOSTS),
        reconsume_times=draw(st.integers(0, 20)),
    )


def read(data: bytes, attempt: int) -> ReceivedMessage:
    """By the answer that the proxy makes for the SDK."""
    attempts = [attempt] if attempt else []
    offset = decode(data, where="", log_offset=own_offset(data)).queue_offset
    run = link.PoppedRun(
        handle=HANDLE, records=[data], delivery_attempts=attempts, queue_offsets=[offset]
    )
    (found,) = consumer.ReceiveRecordsResponse.FromString(held_run(run)).runs
    (message,) = convert.held(found, TOPIC, GROUP, None)
    return message


def converted(data: bytes, attempt: int) -> ReceivedMessage:
    """By the answer that it makes for every other client."""
    encoder = DeliveryEncoder(v2.Resource(name=TOPIC), 60_000)
    answer = service.ReceiveMessageResponse.FromString(encoder.response(HANDLE, data, attempt))
    return convert.incoming(answer.message, GROUP, "broker-a")


@given(records(), st.integers(0, 3))
def test_every_field_is_what_the_public_protocol_gives(record: Record, attempt: int) -> None:
    data = encode(record)
    ours, theirs = read(data, attempt), converted(data, attempt)
    ours.receipt_handle, offset = ours.receipt_handle.rsplit(" ", 1)
    assert int(offset) == ours.queue_offset
    for field in fields(ReceivedMessage):
        assert getattr(ours, field.name) == getattr(theirs, field.name), field.name


def record_of(body: bytes = b"x") -> bytes:
    properties = names.encode({names.UNIQ_KEY: "01AB", "a": "1"})
    place = (QueueOffset(7), LogOffset(4711))
    return encode(Record(TOPIC, 2, *place, body, properties, 0, 0, 1, bytes(8), 2, bytes(8), 0))


def test_no_property_of_the_server_is_a_users() -> None:
    hidden = names.INTERNAL | {names.DELIVER_NANOS}
    assert {name.decode() for name in HIDDEN_NAMES} == hidden


def test_what_the_application_has_set_stays_and_copies_are_whole() -> None:
    message = read(record_of(), 0)
    message.properties["b"] = "2"
    message.tag = "mine"
    assert (message.properties, message.tag) == ({"a": "1", "b": "2"}, "mine")
    assert copy.copy(message) == message
    assert replace(message, body=b"").message_id == "01AB"
    with pytest.raises(AttributeError, match="no 'price'"):
        _ = message.price  # type: ignore[attr-defined]


@pytest.mark.parametrize(("size", "kept"), [(1, True), (LATER_BYTES_MAX + 1, False)])
def test_one_with_a_large_body_keeps_nothing_else_in_memory(size: int, kept: bool) -> None:
    message = read(record_of(bytes(size)), 0)
    assert isinstance(message, HeldMessage)
    assert hasattr(message, "_record") is kept
    assert message.properties == {"a": "1"}


def test_a_change_gives_a_message_a_handle_of_its_own() -> None:
    message = read(record_of(), 0)
    assert (message.receipt_handle, run_of(message)) == (f"{HANDLE} 7", HANDLE)
    own = receipt.encode(RECEIPT._replace(broker="broker-c", generation=2), GROUP, TOPIC)
    give_handle(message, own)
    assert (message.receipt_handle, run_of(message), message.broker) == (own, "", "broker-c")


def test_messages_of_a_run_are_acked_together_however_they_were_copied() -> None:
    first, second, third = (read(record_of(), 0) for _ in range(3))
    copied = replace(second, queue_offset=8, receipt_handle=f"{HANDLE} 8")
    give_handle(third, receipt.encode(RECEIPT._replace(generation=2), GROUP, TOPIC))
    found = convert.runs_of([first, copied, third])
    assert found is not None
    parts, places = found
    assert places == [(0, 7), (0, 8), (1, 7)]
    assert [list(run.queue_offsets) for run in parts] == [[7, 8], [7]]
    assert [run.receipt_handle for run in parts] == [HANDLE, third.receipt_handle]
