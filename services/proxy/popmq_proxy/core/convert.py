"""apache.rocketmq.v2 messages ⇄ records on the link.

Outgoing: system properties become RocketMQ's named properties beside the user's. Incoming: the
other way round, and no internal property is shown to the user.

Source: RocketMQ GrpcConverter, SendMessageActivity.
"""

import hashlib

from google.protobuf.timestamp_pb2 import Timestamp

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common import hosts
from popmq_common import properties as names
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core import receipt
from popmq_proxy.core.validate import TYPE_NAMES

COMPRESSED = 0x1
DELIVER_NANOS = "DELIVER_NANOS"  # what milliseconds lose of a delivery time
_SHOWN_AS_FIELDS = names.INTERNAL | {DELIVER_NANOS}
_TYPES = {name: number for number, name in TYPE_NAMES.items()}


def outgoing(message: v2.Message, *, peer: str, queue_id: int) -> link.OutgoingRecord:
    """`peer` is the client's address as text; it is stored when the message names no born host."""
    system = message.system_properties
    properties = dict(message.user_properties)
    properties[names.UNIQ_KEY] = system.message_id
    if system.HasField("tag") and system.tag:
        properties[names.TAGS] = system.tag
    if system.keys:
        properties[names.KEYS] = " ".join(system.keys)
    if system.HasField("message_group"):
        properties[names.SHARDING_KEY] = system.message_group
    if system.HasField("delivery_timestamp"):
        stamp = system.delivery_timestamp
        properties[names.DELIVER_MS] = str(millis(stamp))
        properties[DELIVER_NANOS] = str(stamp.nanos % 1_000_000)
    if system.HasField("trace_context"):
        properties[names.TRACE_CONTEXT] = system.trace_context
    properties[names.BORN_HOST] = system.born_host or peer
    return link.OutgoingRecord(
        queue_id=queue_id,
        body=message.body,
        properties=names.encode(properties),
        sys_flag=COMPRESSED if system.body_encoding == v2.GZIP else 0,
        born_timestamp_ms=millis(system.born_timestamp),
        born_host=hosts.LOCAL,
    )


def incoming(
    popped: link.PoppedMessage, *, topic: v2.Resource, group: str, stored_topic: str, broker: str
) -> v2.Message:
    """A delivered message with every field clients look at.

    `topic` is the resource as the client named it, `stored_topic` its name at the broker.
    """
    properties = names.decode(popped.properties)
    system = v2.SystemProperties(
        keys=properties.get(names.KEYS, "").split(),
        message_id=properties.get(names.UNIQ_KEY) or offset_message_id(popped),
        body_digest=v2.Digest(type=v2.MD5, checksum=digest(popped.body)),
        body_encoding=v2.GZIP if popped.sys_flag & COMPRESSED else v2.IDENTITY,
        message_type=_TYPES[message_type(properties)],
        born_timestamp=timestamp(popped.born_timestamp_ms),
        born_host=properties.get(names.BORN_HOST) or hosts.decode(popped.born_host),
        store_timestamp=timestamp(popped.store_timestamp_ms),
        store_host=hosts.decode(popped.store_host),
        queue_id=popped.lease.queue_id,
        queue_offset=popped.lease.queue_offset,
        delivery_attempt=popped.delivery_attempt,
        receipt_handle=receipt.encode(receipt.Receipt(broker, popped.lease), group, stored_topic),
    )
    system.invisible_duration.FromMilliseconds(popped.lease.invisible_ms)
    _optional_fields(system, properties)
    shown = {k: v for k, v in properties.items() if k not in _SHOWN_AS_FIELDS}
    return v2.Message(
        topic=topic, user_properties=shown, system_properties=system, body=popped.body
    )


def _optional_fields(system: v2.SystemProperties, properties: dict[str, str]) -> None:
    """Set only what the producer set: clients ask for presence."""
    if names.TAGS in properties:
        system.tag = properties[names.TAGS]
    if names.SHARDING_KEY in properties:
        system.message_group = properties[names.SHARDING_KEY]
    if names.TRACE_CONTEXT in properties:
        system.trace_context = properties[names.TRACE_CONTEXT]
    if names.DELIVER_MS in properties:
        stamp = timestamp(int(properties[names.DELIVER_MS]))
        stamp.nanos += int(properties.get(DELIVER_NANOS, "0"))
        system.delivery_timestamp.CopyFrom(stamp)
    if names.DLQ_ORIGIN_TOPIC in properties:
        system.dead_letter_queue.topic = properties[names.DLQ_ORIGIN_TOPIC]
        system.dead_letter_queue.message_id = properties.get(names.DLQ_ORIGIN_MESSAGE_ID, "")


def message_type(properties: dict[str, str]) -> str:
    if names.SHARDING_KEY in properties:
        return "FIFO"
    return "DELAY" if names.DELIVER_MS in properties else "NORMAL"


def digest(body: bytes) -> str:
    """MD5 in upper-case hexadecimal: the one form all clients agree on."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest().upper()


def offset_message_id(popped: link.PoppedMessage) -> str:
    """RocketMQ's id for a message without one: store host and log offset in hexadecimal."""
    offset = popped.lease.log_offset.to_bytes(8, "big")
    return (popped.store_host + offset).hex().upper()


def timestamp(ms: int) -> Timestamp:
    return Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def millis(stamp: Timestamp) -> int:
    return stamp.seconds * 1000 + stamp.nanos // 1_000_000


def is_valid(stamp: Timestamp) -> bool:
    return 0 <= stamp.nanos < 1_000_000_000 and stamp.seconds >= 0
