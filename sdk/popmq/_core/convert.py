"""Application messages ⇄ apache.rocketmq.v2."""

from collections.abc import Sequence

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq._core import compress
from popmq.message import Holder, Message, ReceivedMessage
from popmq_consumer.v1 import consumer_pb2 as consumer

UNPACKED_BYTES_MAX = 64 * 1024 * 1024
"""Of a compressed body; the servers' limit is 4 MiB by default, packed."""


def outgoing(
    message: Message, topic: v2.Resource, message_id: str, now_ms: int, *, packed: bool = False
) -> v2.Message:
    """`packed`: the body is compressed. A property `traceparent` goes into the protocol's own field
    too. Raises `ValueError` for a message that names two times."""
    due_ms = _due_ms(message, now_ms)
    kind = v2.NORMAL if message.message_group is None else v2.FIFO
    system = v2.SystemProperties(
        message_id=message_id,
        message_type=kind if due_ms is None else v2.DELAY,
        keys=message.keys,
        body_encoding=v2.GZIP if packed else v2.IDENTITY,
    )
    system.born_timestamp.FromMilliseconds(now_ms)
    if message.tag is not None:
        system.tag = message.tag
    if due_ms is not None:
        system.delivery_timestamp.FromMilliseconds(due_ms)
    if message.message_group is not None:
        system.message_group = message.message_group
    if message.properties and "traceparent" in message.properties:
        system.trace_context = message.properties["traceparent"]
    return v2.Message(
        topic=topic,
        user_properties=message.properties,
        system_properties=system,
        body=message.body,
    )


def _due_ms(message: Message, now_ms: int) -> int | None:
    if message.deliver_at is None:
        return None if message.delay_s is None else now_ms + round(message.delay_s * 1000)
    if message.delay_s is not None:
        raise ValueError("a message has a delay_s or a deliver_at, not both")
    return round(message.deliver_at.timestamp() * 1000)


def incoming(
    message: v2.Message, group: str, broker: str, holder: Holder | None = None
) -> ReceivedMessage:
    system = message.system_properties
    body, body_error = message.body, ""
    if system.body_encoding == v2.GZIP:
        try:
            body = compress.unpack(body, UNPACKED_BYTES_MAX)
        except (compress.BodyTooLarge, compress.BodyDamaged) as wrong:
            body_error = str(wrong)
    return ReceivedMessage(
        topic=message.topic.name,
        group=group,
        body=body,
        message_id=system.message_id,
        tag=system.tag if system.HasField("tag") else None,
        keys=tuple(system.keys),
        properties=dict(message.user_properties),
        message_group=system.message_group if system.HasField("message_group") else None,
        deliver_at_ms=system.delivery_timestamp.ToMilliseconds()
        if system.HasField("delivery_timestamp")
        else None,
        delivery_attempt=system.delivery_attempt,
        born_timestamp_ms=system.born_timestamp.ToMilliseconds(),
        store_timestamp_ms=system.store_timestamp.ToMilliseconds(),
        broker=broker,
        queue_id=system.queue_id,
        queue_offset=system.queue_offset,
        receipt_handle=system.receipt_handle,
        body_error=body_error,
        holder=holder,
        trace_context=system.trace_context,
    )


def ack(
    messages: Sequence[ReceivedMessage], group: v2.Resource, topic: v2.Resource
) -> service.AckMessageRequest:
    return service.AckMessageRequest(
        group=group,
        topic=topic,
        entries=[
            service.AckMessageEntry(
                message_id=message.message_id, receipt_handle=message.receipt_handle
            )
            for message in messages
        ],
    )


def change(
    message: ReceivedMessage, group: v2.Resource, topic: v2.Resource, seconds: float
) -> service.ChangeInvisibleDurationRequest:
    request = service.ChangeInvisibleDurationRequest(
        group=group,
        topic=topic,
        receipt_handle=message.receipt_handle,
        message_id=message.message_id,
    )
    request.invisible_duration.FromMilliseconds(int(seconds * 1000))
    return request


def nack(
    messages: Sequence[ReceivedMessage],
    group: v2.Resource,
    topic: v2.Resource,
    kind: "consumer.NackKind.ValueType",
    delay_s: float | None,
    reason: str,
) -> consumer.NackRequest:
    entries = [
        consumer.NackEntry(message_id=message.message_id, receipt_handle=message.receipt_handle)
        for message in messages
    ]
    request = consumer.NackRequest(
        group=group, topic=topic, entries=entries, kind=kind, reason=reason
    )
    if delay_s is not None:
        request.delay.FromMilliseconds(int(delay_s * 1000))
    return request
