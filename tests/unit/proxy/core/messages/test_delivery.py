"""The response written by hand is what the protobuf library reads as the message that was sent."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.records import hosts, properties, record
from popmq_common.records.record import Record
from popmq_common.units import LogOffset, QueueOffset
from popmq_proxy.core.messages.delivery import DeliveryEncoder

TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=200)
WORD = st.text("abcäöü0123456789-_", min_size=1, max_size=40)
TOPIC = v2.Resource(resource_namespace="", name="t")


@st.composite
def records(draw: st.DrawFn) -> tuple[Record, dict[str, str], dict[str, str]]:
    """(record, user properties, RocketMQ's named ones)."""
    shown = draw(st.dictionaries(TEXT.filter(lambda n: n not in properties.INTERNAL), TEXT))
    shown.pop("DELIVER_NANOS", None)
    named: dict[str, str] = {}
    for name in (properties.TAGS, properties.UNIQ_KEY, properties.SHARDING_KEY):
        if draw(st.booleans()):
            named[name] = draw(WORD)
    if draw(st.booleans()):
        named[properties.KEYS] = " ".join(draw(st.lists(WORD, min_size=1)))
    if draw(st.booleans()):
        named[properties.TRACE_CONTEXT] = draw(WORD)
    if draw(st.booleans()):
        named[properties.DELIVER_MS] = str(draw(st.integers(1, 2**45)))
        named["DELIVER_NANOS"] = str(draw(st.integers(0, 999_999)))
    if draw(st.booleans()):
        named[properties.DLQ_ORIGIN_TOPIC] = draw(WORD)
        named[properties.DLQ_ORIGIN_MESSAGE_ID] = draw(WORD)
    stored = Record(
        topic="t",
        queue_id=draw(st.integers(0, 2**31 - 1)),
        queue_offset=QueueOffset(draw(st.integers(0, 2**63 - 1))),
        log_offset=LogOffset(draw(st.integers(0, 2**63 - 1))),
        body=draw(st.binary(max_size=300)),
        properties=properties.encode({**named, **shown}),
        sys_flag=draw(st.sampled_from([0, 1])),
        flag=0,
        born_timestamp_ms=draw(st.integers(-(2**40), 2**45)),
        born_host=hosts.encode(draw(st.sampled_from(["1.2.3.4", "::1"])), 5),
        store_timestamp_ms=draw(st.integers(0, 2**45)),
        store_host=hosts.LOCAL,
        reconsume_times=draw(st.integers(0, 1_000)),
    )
    return stored, shown, named


@given(records(), st.integers(1, 10**10))
def test_every_field_arrives(
    given_record: tuple[Record, dict[str, str], dict[str, str]], invisible_ms: int
) -> None:
    stored, shown, named = given_record
    encoded = DeliveryEncoder(TOPIC, invisible_ms).response("the handle", record.encode(stored))
    message = service.ReceiveMessageResponse.FromString(encoded).message
    assert message == _expected(stored, shown, named, invisible_ms)


def _expected(
    stored: Record, shown: dict[str, str], named: dict[str, str], invisible_ms: int
) -> v2.Message:
    kind = v2.DELAY if properties.DELIVER_MS in named else v2.NORMAL
    place = stored.store_host + stored.log_offset.to_bytes(8, "big")
    system = v2.SystemProperties(
        tag=named.get(properties.TAGS),
        keys=named.get(properties.KEYS, "").split(" ") if properties.KEYS in named else [],
        message_id=named.get(properties.UNIQ_KEY, place.hex().upper()),
        body_digest=v2.Digest(type=v2.MD5, checksum=hashlib.md5(stored.body).hexdigest().upper()),
        body_encoding=v2.GZIP if stored.sys_flag & 1 else v2.IDENTITY,
        message_type=v2.FIFO if properties.SHARDING_KEY in named else kind,
        born_host=hosts.decode(stored.born_host),
        store_host=hosts.decode(stored.store_host),
        receipt_handle="the handle",
        queue_id=stored.queue_id,
        queue_offset=stored.queue_offset,
        delivery_attempt=stored.reconsume_times + 1,
        message_group=named.get(properties.SHARDING_KEY),
        trace_context=named.get(properties.TRACE_CONTEXT),
    )
    system.born_timestamp.FromMilliseconds(stored.born_timestamp_ms)
    system.store_timestamp.FromMilliseconds(stored.store_timestamp_ms)
    system.invisible_duration.FromMilliseconds(invisible_ms)
    if properties.DELIVER_MS in named:
        system.delivery_timestamp.FromMilliseconds(int(named[properties.DELIVER_MS]))
        system.delivery_timestamp.nanos += int(named["DELIVER_NANOS"])
    if properties.DLQ_ORIGIN_TOPIC in named:
        system.dead_letter_queue.topic = named[properties.DLQ_ORIGIN_TOPIC]
        system.dead_letter_queue.message_id = named[properties.DLQ_ORIGIN_MESSAGE_ID]
    return v2.Message(
        topic=TOPIC, user_properties=shown, system_properties=system, body=stored.body
    )


def test_properties_that_are_no_utf8_still_make_a_message_that_can_be_read() -> None:
    """Another producer's server may have stored anything."""
    stored = Record(
        topic="t",
        queue_id=0,
        queue_offset=QueueOffset(0),
        log_offset=LogOffset(0),
        body=b"x",
        properties=b"colour\x01\xff\xfe\x02",
        sys_flag=0,
        flag=0,
        born_timestamp_ms=1,
        born_host=hosts.LOCAL,
        store_timestamp_ms=1,
        store_host=hosts.LOCAL,
        reconsume_times=0,
    )
    encoded = DeliveryEncoder(TOPIC, 1).response("h", record.encode(stored))
    message = service.ReceiveMessageResponse.FromString(encoded).message
    assert message.user_properties["colour"] == "\ufffd\ufffd"
