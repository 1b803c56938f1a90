"""The requests these tests put on the wire, as bytes of protobuf, and what was answered."""

from itertools import count

from front.stream import Stream

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service

GRPC_OK = 0
IDS = count()
"""Of messages: what is sent under an id that was sent before is not stored again."""
INVISIBLE_S = 60


def send(topic: str, *bodies: bytes) -> bytes:
    """SendMessageRequest."""
    messages = [
        v2.Message(
            topic=v2.Resource(name=topic),
            body=body,
            system_properties=v2.SystemProperties(message_id=f"01{next(IDS):08X}"),
        )
        for body in bodies
    ]
    return service.SendMessageRequest(messages=messages).SerializeToString()


def receive(
    topic: str,
    group: str,
    *,
    poll_s: float,
    batch_size: int = 32,
    invisible_s: int = INVISIBLE_S,
) -> bytes:
    """ReceiveMessageRequest with an invisible time that outlasts every test."""
    request = service.ReceiveMessageRequest(
        group=v2.Resource(name=group),
        message_queue=v2.MessageQueue(topic=v2.Resource(name=topic)),
        batch_size=batch_size,
    )
    request.long_polling_timeout.FromMilliseconds(int(poll_s * 1000))
    request.invisible_duration.FromSeconds(invisible_s)
    return request.SerializeToString()


def publisher(*topics: str) -> bytes:
    """TelemetryCommand with a producer's settings."""
    publishing = v2.Publishing(topics=[v2.Resource(name=topic) for topic in topics])
    settings = v2.Settings(client_type=v2.PRODUCER, publishing=publishing)
    return service.TelemetryCommand(settings=settings).SerializeToString()


def stored(stream: Stream) -> bool:
    """Was the SendMessage of this stream answered with OK?"""
    if stream.grpc_status != GRPC_OK or len(stream.messages) != 1:
        return False
    answer = service.SendMessageResponse.FromString(stream.messages[0])
    return bool(answer.status.code == v2.OK)
