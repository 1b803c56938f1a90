"""Application messages ⇄ apache.rocketmq.v2."""

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq.message import Message, ReceivedMessage
from popmq_consumer.v1 import consumer_pb2 as consumer


def outgoing(message: Message, topic: v2.Resource, message_id: str, now_ms: int) -> v2.Message:
    due_ms = _due_ms(message, now_ms)
    kind = v2.NORMAL if message.message_group is None else v2.FIFO
    system = v2.SystemProperties(
        message_id=message_id,
        message_type=kind if due_ms is None else v2.DELAY,
        keys=message.keys,
        body_encoding=v2.IDENTITY,
    )
    system.born_timestamp.FromMilliseconds(now_ms)
    if message.tag is not None:
        system.tag = message.tag
    if due_ms is not None:
        system.delivery_timestamp.FromMilliseconds(due_ms)
    if message.message_group is not None:
        system.message_group = message.message_group
    return v2.Message(
        topic=topic,
        user_properties=message.properties,
        system_properties=system,
        body=message.body,
    )


def _due_ms(message: Message, now_ms: int) -> int | None:
    """Raises `ValueError` for a message that names two times."""
    if message.deliver_at is None:
        return None if message.delay_s is None else now_ms + round(message.delay_s * 1000)
    if message.delay_s is not None:
        raise ValueError("a message has a delay_s or a deliver_at, not both")
    return round(message.deliver_at.timestamp() * 1000)


def incoming(message: v2.Message, group: str, broker: str) -> ReceivedMessage:
    system = message.system_properties
    return ReceivedMessage(
        topic=message.topic.name,
        group=group,
        body=message.body,
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
    )


def nack(
    message: ReceivedMessage,
    group: v2.Resource,
    topic: v2.Resource,
    kind: "consumer.NackKind.ValueType",
    delay_s: float | None,
    reason: str,
) -> consumer.NackRequest:
    entry = consumer.NackEntry(message_id=message.message_id, receipt_handle=message.receipt_handle)
    request = consumer.NackRequest(
        group=group, topic=topic, entries=[entry], kind=kind, reason=reason
    )
    if delay_s is not None:
        request.delay.FromMilliseconds(int(delay_s * 1000))
    return request
