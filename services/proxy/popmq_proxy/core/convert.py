"""A message that a client sends → the record that goes to the broker.

System properties become RocketMQ's named properties beside the user's. The way back is
`delivery.py`.

Source: RocketMQ GrpcConverter, SendMessageActivity.
"""

from google.protobuf.timestamp_pb2 import Timestamp

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common import hosts
from popmq_common import properties as names
from popmq_internal.v1 import link_pb2 as link

COMPRESSED = 0x1
DELIVER_NANOS = "DELIVER_NANOS"  # what milliseconds lose of a delivery time


def outgoing(message: v2.Message, *, peer: str, queue_id: int) -> link.OutgoingRecord:
    """`peer` is the client's address as text; it is stored when the message names no born host."""
    system = message.system_properties
    properties: dict[str, str] = {}
    if message.user_properties:
        properties.update(message.user_properties)
    properties[names.UNIQ_KEY] = system.message_id
    if system.tag:
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
    record = link.OutgoingRecord(
        body=message.body,
        properties=names.encode(properties),
        born_timestamp_ms=millis(system.born_timestamp),
        born_host=hosts.LOCAL,
    )
    if queue_id:
        record.queue_id = queue_id
    if system.body_encoding == v2.GZIP:
        record.sys_flag = COMPRESSED
    return record


def timestamp(ms: int) -> Timestamp:
    return Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def millis(stamp: Timestamp) -> int:
    return stamp.seconds * 1000 + stamp.nanos // 1_000_000


def is_valid(stamp: Timestamp) -> bool:
    return 0 <= stamp.nanos < 1_000_000_000 and stamp.seconds >= 0
