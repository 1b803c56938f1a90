"""A message as it came. What nobody asks for is not decoded.

Most handlers read a body and little else, and decoding all of a message takes as long as receiving
it. What is not there yet is an empty slot; Python calls `__getattr__` for such alone.
"""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq.message import ReceivedMessage

LATER_BYTES_MAX: Final = 16 * 1024
"""A message of which something is not decoded keeps all that it came with in memory. One with a
larger body is decoded at once."""

HANDLE_BLANKS: Final = 8
"""At least, between the fields of a receipt handle; RocketMQ has nine."""
HANDLE_BROKER: Final = 5
"""The field that names the broker."""


def _ms(timestamp: Timestamp) -> int:
    return timestamp.seconds * 1000 + timestamp.nanos // 1_000_000


def _tag(message: v2.Message) -> str | None:
    system = message.system_properties
    return system.tag if system.HasField("tag") else None


def _deliver_at_ms(message: v2.Message) -> int | None:
    system = message.system_properties
    return _ms(system.delivery_timestamp) if system.HasField("delivery_timestamp") else None


def broker_of(handle: str) -> str:
    """Any broker of the topic may have answered a receive."""
    return handle.split(" ", HANDLE_BROKER + 1)[HANDLE_BROKER]


_LATER: Final[dict[str, Callable[[v2.Message], Any]]] = {
    "tag": _tag,
    "keys": lambda message: tuple(message.system_properties.keys),
    "properties": lambda message: dict(message.user_properties),
    "deliver_at_ms": _deliver_at_ms,
    "delivery_attempt": lambda message: message.system_properties.delivery_attempt,
    "born_timestamp_ms": lambda message: _ms(message.system_properties.born_timestamp),
    "store_timestamp_ms": lambda message: _ms(message.system_properties.store_timestamp),
    "queue_id": lambda message: message.system_properties.queue_id,
    "trace_context": lambda message: message.system_properties.trace_context,
    "queue_offset": lambda message: message.system_properties.queue_offset,
    "broker": lambda message: broker_of(message.system_properties.receipt_handle),
}


class LazyMessage(ReceivedMessage):
    """Made by `lazy_message`, without `__init__`."""

    __slots__ = ("_wire",)
    _wire: v2.Message

    def __getattr__(self, name: str) -> Any:
        read = _LATER.get(name)
        if read is None:
            raise AttributeError(f"a received message has no {name!r}")
        value = read(self._wire)
        setattr(self, name, value)
        return value


def lazy_message(
    wire: v2.Message, group: str, broker: str, body: bytes, body_error: str
) -> LazyMessage:
    """`body`: unpacked, if it was packed. `broker`: that was asked; of one without a handle it is
    the one that has the message."""
    message: LazyMessage = object.__new__(LazyMessage)
    system = wire.system_properties
    message._wire = wire
    handle = system.receipt_handle
    begin(message, wire.topic.name, group, body, body_error)
    message.receipt_handle = handle
    message.message_id = system.message_id
    message.message_group = system.message_group if system.HasField("message_group") else None
    if handle.count(" ") < HANDLE_BLANKS:
        message.broker = broker
    if len(body) > LATER_BYTES_MAX:
        for name in _LATER:
            getattr(message, name)
        del message._wire
    return message


def begin(message: ReceivedMessage, topic: str, group: str, body: bytes, body_error: str) -> None:
    """What is always there, of a message that was made without `__init__`."""
    message.topic = topic
    message.group = group
    message.body = body
    message.body_error = body_error
    message.holder = None
    message.held_until_s = 0.0
    message.unanswered_s = None
    message.observed = None
    message.counted = False
