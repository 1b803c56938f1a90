"""Dead letters: what one tells, and what it becomes when it is sent again.

The new message has the body, message id, keys, tag, message group and user properties of the
original, and its attempts begin anew. It goes to one of two places:

    the group alone    the topic the group reads its retries from: %RETRY%GROUP_TOPIC, or
                       %RETRY%GROUP when a consumer that pulls had sent it back
    the topic          where every group of the topic gets it

It carries `__REDRIVE_OF`, which makes it the first half of a pair. The second is the mark:

    topic   rmq_sys_REDRIVE_GROUP, one queue      tag redriven      key TOPIC@OFFSET
    body    {"o": offset in the dead letters, "t": topic it was put into}

A dead letter whose offset is marked is not sent again. A crash keeps both or drops both.
"""

import json
from dataclasses import dataclass
from typing import Final, NamedTuple

from popmq_broker.core.retries.deliveries import count_of, uncounted
from popmq_broker.core.retries.retry import DLQ_ATTEMPTS
from popmq_common.errors import Corrupt
from popmq_common.records import properties as names
from popmq_common.records.names import classic_retry_topic, dead_letter_topic, retry_topic
from popmq_common.records.record import Record

MARK_TAG: Final = "redriven"
MARKS_PREFIX: Final = "rmq_sys_REDRIVE_"
_LEFT_OUT: Final = frozenset(
    {
        names.FIRST_POP_TIME,
        names.DLQ_ORIGIN_TOPIC,
        names.DLQ_ORIGIN_MESSAGE_ID,
        names.DLQ_REASON,
        DLQ_ATTEMPTS,
        names.RETRY_REASON,
        names.ORIGIN_QUEUE,
        names.RETRY_TOPIC,
        names.ORIGIN_MESSAGE_ID,
        names.RETRIED_IN_PLACE,
        names.DLQ_CAUSE,
        names.UNCOUNTED,
    }
)
_OF_RETRIES: Final = frozenset({names.ORIGIN_QUEUE, names.RETRY_TOPIC, names.ORIGIN_MESSAGE_ID})
"""Where a message of a retry topic is from."""


class Selection(NamedTuple):
    """Which dead letters are meant; empty fields let everything through."""

    reason: str = ""
    """Part of it."""
    topic: str = ""
    message_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDeadLetter:
    topic: str
    """Of origin; empty: somebody has sent the record to the dead letters by himself."""
    message_id: str
    attempts: int
    handed_out: int
    """Counted or not."""
    reason: str
    queue_id: int
    """Where it was sent to first, of a message group's message; else −1."""
    record: Record
    properties: dict[str, str]

    def is_in(self, wanted: Selection) -> bool:
        return (
            wanted.reason in self.reason
            and wanted.topic in ("", self.topic)
            and wanted.message_id in ("", self.message_id)
        )


def read(record: Record) -> StoredDeadLetter:
    properties = names.decode(record.properties)
    queue_id = names.number_of(properties.get(names.ORIGIN_QUEUE))
    attempts = count_of(properties.get(DLQ_ATTEMPTS))
    return StoredDeadLetter(
        topic=properties.get(names.DLQ_ORIGIN_TOPIC, ""),
        message_id=properties.get(names.DLQ_ORIGIN_MESSAGE_ID, ""),
        attempts=attempts,
        handed_out=attempts + uncounted(record.properties),
        reason=properties.get(names.DLQ_REASON, ""),
        queue_id=-1 if queue_id is None else queue_id,
        record=record,
        properties=properties,
    )


def retries_of(letter: StoredDeadLetter, group: str, *, fifo: bool) -> str | None:
    """The topic from which the group alone gets it again; None: its consumers take messages in
    order, and read no retries."""
    if fifo or names.RETRIED_IN_PLACE in letter.properties:
        return None
    if names.RETRY_TOPIC in letter.properties:
        return classic_retry_topic(group)
    return retry_topic(group, letter.topic)


def second_life(letter: StoredDeadLetter, group: str, *, to_topic: bool) -> bytes:
    """The property string of the message that is sent again."""
    left_out = _LEFT_OUT if to_topic else _LEFT_OUT - _OF_RETRIES
    kept = {name: value for name, value in letter.properties.items() if name not in left_out}
    kept[names.REDRIVE_OF] = mark_key(group, letter.record.queue_offset)
    return names.encode(kept)


def marks_topic(group: str) -> str:
    return f"{MARKS_PREFIX}{group}"


def mark_key(group: str, offset: int) -> str:
    return f"{dead_letter_topic(group)}@{offset}"


def encode_mark(offset: int, topic: str) -> bytes:
    return json.dumps({"o": offset, "t": topic}, separators=(",", ":")).encode()


def decode_mark(body: bytes, *, where: str) -> int:
    """The offset that is marked. Raises `Corrupt` naming `where`."""
    try:
        return int(json.loads(body)["o"])
    except (ValueError, TypeError, KeyError) as wrong:
        raise Corrupt(path=where, offset="?", reason=f"no mark: {wrong!r}") from wrong
