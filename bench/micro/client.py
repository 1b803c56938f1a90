"""What a client like grpc-go writes on its HTTP/2 connection, as bytes."""

import os
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from hpack import Encoder
from hpack.struct import NeverIndexedHeaderTuple

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq._core.messages import convert
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_proxy.front.grpc_wire import PREFIX, PREFIX_BYTES, framed
from popmq_proxy.front.http2 import wire

MESSAGING = "/apache.rocketmq.v2.MessagingService/"
CONSUMER = "/popmq.consumer.v1.Consumer/"
TOPIC, GROUP = v2.Resource(name="t"), v2.Resource(name="g")
BODY_BYTES = 1_024
FRAME_BYTES = 16_384


class Client:
    """Requests of one connection, numbered from 1 on."""

    def __init__(self) -> None:
        self._encoder = Encoder()
        self._encoder.header_table_size = 0
        self._count = 0

    def greeting(self) -> bytes:
        settings = wire.settings({wire.Setting.INITIAL_WINDOW_SIZE: wire.WINDOW_MAX})
        window = wire.window_update(0, wire.WINDOW_MAX - wire.WINDOW_DEFAULT)
        acked = wire.frame(wire.SETTINGS, wire.ACK, 0)
        return wire.PREFACE + settings + window + acked

    def request(self, method: str, message: bytes, service: str = MESSAGING) -> bytes:
        """HEADERS and DATA of one RPC."""
        self._count += 1
        stream_id = 2 * self._count - 1
        head = wire.frame(wire.HEADERS, wire.END_HEADERS, stream_id, self._block(service + method))
        body = framed([message])
        pieces = [body[at : at + FRAME_BYTES] for at in range(0, len(body), FRAME_BYTES)]
        frames = [wire.frame(wire.DATA, 0, stream_id, piece) for piece in pieces[:-1]]
        frames.append(wire.frame(wire.DATA, wire.END_STREAM, stream_id, pieces[-1]))
        return head + b"".join(frames)

    def _block(self, path: str) -> bytes:
        """Time-out and request id differ each time, as they do in life."""
        number = self._count
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "127.0.0.1:8081"),
            ("content-type", "application/grpc"),
            ("user-agent", "grpc-go/1.75.0"),
            ("te", "trailers"),
            ("grpc-timeout", f"{9_999_999 - number % 997}u"),
            ("x-mq-client-id", "host@4711@0@1x2y3z"),
            ("x-mq-language", "GO"),
            ("x-mq-protocol", "v2"),
            ("x-mq-client-version", "5.1.4"),
            ("x-mq-date-time", "20260101T000000Z"),
            ("x-mq-request-id", f"01234567-89ab-cdef-8000-{number:012x}"),
        ]
        plain = [NeverIndexedHeaderTuple(*header) for header in headers]
        block: bytes = self._encoder.encode(plain, huffman=True)
        return block


def sends(count: int, *, with_keys: bool = False) -> bytes:
    """A SendMessage of `count` messages. `with_keys`: with all that applications like to add."""
    messages = [_message() for _ in range(count)]
    if with_keys:
        for message in messages:
            number = message.system_properties.message_id[-8:]
            message.system_properties.tag = "paid"
            message.system_properties.keys.append(f"order-{number}")
            message.user_properties.update({"customer": number, "content-type": "text/plain"})
    return service.SendMessageRequest(messages=messages).SerializeToString()


def _message() -> v2.Message:
    """What bench/loadgen sends."""
    message = v2.Message(topic=TOPIC, body=os.urandom(BODY_BYTES))
    system = message.system_properties
    system.message_id = os.urandom(17).hex().upper()
    system.body_encoding, system.message_type = v2.IDENTITY, v2.NORMAL
    system.born_host = "host"
    system.born_timestamp.FromMilliseconds(1_700_000_000_123)
    return message


def receive(count: int) -> bytes:
    """A ReceiveMessage that does not wait."""
    request = service.ReceiveMessageRequest(
        group=GROUP, message_queue=v2.MessageQueue(topic=TOPIC), batch_size=count
    )
    request.invisible_duration.FromSeconds(600)
    request.long_polling_timeout.FromSeconds(0)
    request.filter_expression.type = v2.TAG
    request.filter_expression.expression = "*"
    return request.SerializeToString()


def ack(entries: Sequence[tuple[str, str]]) -> bytes:
    """An AckMessage of (message id, receipt handle) pairs."""
    request = service.AckMessageRequest(group=GROUP, topic=TOPIC)
    for message_id, handle in entries:
        request.entries.add(message_id=message_id, receipt_handle=handle)
    return request.SerializeToString()


def ack_runs(handles: Sequence[str]) -> bytes:
    """An AckRuns of these, made by the SDK."""
    messages: Any = [SimpleNamespace(receipt_handle=handle) for handle in handles]
    runs = convert.runs_of(messages)
    assert runs is not None
    request = consumer.AckRunsRequest(group=GROUP, topic=TOPIC, runs=runs.parts)
    return request.SerializeToString()


def batches(answers: bytes, size: int) -> list[list[tuple[str, str]]]:
    """(message id, receipt handle) of all messages that frames of responses hold."""
    found = []
    for message in _responses(answers):
        response = service.ReceiveMessageResponse.FromString(message)
        if response.HasField("message"):
            system = response.message.system_properties
            found.append((system.message_id, system.receipt_handle))
    return [found[at : at + size] for at in range(0, len(found), size)]


def handles(answers: bytes, size: int) -> list[list[str]]:
    """Of all stored records that frames of responses hold."""
    found: list[str] = []
    for message in _responses(answers):
        response: Any = consumer.ReceiveRecordsResponse.FromString(message)
        if hasattr(response, "messages"):  # a tree in which each message has a handle
            found += [held.receipt_handle for held in response.messages]
            continue
        for run in response.runs:
            messages = convert.held(run, TOPIC.name, GROUP.name, None)
            found += [held.receipt_handle for held in messages]
    return [found[at : at + size] for at in range(0, len(found), size)]


def _responses(answers: bytes) -> Iterator[bytes]:
    bodies: dict[int, bytearray] = {}
    at = 0
    while at < len(answers):
        high, low, kind, _, stream_id = wire.HEAD.unpack_from(answers, at)
        start = at + wire.HEAD_BYTES
        at = start + (high << 8 | low)
        if kind == wire.DATA:
            bodies.setdefault(stream_id, bytearray()).extend(answers[start:at])
    for body in bodies.values():
        yield from _messages(bytes(body))


def _messages(body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        _, size = PREFIX.unpack_from(body, at)
        at += PREFIX_BYTES + size
        yield body[at - size : at]
