"""What is decoded later is what would have been decoded at once."""

import copy
from dataclasses import asdict, fields, replace

import pytest
from unit.sdk.idempotence.made import message as made

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq import ReceivedMessage
from popmq._core.messages import convert
from popmq._core.messages.lazy_message import LATER_BYTES_MAX, LazyMessage


def wire(body: bytes = b"x", **system: object) -> v2.Message:
    message = v2.Message(
        topic=v2.Resource(name="t"),
        user_properties={"a": "1"},
        system_properties=v2.SystemProperties(
            message_id="01AB",
            keys=["k1", "k2"],
            receipt_handle="h",
            queue_id=3,
            queue_offset=0,
            delivery_attempt=2,
            **system,  # type: ignore[arg-type]
        ),
        body=body,
    )
    message.system_properties.born_timestamp.FromMilliseconds(1_700_000_000_123)
    message.system_properties.store_timestamp.FromMilliseconds(1_700_000_000_456)
    return message


EXPECTED = {
    "topic": "t",
    "group": "g",
    "body": b"x",
    "message_id": "01AB",
    "tag": None,
    "keys": ("k1", "k2"),
    "properties": {"a": "1"},
    "message_group": None,
    "deliver_at_ms": None,
    "delivery_attempt": 2,
    "born_timestamp_ms": 1_700_000_000_123,
    "store_timestamp_ms": 1_700_000_000_456,
    "broker": "b",
    "queue_id": 3,
    "queue_offset": 0,
    "receipt_handle": "h",
    "body_error": "",
    "holder": None,
    "held_until_s": 0.0,
    "unanswered_s": None,
    "trace_context": "",
    "observed": None,
    "counted": False,
}


def test_every_field_is_there() -> None:
    message = convert.incoming(wire(), "g", "b")
    assert set(EXPECTED) == {field.name for field in fields(ReceivedMessage)}
    assert {name: getattr(message, name) for name in EXPECTED} == EXPECTED
    assert asdict(message) == EXPECTED
    assert "keys=('k1', 'k2')" in repr(message)


@pytest.mark.parametrize("body", [b"x", b"x" * (LATER_BYTES_MAX + 1)])
def test_the_broker_is_the_one_that_has_it(body: bytes) -> None:
    """A receive asks one broker, and any of the topic may answer."""
    answered = wire(body)
    answered.system_properties.receipt_handle = "7 1700000000000 60000 3 0 broker-b 2 7 4711 1 0a"
    assert convert.incoming(answered, "g", "broker-a").broker == "broker-b"


def test_a_handle_of_another_kind_names_no_broker() -> None:
    assert convert.incoming(wire(), "g", "broker-a").broker == "broker-a"


def test_tag_group_and_time() -> None:
    sent = wire(tag="", message_group="mg", trace_context="00-1")
    sent.system_properties.delivery_timestamp.FromMilliseconds(1_800_000_000_001)
    message = convert.incoming(sent, "g", "b")
    assert (message.tag, message.message_group, message.trace_context) == ("", "mg", "00-1")
    assert message.deliver_at_ms == 1_800_000_000_001


def test_what_the_application_has_set_stays() -> None:
    message = convert.incoming(wire(), "g", "b")
    message.properties["b"] = "2"
    message.tag = "mine"
    assert (message.properties, message.tag) == ({"a": "1", "b": "2"}, "mine")
    assert message.keys == ("k1", "k2")


@pytest.mark.parametrize("size", [1, LATER_BYTES_MAX + 1])
def test_copies_are_whole(size: int) -> None:
    message = convert.incoming(wire(bytes(size)), "g", "b")
    assert copy.copy(message) == message
    assert replace(message, body=b"").keys == ("k1", "k2")
    assert message == replace(message)


def test_one_with_a_large_body_keeps_nothing_else_in_memory() -> None:
    message = convert.incoming(wire(bytes(LATER_BYTES_MAX + 1)), "g", "b")
    assert not hasattr(message, "_wire")
    assert message.properties == {"a": "1"}
    assert hasattr(convert.incoming(wire(), "g", "b"), "_wire")


def test_it_is_a_received_message() -> None:
    message = convert.incoming(wire(), "g", "b")
    assert isinstance(message, ReceivedMessage)
    assert isinstance(message, LazyMessage)
    assert {field.name for field in fields(message)} == {field.name for field in fields(made())}
    with pytest.raises(AttributeError, match="no 'price'"):
        _ = message.price
