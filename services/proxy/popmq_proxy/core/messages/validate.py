"""What a request must satisfy before it goes to a broker.

Limits and codes are RocketMQ's (GrpcValidator, SendMessageActivity); what is exactly at a limit
passes. Control characters would break the stored property string, so they are refused here.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common import errors as e
from popmq_common.records.properties import RESERVED

MESSAGE_GROUP_BYTES_MAX: Final = 63
MESSAGE_ID_BYTES_MAX: Final = 255
"""Clients make 32 or 34. It is stored twice in a dead letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLimits:
    body_bytes: int
    properties_bytes: int
    properties_count: int


def check_message(message: v2.Message, limits: MessageLimits) -> None:
    """Raises the error whose code official clients expect."""
    system = message.system_properties
    body_bytes = len(message.body)
    if not body_bytes:
        raise e.MessageBodyEmpty()
    if body_bytes > limits.body_bytes:
        raise e.MessageTooLarge(size_bytes=body_bytes, limit_bytes=limits.body_bytes)
    message_id = system.message_id
    if not message_id.strip():
        raise e.IllegalMessageId(reason="it is blank")
    if len(message_id) > MESSAGE_ID_BYTES_MAX or len(message_id.encode()) > MESSAGE_ID_BYTES_MAX:
        reason = f"{len(message_id.encode())} bytes, the limit is {MESSAGE_ID_BYTES_MAX}"
        raise e.IllegalMessageId(reason=reason)
    _check_text(message_id, e.IllegalMessageId)
    if system.tag:
        _check_tag(system.tag)
    if system.keys:
        _check_keys(system.keys)
    if system.HasField("message_group"):
        _check_message_group(system.message_group)
    for name, text in ("trace context", system.trace_context), ("born host", system.born_host):
        if has_control(text):
            raise e.MessagesCorrupted(reason=f"its {name} contains control characters")
    _check_properties(message, limits)


def check_recovery_time(message: v2.Message, max_ms: int) -> None:
    """How long a transaction may be left alone. Raises `IllegalRecoveryTime`."""
    if message.system_properties.HasField("orphaned_transaction_recovery_duration"):
        asked_ms = message.system_properties.orphaned_transaction_recovery_duration.seconds * 1000
        if not 0 <= asked_ms <= max_ms:
            raise e.IllegalRecoveryTime(reason=f"{asked_ms} ms, 0 to {max_ms} ms")


def check_one_topic(messages: Sequence[v2.Message]) -> v2.Resource:
    """The topic of all messages. Raises `MessagesCorrupted`."""
    if not messages:
        raise e.MessagesCorrupted(reason="there is no message")
    topic = messages[0].topic
    if any(message.topic != topic for message in messages[1:]):
        raise e.MessagesCorrupted(reason="they are for different topics")
    return topic


def check_receive_invisible(invisible_ms: int, min_ms: int, max_ms: int) -> None:
    """Raises `IllegalInvisibleTime` with the words official clients look for."""
    if invisible_ms < min_ms:
        reason = f"the invisibleTime is too small: {invisible_ms} ms, at least {min_ms} ms"
        raise e.IllegalInvisibleTime(reason=reason)
    if invisible_ms > max_ms:
        reason = f"the invisibleTime is too large: {invisible_ms} ms, at most {max_ms} ms"
        raise e.IllegalInvisibleTime(reason=reason)


def poll_ms(
    asked_ms: int | None, settings_ms: int | None, remaining_ms: int | None, max_ms: int
) -> int:
    """How long to hold a receive. Raises `IllegalPollingTime` when the deadline is all but over.

    What the request asks, else the client's settings, else what the deadline leaves; it always
    ends early enough before the deadline for the answer to arrive.
    """
    wanted = asked_ms if asked_ms is not None else settings_ms
    if remaining_ms is None:
        return min(max_ms, wanted if wanted is not None else max_ms)
    margin_ms = max(100, min(1_000, remaining_ms // 5))
    room_ms = remaining_ms - margin_ms
    if room_ms < 0:
        reason = f"the deadline is {remaining_ms} ms away, at least {margin_ms} ms are needed"
        raise e.IllegalPollingTime(reason=reason)
    return min(max_ms, room_ms, wanted if wanted is not None else room_ms)


def _check_tag(tag: str) -> None:
    if not tag.strip():
        raise e.IllegalTag(reason="it is blank")
    if "|" in tag:
        raise e.IllegalTag(reason="it contains |")
    _check_text(tag, e.IllegalTag)


def _check_keys(keys: Iterable[str]) -> None:
    for key in keys:
        if not key.strip():
            raise e.IllegalKey(reason="it is blank")
        _check_text(key, e.IllegalKey)


def _check_message_group(group: str) -> None:
    if not group.strip():
        raise e.IllegalMessageGroup(reason="it is blank")
    if len(group.encode()) > MESSAGE_GROUP_BYTES_MAX:
        reason = f"{len(group.encode())} bytes, the limit is {MESSAGE_GROUP_BYTES_MAX}"
        raise e.IllegalMessageGroup(reason=reason)
    _check_text(group, e.IllegalMessageGroup)


def _check_properties(message: v2.Message, limits: MessageLimits) -> None:
    properties = message.user_properties
    system = message.system_properties
    if not properties and not system.keys and len(system.tag) * 4 <= limits.properties_bytes:
        return
    if len(properties) > limits.properties_count:
        reason = f"{len(properties)} user properties, the limit is {limits.properties_count}"
        raise e.PropertiesTooLarge(reason=reason)
    total = len(system.tag.encode()) + sum(len(key.encode()) for key in system.keys)
    for name, value in properties.items():
        if name in RESERVED:
            raise e.IllegalProperty(name=name, reason="the name is reserved")
        if not name or has_control(name) or has_control(value):
            raise e.IllegalProperty(name=repr(name), reason="empty, or with control characters")
        total += len(name.encode()) + len(value.encode())
    if total > limits.properties_bytes:
        reason = f"{total} bytes, the limit is {limits.properties_bytes}"
        raise e.PropertiesTooLarge(reason=reason)


def _check_text(text: str, error: type[e.BadRequest]) -> None:
    if has_control(text):
        raise error(reason="it contains control characters")


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def has_control(text: str) -> bool:
    """ISO control characters, as Java's Character.isISOControl."""
    return not text.isprintable() and _CONTROL.search(text) is not None
