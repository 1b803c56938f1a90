"""What log records say besides their text: the same names for the same things everywhere.

All records come from loggers under `popmq`, and the library installs no handler. Whatever a record
is about, it has these as attributes (`record.topic`), so that a formatter can write them; those
that do not apply are absent. docs/observability.md has a formatter that writes JSON.
"""

import logging
from typing import Final

from popmq.errors import ServerUnreachable
from popmq.message import ReceivedMessage

FIELDS: Final = (
    "topic",
    "group",
    "broker",
    "message_id",
    "attempt",
    "next_delay_s",
    "dead_letter",
    "error",
    "reason",
)
"""`attempt`: of the message's deliveries, from 1. `next_delay_s`: until the next one.
`dead_letter`: there is none. `error`: the class of what went wrong. `reason`: why, in words."""


def level_of(failed: Exception) -> int:
    """Of a failure that is tried again: that no server answers is told once, by the connection."""
    return logging.DEBUG if isinstance(failed, ServerUnreachable) else logging.WARNING


def fields(
    message: ReceivedMessage | None = None,
    reason: object = None,
    *,
    topic: str = "",
    group: str = "",
    broker: str = "",
) -> dict[str, object]:
    """For `extra=`. `reason`: an exception, or a text."""
    found: dict[str, object] = {}
    if message is not None:
        topic, group, broker = message.topic, message.group, message.broker
        found["message_id"], found["attempt"] = message.message_id, message.delivery_attempt
    for name, value in (("topic", topic), ("group", group), ("broker", broker)):
        if value:
            found[name] = value
    if isinstance(reason, BaseException):
        found["error"] = type(reason).__qualname__
    if reason is not None:
        found["reason"] = str(reason)
    return found
