"""What is read without objects is what protobuf would have read, whatever a client sends."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import MessageBodyEmpty
from popmq_proxy.core.messages import message_types, outgoing, validate
from popmq_proxy.core.messages.send_decoder import TEMPLATES_MAX, SendDecoder
from popmq_proxy.core.messages.validate import MessageLimits

LIMITS = MessageLimits(body_bytes=1_000, properties_bytes=16_384, properties_count=128)
TAGS = st.sampled_from(["", "a", "paid", "ä", "x" * 127, "x" * 128, "a|b"])
IDS = st.sampled_from(["01A", "7F0000010000", "a b", " ", "ä", "", ":", "0" * 127, "0" * 200])


def check(message: v2.Message) -> str:
    validate.check_message(message, LIMITS)
    return message_types.message_type(message.system_properties)


def reader() -> SendDecoder:
    return SendDecoder(check, LIMITS.body_bytes)


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
    for name, value in (("message_group", "g"), ("trace_context", "t"), ("born_host", "")):
        if draw(st.integers(0, 9)) == 0:
            setattr(system, name, value)
    if draw(st.integers(0, 9)) == 0:
        system.keys.append("k")
    if draw(st.integers(0, 9)) == 0:
        made.user_properties["colour"] = "blue"
    if draw(st.integers(0, 9)) == 0:
        made.topic.name = "others"
    return made


SHARED = reader()
"""Its moulds are made by one example and used by the next."""


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
        assert [check(one) for one in sent] == ["NORMAL"] * len(sent)
        assert found.records == [outgoing.record(one, "peer") for one in sent]


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
        read = service.SendMessageRequest.FromString(damaged)
        assert found.records == [outgoing.record(one, "peer") for one in read.messages]
        assert [check(one) for one in read.messages] == ["NORMAL"] * len(read.messages)


def test_what_most_clients_send_is_decoded_by_templates() -> None:
    sent = [message(f"01A{number}", tag=tag, queue_id=3) for number, tag in enumerate("aab")]
    request = service.SendMessageRequest(messages=sent)
    found = reader().read(request.SerializeToString())
    assert found is not None
    assert found.message_ids == [b"01A0", b"01A1", b"01A2"]


def test_a_field_that_is_there_twice_is_left_to_protobuf() -> None:
    twice = message().SerializeToString() + v2.Message(body=b"other").SerializeToString()
    data = b"\x0a" + bytes((len(twice),)) + twice
    assert reader().read(data) is None
    assert service.SendMessageRequest.FromString(data).messages[0].body == b"other"


def test_no_more_templates_are_kept_than_the_bound() -> None:
    one = reader()
    for number in range(TEMPLATES_MAX + 10):
        request = service.SendMessageRequest(messages=[message(tag=f"t{number}")])
        assert one.read(request.SerializeToString()) is not None
    assert 0 < len(one._templates) <= TEMPLATES_MAX


def test_a_refused_message_makes_no_mould() -> None:
    def refuse(_: v2.Message) -> str:
        raise MessageBodyEmpty()

    one = SendDecoder(refuse, 1_000)
    assert one.read(service.SendMessageRequest(messages=[message()]).SerializeToString()) is None
    assert not one._templates
