"""Messages that a client sends → the records that are stored, and what it gets back.

System properties become RocketMQ's named properties beside the user's. The way back is
`delivery.py`. The protobuf is written by hand (the call in popmq_common/link/sends.py): 2 µs for a
message of 1 KiB, where building the objects takes 5 µs. The tests compare both.

Source: RocketMQ GrpcConverter, SendMessageActivity.
"""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Final

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.errors import MessagesCorrupted
from popmq_common.link.protowire import sized, varint
from popmq_common.link.sends import OutgoingRecord
from popmq_common.records import hosts, transaction_id
from popmq_common.records import properties as names
from popmq_common.records.transaction_id import TransactionId
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages import convert
from popmq_proxy.core.messages.convert import COMPRESSED, millis
from popmq_proxy.core.messages.recall_handle import RecallHandle
from popmq_proxy.core.messages.recall_handle import encode as encode_recall_handle
from popmq_proxy.core.messages.status import OK, common

Result = tuple[int, v2.Status, bytes]
"""(queue offset, status, further fields of the entry as protobuf) of one message."""

LATEST_MS: Final = 253_402_300_799_999
"""The last millisecond a protobuf Timestamp may mean."""
_GZIP: Final = v2.GZIP
OK_FIELD: Final = sized(b"\x0a", OK.SerializeToString())
"""The status OK as a response and each of its entries have it."""


def record(message: v2.Message, peer: str) -> OutgoingRecord:
    """A checked message as an element of `Send.records`.

    `peer` is the client's address as text; it is stored when the message names no born host.
    Raises `PropertiesTooLarge`, `MessagesCorrupted`.
    """
    system = message.system_properties
    born_ms = millis(system.born_timestamp)
    if not 0 <= born_ms <= LATEST_MS:
        raise MessagesCorrupted(reason="its born timestamp is no point in time after 1970")
    return OutgoingRecord(
        message.body,
        names.encode(_properties(message, system, peer), names.SENT_BYTES_MAX),
        COMPRESSED if system.body_encoding == _GZIP else 0,
        0,
        born_ms,
        hosts.LOCAL,
    )


def _properties(message: v2.Message, system: v2.SystemProperties, peer: str) -> dict[str, str]:
    properties = {names.UNIQ_KEY: system.message_id}  # first: brokers look there
    if message.user_properties:
        properties.update(message.user_properties)
    if system.tag:
        properties[names.TAGS] = system.tag
    if system.keys:
        properties[names.KEYS] = " ".join(system.keys)
    if system.HasField("message_group"):
        properties[names.SHARDING_KEY] = system.message_group
    if system.HasField("delivery_timestamp"):
        stamp = system.delivery_timestamp
        properties[names.DELIVER_MS] = str(millis(stamp))
        properties[names.DELIVER_NANOS] = str(stamp.nanos % 1_000_000)
    if system.HasField("trace_context"):
        properties[names.TRACE_CONTEXT] = system.trace_context
    if system.message_type == v2.TRANSACTION:
        properties.pop(names.IMMUNITY_S, None)
        if system.HasField("orphaned_transaction_recovery_duration"):
            duration = system.orphaned_transaction_recovery_duration
            properties[names.IMMUNITY_S] = str(duration.seconds)
    properties[names.BORN_HOST] = system.born_host or peer
    return properties


def recall_handle(topic: str, broker: str, message: v2.Message) -> bytes:
    """The entry's field that lets its sender take a delayed message back."""
    system = message.system_properties
    due_ms = convert.due_ms(system.delivery_timestamp)
    handle = RecallHandle(topic, broker, due_ms, system.message_id)
    return sized(b"\x2a", encode_recall_handle(handle).encode())


def half_results(broker: str, reply: link.SendReply) -> list[Result]:
    """Of half messages: each entry has its transaction id."""
    found: list[Result] = []
    offsets = reply.queue_offsets or count(reply.queue_offset)
    for offset, log_offset in zip(offsets, reply.log_offsets, strict=False):
        name = transaction_id.encode(TransactionId(broker, offset, log_offset))
        found.append((offset, OK, sized(b"\x1a", name.encode())))
    return found


def response(message_ids: Iterable[bytes], results: Sequence[Result]) -> tuple[v2.Status, bytes]:
    """(status, SendMessageResponse with it and one entry per message, in order)"""
    whole = common([status for _, status, _ in results])
    parts = [_status(whole)]
    for message_id, (offset, status, more) in zip(message_ids, results, strict=True):
        field = OK_FIELD if status is OK else _status(status)
        id_bytes = varint(len(message_id))
        number = varint(offset)
        size = len(field) + len(id_bytes) + len(message_id) + len(number) + len(more) + 2
        parts.append(
            b"\x12%b%b\x12%b%b\x20%b%b" % (varint(size), field, id_bytes, message_id, number, more)
        )
    return whole, b"".join(parts)


def _status(status: v2.Status) -> bytes:
    return OK_FIELD if status is OK else sized(b"\x0a", status.SerializeToString())
