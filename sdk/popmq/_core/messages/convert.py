"""Application messages ⇄ apache.rocketmq.v2."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq._core.messages import compress, invalid_message
from popmq._core.messages.encode import TRACEPARENT
from popmq._core.messages.held_message import held_messages, run_of
from popmq._core.messages.lazy_message import lazy_message
from popmq.message import Message, MessageHolder, ReceivedMessage
from popmq_consumer.v1 import consumer_pb2 as consumer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
HANDLE_FIELDS = 11
"""Of one that a server made; who was given a run of messages by one handle adds a queue offset."""
UNPACKED_BYTES_MAX = 64 * 1024 * 1024
"""Of a compressed body; the servers' limit is 4 MiB by default, packed."""


def outgoing(message: Message, topic: v2.Resource, message_id: str, now_ms: int) -> v2.Message:
    """For a message that goes alone; `encode.py` writes many. A property `traceparent` goes into
    the protocol's own field too. Raises `TypeError` for what a message cannot have, `ValueError`
    for one that names two times."""
    try:
        return _outgoing(message, topic, message_id, now_ms)
    except (AttributeError, TypeError, ValueError) as failed:
        wrong = invalid_message.why_invalid(message)
        if wrong:
            raise TypeError(wrong) from failed
        raise


def _outgoing(message: Message, topic: v2.Resource, message_id: str, now_ms: int) -> v2.Message:
    due_at_ms = due_ms(message.delay_s, message.deliver_at, now_ms)
    kind = v2.NORMAL if message.message_group is None else v2.FIFO
    system = v2.SystemProperties(
        message_id=message_id,
        message_type=kind if due_at_ms is None else v2.DELAY,
        keys=invalid_message.listed(message.keys),
        body_encoding=v2.IDENTITY,
    )
    system.born_timestamp.FromMilliseconds(now_ms)
    if message.tag is not None:
        system.tag = message.tag
    if due_at_ms is not None:
        system.delivery_timestamp.FromMilliseconds(due_at_ms)
    if message.message_group is not None:
        system.message_group = message.message_group
    if message.properties and TRACEPARENT in message.properties:
        system.trace_context = message.properties[TRACEPARENT]
    return v2.Message(
        topic=topic,
        user_properties=message.properties,
        system_properties=system,
        body=bytes(memoryview(message.body)),  # a `TypeError` for what is none
    )


def due_ms(delay_s: float | None, deliver_at: datetime | None, now_ms: int) -> int | None:
    """None: it does not wait. Microseconds are cut off, as they are off the time of sending: a
    message for in ten minutes is due in ten minutes. Raises `ValueError`."""
    if deliver_at is None:
        return None if delay_s is None else now_ms + round(delay_s * 1000)
    if delay_s is not None:
        raise ValueError("a message has a delay_s or a deliver_at, not both")
    return (deliver_at.astimezone(UTC) - EPOCH) // MS


def incoming(
    message: v2.Message, group: str, broker: str, holder: MessageHolder | None = None
) -> ReceivedMessage:
    body, body_error = message.body, ""
    if message.system_properties.body_encoding == v2.GZIP:
        body, body_error = _unpacked(body)
    found = lazy_message(message, group, broker, body, body_error)
    found.holder = holder
    return found


def held(
    run: consumer.HeldRun, topic: str, group: str, holder: MessageHolder | None
) -> Sequence[ReceivedMessage]:
    """The same of messages that come as they are stored."""
    return held_messages(run, topic=topic, group=group, holder=holder, unpacked=_unpacked)


def _unpacked(body: bytes) -> tuple[bytes, str]:
    """The body; or as it came, and what is wrong with it."""
    try:
        return compress.unpack(body, UNPACKED_BYTES_MAX), ""
    except (compress.BodyTooLarge, compress.BodyDamaged) as wrong:
        return body, str(wrong)


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


class NackTerms(NamedTuple):
    """What a nack says, whichever messages it is of."""

    kind: "consumer.NackKind.ValueType"
    delay_s: float | None
    reason: str


class Runs(NamedTuple):
    """Messages by what they were given by: those that one receive gave of one queue share a run."""

    parts: list[consumer.RunPart]
    places: list[tuple[int, int]]
    """Of each message its run, from 0, and its queue offset."""


def runs_of(messages: Sequence[ReceivedMessage]) -> Runs | None:
    """None: a handle is another server's."""
    numbers: dict[str, int] = {}
    offsets: list[list[int]] = []
    handles: list[str] = []
    places = []
    for message in messages:
        key = handle = run_of(message)
        if handle:
            offset = message.queue_offset
        else:
            try:
                key, handle, offset = _run_and_offset(message.receipt_handle)
            except ValueError:
                return None
        run = numbers.get(key)
        if run is None:
            run = numbers[key] = len(handles)
            handles.append(handle)
            offsets.append([])
        offsets[run].append(offset)
        places.append((run, offset))
    parts = [
        consumer.RunPart(receipt_handle=handle, queue_offsets=own)
        for handle, own in zip(handles, offsets, strict=True)
    ]
    return Runs(parts, places)


def _run_and_offset(handle: str) -> tuple[str, str, int]:
    """What handles of one run have in common, one of them, and the queue offset of the message. Of
    eleven fields the offsets and the checksum differ, or only the offset that is the twelfth.

    Raises `ValueError`."""
    if handle.count(" ") == HANDLE_FIELDS:
        run, _, text = handle.rpartition(" ")
        return run, run, int(text)
    head, text, _, generation, _ = handle.rsplit(" ", 4)
    return f"{head} {generation}", handle, int(text)


def ack_runs(runs: Runs, group: v2.Resource, topic: v2.Resource) -> consumer.AckRunsRequest:
    return consumer.AckRunsRequest(group=group, topic=topic, runs=runs.parts)


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


def extend(
    runs: Runs, group: v2.Resource, topic: v2.Resource, seconds: float
) -> consumer.ExtendRunsRequest:
    request = consumer.ExtendRunsRequest(group=group, topic=topic, runs=runs.parts)
    request.invisible_duration.FromMilliseconds(int(seconds * 1000))
    return request


def nack(
    messages: Sequence[ReceivedMessage],
    group: v2.Resource,
    topic: v2.Resource,
    nack: NackTerms,
) -> consumer.NackRequest:
    entries = [
        consumer.NackEntry(message_id=message.message_id, receipt_handle=message.receipt_handle)
        for message in messages
    ]
    request = consumer.NackRequest(
        group=group, topic=topic, entries=entries, kind=nack.kind, reason=nack.reason
    )
    if nack.delay_s is not None:
        request.delay.FromMilliseconds(int(nack.delay_s * 1000))
    return request


def nack_runs(
    runs: Runs, group: v2.Resource, topic: v2.Resource, nack: NackTerms
) -> consumer.NackRunsRequest:
    request = consumer.NackRunsRequest(
        group=group, topic=topic, runs=runs.parts, kind=nack.kind, reason=nack.reason
    )
    if nack.delay_s is not None:
        request.delay.FromMilliseconds(int(nack.delay_s * 1000))
    return request
