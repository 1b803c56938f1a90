"""OpenTelemetry's names for what is done with messages, and their values.

Source: the semantic conventions for messaging spans, messaging metrics and RocketMQ, of the status
Development: a new version of them may rename these. `popmq.…` are our own, where they have none.
"""

from collections.abc import Sequence
from typing import Final, Literal

from opentelemetry.util.types import AttributeValue

from popmq._core.messages import convert
from popmq._core.messages.invalid_message import listed
from popmq.message import Message, ReceivedMessage
from popmq.observer import ClientFacts

Attributes = dict[str, AttributeValue]
Operation = Literal["create", "send", "receive", "process", "ack", "nack", "reject", "extend"]

SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
GROUP: Final = "messaging.consumer.group.name"
CLIENT_ID: Final = "messaging.client.id"
MESSAGE_ID: Final = "messaging.message.id"
COUNT: Final = "messaging.batch.message_count"
NAMESPACE: Final = "messaging.rocketmq.namespace"
TYPE: Final = "messaging.rocketmq.message.type"
TAG: Final = "messaging.rocketmq.message.tag"
KEYS: Final = "messaging.rocketmq.message.keys"
MESSAGE_GROUP: Final = "messaging.rocketmq.message.group"
DELIVER_AT: Final = "messaging.rocketmq.message.delivery_timestamp"
SERVER: Final = "server.address"
PORT: Final = "server.port"
ERROR: Final = "error.type"
ATTEMPT: Final = "popmq.delivery_attempt"

TYPES: Final[dict[Operation, str]] = {
    "create": "create",
    "send": "send",
    "receive": "receive",
    "process": "process",
    "ack": "settle",
    "nack": "settle",
    "reject": "settle",
}
"""What kind each operation is. An extension settles nothing, and has none."""


def of_operation(operation: Operation, topic: str, group: str = "") -> Attributes:
    """Of its span and of its measurements alike."""
    found: Attributes = {OPERATION_NAME: operation, DESTINATION: topic}
    if operation in TYPES:
        found[OPERATION_TYPE] = TYPES[operation]
    if group:
        found[GROUP] = group
    return found


def of_server(client: ClientFacts) -> Attributes:
    """Of several servers nobody knows here which one answers."""
    found: Attributes = {SYSTEM: "rocketmq"}
    if len(client.addresses) == 1:
        host, _, port = client.addresses[0].rpartition(":")
        found[SERVER] = host.strip("[]") or port
        if host and port.isdigit():
            found[PORT] = int(port)
    return found


def of_client(client: ClientFacts) -> Attributes:
    found: Attributes = {CLIENT_ID: client.client_id}
    if client.namespace:
        found[NAMESPACE] = client.namespace
    return found


def of_sent(message: Message, now_ms: int, *, transaction: bool) -> Attributes:
    due_ms = convert.due_ms(message.delay_s, message.deliver_at, now_ms)
    kind = "normal" if message.message_group is None else "fifo"
    if transaction:
        kind = "transaction"
    elif due_ms is not None:
        kind = "delay"
    found = _of_message(message.tag, listed(message.keys), message.message_group, due_ms)
    return found | {TYPE: kind}


def of_received(message: ReceivedMessage) -> Attributes:
    found = _of_message(message.tag, message.keys, message.message_group, message.deliver_at_ms)
    return found | {MESSAGE_ID: message.message_id, ATTEMPT: message.delivery_attempt}


def _of_message(
    tag: str | None, keys: Sequence[str], message_group: str | None, due_ms: int | None
) -> Attributes:
    found: Attributes = {}
    if tag is not None:
        found[TAG] = tag
    if keys:
        found[KEYS] = tuple(keys)
    if message_group is not None:
        found[MESSAGE_GROUP] = message_group
    if due_ms is not None:
        found[DELIVER_AT] = due_ms
    return found


def error_type(error: BaseException) -> str:
    """The class's name, with its module if it is not Python's own."""
    kind = type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"
