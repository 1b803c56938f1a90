"""What is read without objects is what protobuf would have read, whatever a client sends."""

from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import MessageBodyEmpty
from popmq_common.records import properties
from popmq_proxy.core.messages import message_types, outgoing, validate
from popmq_proxy.core.messages.validate import MessageLimits
from popmq_proxy.core.sends.property_templates import TEMPLATES_MAX
from popmq_proxy.core.sends.send_decoder import DecodedSend, SendDecoder

LIMITS = MessageLimits(body_bytes=1_000, properties_bytes=500, properties_count=3)
TAGS = st.sampled_from(["", "a", "paid", "ä", "x" * 127, "x" * 128, "a|b"])
IDS = st.sampled_from(["01A", "7F0000010000", "a b", " ", "ä", "", ":", "0" * 127, "0" * 200])

TEXTS = st.sampled_from(
    ["", " ", "k", "a b", "ä", "a%b", "\t", "\x01", "\u3000", "y" * 127, "z" * 400]
)
NAMES = st.sampled_from(
    ["", "colour", "size", "%b", "ä", "KEYS", "__SHARDINGKEY", "a\x01", "n" * 128]
)
HOSTS = st.sampled_from(["", "h\x02KEYS\x01k", "ä", "h" * 200])


def check(message: v2.Message) -> str:
    validate.check_message(message, LIMITS)
    return message_types.message_type(message.system_properties)


def reader() -> SendDecoder:
    return SendDecoder(check, LIMITS)


def message(message_id: str = "01A", **system: object) -> v2.Message:
    made = v2.Message(topic=v2.Resource(name="orders"), body=b"b")
    fields = {"message_id": message_id, "born_host": "host", "message_type": v2.NORMAL, **system}
    made.system_properties.MergeFrom(v2.SystemProperties(**fields))  # type: ignore[arg-type]
    made.system_properties.born_timestamp.FromMilliseconds(1_700_000_000_123)
    return made


@st.composite
def messages(draw: st.DrawFn) -> v2.Message:
    made = message(draw(IDS), tag=draw(TAGS))
    system = made.system_properties
    made.body = bytes(draw(st.sampled_from([0, 1, 1, 1, 1_000, 1_001])))
    system.body_encoding = draw(st.sampled_from([v2.IDENTITY, v2.GZIP]))
    system.message_type = draw(st.sampled_from([v2.NORMAL, v2.NORMAL, v2.FIFO]))
    system.born_timestamp.seconds = draw(st.sampled_from([0, 1, 58, 1_700_000_000, -1, 1 << 40]))
    system.born_timestamp.nanos = draw(st.integers(0, 999_999_999))
    system.queue_id = draw(st.sampled_from([0, 3, 300, 1 << 20]))
    if draw(st.integers(0, 9)) == 0:
        system.body_digest.checksum = draw(st.sampled_from(["ABC", ":", "a:b\x02cd"]))
    for name, values in (("message_group", TEXTS), ("trace_context", TEXTS), ("born_host", HOSTS)):
        if draw(st.integers(0, 4)) == 0:
            setattr(system, name, draw(values))
    if draw(st.integers(0, 2)) == 0:
        system.keys.extend(draw(st.lists(TEXTS, max_size=3)))
    if draw(st.integers(0, 2)) == 0:
        made.user_properties.update(draw(st.dictionaries(NAMES, TEXTS, max_size=4)))
    if draw(st.integers(0, 9)) == 0:
        made.topic.name = "others"
    return made


def assert_as_protobuf_reads(found: DecodedSend, sent: Sequence[v2.Message]) -> None:
    groups = found.groups or [""] * len(sent)
    for record, group, one in zip(found.records, groups, sent, strict=True):
        assert check(one) == ("FIFO" if group else "NORMAL")
        assert group == one.system_properties.message_group
        expected = outgoing.record(one, "peer")
        # a map has no order
        assert properties.decode(record.properties) == properties.decode(expected.properties)
        assert sorted(record.properties) == sorted(expected.properties)
        assert record.properties.startswith(b"UNIQ_KEY\x01")
        assert record._replace(properties=b"") == expected._replace(properties=b"")


SHARED = reader()
"""Its templates are made by one example and used by the next."""


@given(st.lists(messages(), max_size=4))
def test_a_request_is_decoded_as_protobuf_reads_it(sent: list[v2.Message]) -> None:
    request = service.SendMessageRequest(messages=sent)
    for one in (reader(), SHARED):
        found = one.read(request.SerializeToString())
        if found is None:
            continue
        assert found.topic == sent[0].topic
        assert all(one.topic == found.topic for one in sent)
        assert found.message_ids == [one.system_properties.message_id.encode() for one in sent]
        assert_as_protobuf_reads(found, sent)


@given(st.binary(max_size=40), st.integers(0, 200), st.lists(messages(), min_size=1, max_size=2))
def test_damaged_bytes_are_read_as_protobuf_reads_them_or_not_at_all(
    inserted: bytes, at: int, sent: list[v2.Message]
) -> None:
    data = service.SendMessageRequest(messages=sent).SerializeToString()
    at = min(at, len(data))
    damaged = data[:at] + inserted + data[at + len(inserted) :]
    try:
        found = SHARED.read(damaged)
    except DecodeError:
        with pytest.raises(DecodeError):
            service.SendMessageRequest.FromString(damaged)
        return
    if found is not None:
        assert_as_protobuf_reads(found, service.SendMessageRequest.FromString(damaged).messages)


def test_what_most_clients_send_is_decoded_by_templates() -> None:
    sent = [message(f"01A{number}", tag=tag, queue_id=3) for number, tag in enumerate("aab")]
    request = service.SendMessageRequest(messages=sent)
    found = reader().read(request.SerializeToString())
    assert found is not None
    assert found.message_ids == [b"01A0", b"01A1", b"01A2"]


@pytest.mark.parametrize("number", [1, 3])
def test_keys_groups_traces_and_user_properties_are_copied(number: int) -> None:
    sent = []
    for i in range(number):
        one = message(f"01A{i}", tag="a", keys=[f"order-{i}", "ä"], trace_context="00-1-2-01")
        one.user_properties.update({"colour": "blue", "100%": f"{i}" * 130, "empty": ""})
        if i != 1:
            one.system_properties.message_group = f"g{i}"
            one.system_properties.message_type = v2.FIFO
        sent.append(one)
    found = reader().read(service.SendMessageRequest(messages=sent).SerializeToString())
    assert found is not None
    assert_as_protobuf_reads(found, sent)
    assert found.groups == ["g0", "", "g2"][:number]


@pytest.mark.parametrize(
    "unusual",
    [
        {"keys": ["k\x02TAGS\x01b"]},
        {"keys": ["k", " "]},
        {"keys": ["k" * 128]},
        {"message_group": "g" * 64, "message_type": v2.FIFO},
        {"message_group": "g\x01", "message_type": v2.FIFO},
        {"message_group": "g"},
        {"trace_context": "t\x02KEYS\x01k"},
        {"delivery_timestamp": {"seconds": 1}, "message_type": v2.DELAY},
        {"message_type": v2.TRANSACTION},
        {"priority": 1},
    ],
)
def test_what_is_unusual_is_left_to_protobuf(unusual: dict[str, object]) -> None:
    system: dict[str, Any] = {"message_type": v2.NORMAL, **unusual}
    request = service.SendMessageRequest(messages=[message(**system)])
    assert reader().read(request.SerializeToString()) is None


@pytest.mark.parametrize(
    "user",
    [
        {"KEYS": "k"},
        {"a\x02": "b"},
        {"a": "\x02b"},
        {"": "b"},
        {"a": "b" * 500},
        {"a": "", "b": "", "c": "", "d": ""},
    ],
)
def test_unusual_user_properties_are_left_to_protobuf(user: dict[str, str]) -> None:
    one = message()
    one.user_properties.update(user)
    request = service.SendMessageRequest(messages=[one])
    assert reader().read(request.SerializeToString()) is None


def test_a_user_property_that_is_there_twice_is_left_to_protobuf() -> None:
    entry = b"\x12\x06\x0a\x01a\x12\x01"
    twice = message().SerializeToString() + entry + b"1" + entry + b"2"
    data = b"\x0a" + bytes((len(twice),)) + twice
    assert service.SendMessageRequest.FromString(data).messages[0].user_properties == {"a": "2"}
    assert reader().read(data) is None


def test_a_field_that_is_there_twice_is_left_to_protobuf() -> None:
    twice = message().SerializeToString() + v2.Message(body=b"other").SerializeToString()
    data = b"\x0a" + bytes((len(twice),)) + twice
    assert reader().read(data) is None
    assert service.SendMessageRequest.FromString(data).messages[0].body == b"other"


def test_no_more_templates_are_kept_than_the_bound() -> None:
    one = reader()
    for number in range(TEMPLATES_MAX + 10):
        request = service.SendMessageRequest(messages=[message(tag=f"t{number}")])
        request.messages[0].user_properties[f"p{number}"] = ""
        assert one.read(request.SerializeToString()) is not None
    assert 0 < len(one._templates._templates) <= TEMPLATES_MAX
    assert 0 < len(one._templates._user_formats) <= TEMPLATES_MAX


def test_a_refused_message_makes_no_template() -> None:
    def refuse(_: v2.Message) -> str:
        raise MessageBodyEmpty()

    one = SendDecoder(refuse, LIMITS)
    assert one.read(service.SendMessageRequest(messages=[message()]).SerializeToString()) is None
    assert not one._templates._templates
