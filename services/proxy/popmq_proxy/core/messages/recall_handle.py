"""Recall handle ⇄ text: what a producer keeps to take a delayed message back.

    URL-safe base64 of   v1 TOPIC BROKER DUE_MS MESSAGE_ID      separated by blanks

Source: RocketMQ RecallMessageHandle.
"""

import base64
import binascii
from typing import Final, NamedTuple

from popmq_common.errors import InvalidRecallHandle

CHARS_MAX: Final = 4_096
_VERSION: Final = "v1"


class RecallHandle(NamedTuple):
    topic: str
    """As stored, with its namespace."""
    broker: str
    due_ms: int
    message_id: str


def encode(handle: RecallHandle) -> str:
    text = " ".join((_VERSION, *map(str, handle)))
    return base64.urlsafe_b64encode(text.encode()).decode()


def decode(text: str, topic: str) -> RecallHandle:
    """Of a message of `topic`. Raises `InvalidRecallHandle` saying what is wrong with it."""
    if len(text) > CHARS_MAX:
        raise InvalidRecallHandle(reason=f"longer than {CHARS_MAX} characters")
    try:
        plain = base64.b64decode(text, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise InvalidRecallHandle(reason="it is not one of this server's") from None
    fields = plain.split(" ", 4)
    if len(fields) != 5 or fields[0] != _VERSION or not fields[4]:
        raise InvalidRecallHandle(reason="it is not one of this server's")
    _, own_topic, broker, due, message_id = fields
    if not (due.isascii() and due.isdigit() and len(due) <= 15):
        raise InvalidRecallHandle(reason="its time cannot be read")
    if own_topic != topic:
        raise InvalidRecallHandle(reason="it was not given for this topic")
    return RecallHandle(own_topic, broker, int(due), message_id)
