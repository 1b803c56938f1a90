"""Messages written by hand are the messages that protobuf writes."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq import Message
from popmq._core.messages import convert
from popmq._core.messages.encode import MessageEncoder
from popmq._core.messages.protobuf_wire import varint

TOPIC = v2.Resource(resource_namespace="n", name="t")
ID = "01" + 32 * "A"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
messages = st.builds(
    Message,
    body=st.one_of(st.binary(max_size=300), st.just(bytes(70_000))),
    tag=st.none() | texts,
    keys=st.lists(texts, max_size=3),
    properties=st.dictionaries(st.just("traceparent") | texts, texts, max_size=3),
    message_group=st.none() | texts,
    delay_s=st.none() | st.floats(0, 1e6),
)


def written(encoder: MessageEncoder, message: Message, now_ms: int, *, packed: bool) -> bytes:
    return encoder.entry(
        message.body,
        ID,
        now_ms,
        tag=message.tag,
        keys=message.keys,
        properties=message.properties,
        message_group=message.message_group,
        due_ms=convert.due_ms(message.delay_s, message.deliver_at, now_ms),
        packed=packed,
    )


@given(st.lists(st.tuples(messages, st.integers(0, 1 << 41), st.booleans()), max_size=4))
def test_a_request_is_what_protobuf_writes(items: list[tuple[Message, int, bool]]) -> None:
    encoder = MessageEncoder(TOPIC)
    expected = service.SendMessageRequest()
    data = b""
    for message, now_ms, packed in items:
        made = convert.outgoing(message, TOPIC, ID, now_ms)
        if packed:
            made.system_properties.body_encoding = v2.GZIP
        expected.messages.append(made)
        data += written(encoder, message, now_ms, packed=packed)
    assert service.SendMessageRequest.FromString(data) == expected


def test_a_message_for_a_time_that_has_passed() -> None:
    message = Message(body=b"x", deliver_at=datetime(1960, 1, 1, tzinfo=UTC))
    data = written(MessageEncoder(TOPIC), message, 5, packed=False)
    (made,) = service.SendMessageRequest.FromString(data).messages
    assert made == convert.outgoing(message, TOPIC, ID, 5)


@pytest.mark.parametrize("body", [bytearray(b"ab"), memoryview(b"ab")])
def test_bodies_that_are_like_bytes(body: bytes) -> None:
    data = MessageEncoder(TOPIC).entry(body, ID, 0)
    assert service.SendMessageRequest.FromString(data).messages[0].body == b"ab"


@pytest.mark.parametrize("body", ["text", 5, None])
def test_a_body_that_is_none(body: bytes) -> None:
    with pytest.raises(TypeError):
        MessageEncoder(TOPIC).entry(body, ID, 0)


@pytest.mark.parametrize("number", [0, 127, 128, 16_383, 16_384, 2**32, 2**63 - 1])
def test_numbers_of_any_length(number: int) -> None:
    data = b"\x20" + varint(number)  # SendResultEntry.offset
    assert service.SendResultEntry.FromString(data).offset == number
