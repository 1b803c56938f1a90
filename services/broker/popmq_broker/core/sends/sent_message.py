"""Which send a stored record is of: what a repeated send is held against, and what a start knows.

| the record lies in | it was sent to | unless it has |
| --- | --- | --- |
| a topic of users | that topic | `__TIMER_OF`, `__REDRIVE_OF`, the commit bit: it is a copy |
| the topic of the timer | REAL_TOPIC | `__TIMER_OF`: it was written again, or is a recall's mark |
| the topic of half messages | REAL_TOPIC | `__HALF_ORIGIN`: it was written again |

Nothing else was sent: retry copies, dead letters and what the broker writes for itself have the id
of a message, or one of their own, and are no repeat of it.
"""

from typing import Final, NamedTuple

from popmq_broker.core.sends.known_sends import id_of
from popmq_common.records import properties as names
from popmq_common.records.names import HALF_TOPIC, TIMER_TOPIC, is_user_topic
from popmq_common.records.record import Record, SysFlag

_COMMIT: Final = SysFlag.COMMIT.value
_COMPRESSED: Final = SysFlag.COMPRESSED.value
_TIMER_OF, _REDRIVE_OF, _HALF_ORIGIN, _TIMER_DEL_KEY, _REAL_TOPIC = (
    f"{name}{names.NAME_END}".encode()
    for name in (
        names.TIMER_OF,
        names.REDRIVE_OF,
        names.HALF_ORIGIN,
        names.TIMER_DEL_KEY,
        names.REAL_TOPIC,
    )
)


class StoredSend(NamedTuple):
    topic: str
    """That it was sent to."""
    message_id: bytes
    half: bool
    waits: bool
    """For its delivery time, when it was stored."""


def sent_message(record: Record) -> StoredSend | None:
    """None: nobody has sent it, or it has no id."""
    topic, properties = record.topic, record.properties
    half, waits = topic == HALF_TOPIC, topic == TIMER_TOPIC
    if half or waits:
        real_topic = names.value_of(properties, _REAL_TOPIC)
        copied = any(_has(properties, name) for name in (_TIMER_OF, _TIMER_DEL_KEY, _HALF_ORIGIN))
        if copied or not real_topic:
            return None
        topic = real_topic
    elif (
        not is_user_topic(topic)
        or record.sys_flag & _COMMIT
        or _has(properties, _TIMER_OF)
        or _has(properties, _REDRIVE_OF)
    ):
        return None
    message_id = id_of(properties)
    return StoredSend(topic, message_id, half, waits) if message_id else None


def is_repeat(
    record: Record,
    *,
    topic: str,
    properties: bytes,
    body: bytes,
    sys_flag: int,
    half: bool,
    may_wait: bool,
) -> bool:
    """The message that comes now is the one that this record holds: topic, id, body and kind are
    the same. A body that was compressed again need not be the same bytes. `may_wait`: it was sent
    with a delivery time."""
    sent = sent_message(record)
    if sent is None or sent.topic != topic or sent.half is not half:
        return False
    if sent.message_id != id_of(properties) or (sent.waits and not may_wait):
        return False
    return record.body == body or bool(record.sys_flag & sys_flag & _COMPRESSED)


def _has(properties: bytes, head: bytes) -> bool:
    """`head` is a name of theirs, not the end of one."""
    return names.bytes_of(properties, head) is not None
