"""Large SendMessage requests are let through when their bodies are what is large, and refused
before they are read when thousands of objects would be made of them."""

from contextlib import suppress

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import BadRequest, MessagesCorrupted
from popmq_proxy.core.sends.request_shape import (
    BESIDES_BODIES_BYTES_MAX,
    FIELDS_MAX,
    LOOKED_AT_BYTES,
    check_count,
    check_shape,
)

MESSAGES_MAX = 1_024
texts = st.text(max_size=20)
messages = st.builds(
    v2.Message,
    topic=st.builds(v2.Resource, name=texts),
    user_properties=st.dictionaries(texts, texts, max_size=5),
    system_properties=st.builds(
        v2.SystemProperties, keys=st.lists(texts, max_size=3), message_id=texts, tag=texts
    ),
    body=st.binary(max_size=500),
)


@given(st.lists(messages, max_size=20), st.binary(max_size=20))
def test_what_protobuf_writes_is_let_through(sent: list[v2.Message], more: bytes) -> None:
    request = service.SendMessageRequest(messages=sent)
    check_shape(request.SerializeToString(), MESSAGES_MAX)
    unknown = b"\xfa\x01" + bytes((len(more),)) + more + b"\xf9\x01" + bytes(8) + b"\xfd\x01abcd"
    check_shape(unknown + request.SerializeToString() + unknown, MESSAGES_MAX)


@given(st.binary(max_size=200))
def test_noise_is_let_through_or_refused_and_nothing_else(data: bytes) -> None:
    with suppress(DecodeError, MessagesCorrupted):
        check_shape(data, MESSAGES_MAX)


def batch(count: int, body_bytes: int, properties: int) -> bytes:
    one = v2.Message(
        topic=v2.Resource(name="t"),
        user_properties={f"{number:04}": "x" * 100 for number in range(properties)},
        system_properties=v2.SystemProperties(message_id="01AB"),
        body=bytes(body_bytes),
    )
    return service.SendMessageRequest(messages=[one] * count).SerializeToString()


@pytest.mark.parametrize(
    "data",
    [
        batch(MESSAGES_MAX, 4_096, 10),
        batch(30, 4 << 20, 128),
        batch(1, 64 << 20, 0),
    ],
    ids=["many", "large", "one"],
)
def test_large_bodies_are_let_through(data: bytes) -> None:
    assert len(data) > LOOKED_AT_BYTES
    check_shape(data, MESSAGES_MAX)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x0a\x00" * (8 << 20), f"more than {MESSAGES_MAX} messages"),
        (b"\x12\x00" * (8 << 20), f"more than {MESSAGES_MAX} messages"),  # another field
        (batch(1, 1 << 20, FIELDS_MAX), f"more than {FIELDS_MAX} fields"),
        (batch(MESSAGES_MAX, 1_000, 60), f"more than {BESIDES_BODIES_BYTES_MAX} bytes besides"),
    ],
)
def test_many_small_fields_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(MessagesCorrupted, match=why):
        check_shape(data, MESSAGES_MAX)


def test_small_fields_inside_one_field_are_bounded_by_its_size() -> None:
    keys = b"\x12\x00" * (3 << 20)
    inner = b"\x1a" + b"\x80\x80\x80\x03" + keys
    with pytest.raises(MessagesCorrupted, match="besides"):
        check_shape(b"\x0a" + b"\x85\x80\x80\x03" + inner, MESSAGES_MAX)


def test_entries_are_counted() -> None:
    entry = service.AckMessageEntry(message_id="01AB", receipt_handle="x" * 200)
    several = service.AckMessageRequest(entries=[entry] * 1_000).SerializeToString()
    check_count(several, 1_000)
    with pytest.raises(BadRequest, match="more than 999 fields"):
        check_count(several, 999)
    with pytest.raises(BadRequest):
        check_count(b"\x1a\x00" * 500_000, 1_100)


@pytest.mark.parametrize(
    "data", [b"\x0a", b"\x0a\x05abc", b"\xff" * 20, b"\x0b", b"\x0a\x03\x22\x05x", b"\x09abc"]
)
def test_what_is_no_protobuf(data: bytes) -> None:
    with pytest.raises(DecodeError):
        check_shape(data, MESSAGES_MAX)
