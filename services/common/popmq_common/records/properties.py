"""A record's property string ⇄ a dictionary.

    name 0x01 value 0x02 name 0x01 value 0x02 …        UTF-8, at most 32,747 bytes

The last 0x02 may be missing. Items shorter than three characters, without 0x01 or with an empty
name are passed over, as in RocketMQ.

Source: RocketMQ MessageDecoder.messageProperties2String and string2messageProperties,
MessageConst for the names.
"""

from typing import Final

from popmq_common.errors import PropertiesTooLarge

PROPERTIES_BYTES_MAX: Final = 32_767 - 20
"""A signed 16-bit length, less the checksum that the store appends."""
SENT_BYTES_MAX: Final = PROPERTIES_BYTES_MAX - 6 * 1024
"""Of a message as it is sent. The rest is for what its copies say besides: the reason of a failure
(4,000 bytes), where it comes from (127 and 255), when it was popped or is due, what a transaction
and a timer need: some 5,100 bytes at most. A copy must never be too large to be stored."""
NAME_END: Final = "\x01"
VALUE_END: Final = "\x02"
_VALUE_END: Final = VALUE_END.encode()
_DIGITS_MAX: Final = 18

TAGS: Final = "TAGS"
KEYS: Final = "KEYS"
UNIQ_KEY: Final = "UNIQ_KEY"
SHARDING_KEY: Final = "__SHARDINGKEY"
BORN_HOST: Final = "__BORNHOST"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
DLQ_REASON: Final = "DLQ_REASON"
REDRIVE_OF: Final = "__REDRIVE_OF"
"""Ours: of which dead letter a message is the second life, as topic@offset."""
RETRY_REASON: Final = "__RETRY_REASON"
"""Ours: why the last counted attempt failed."""
ORIGIN_QUEUE: Final = "__ORIGIN_QUEUE_ID"
"""Ours, of copies: the queue that a message of a message group was sent to."""
RETRY_TOPIC: Final = "RETRY_TOPIC"
"""Of a message that was sent back: the topic it is of."""
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
"""Of a message that was sent back: where the first one lies, store host and log offset."""
UNCOUNTED: Final = "__UNCOUNTED"
"""Ours, of copies: how often the message was given back without being counted."""
RETRIED_IN_PLACE: Final = "__RETRIED_IN_PLACE"
"""Ours, of a dead letter: its consumer retries in place, and reads no retry topic."""
DLQ_CAUSE: Final = "__DLQ_CAUSE"
"""Ours, of a dead letter: which rule made it one; core/retries/retry.py of the broker."""
WAIT: Final = "WAIT"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
PRODUCER_GROUP: Final = "PGROUP"
TRANSACTION: Final = "TRAN_MSG"
TRANSACTION_ID: Final = "__transactionId__"
IMMUNITY_S: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
CHECK_COUNT: Final = "TRANSACTION_CHECK_TIMES"
HALF_ORIGIN: Final = "__HALF_ORIGIN"
"""Ours, of a half message that was written again: where it was first."""
SETTLED: Final = "__SETTLED"
"""Ours, of an op record: how the half message ended, and where it was first."""
DELIVER_MS: Final = "TIMER_DELIVER_MS"
DELIVER_NANOS: Final = "DELIVER_NANOS"
"""Ours: what milliseconds lose of a delivery time."""
DELAY_LEVEL: Final = "DELAY"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_DEL_KEY: Final = "TIMER_DEL_UNIQKEY"
TIMER_OF: Final = "__TIMER_OF"
"""Ours: which delayed messages this record puts an end to; core/timers/timer.py of the broker."""
PRIORITY: Final = "_SYS_MSG_PRIORITY_"

_RESERVED_TEXT: Final = """
    TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP
    MIN_OFFSET MAX_OFFSET BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG
    RECONSUME_TIME UNIQ_KEY MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK POP_CK_OFFSET
    1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET DUP_INFO EXTEND_UNIQ_INFO INSTANCE_ID CORRELATION_ID
    REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE INNER_MULTI_QUEUE_OFFSET
    TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS
    TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP
    DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32#
"""
_OURS: Final = (
    REDRIVE_OF,
    RETRY_REASON,
    ORIGIN_QUEUE,
    RETRIED_IN_PLACE,
    DLQ_CAUSE,
    UNCOUNTED,
    TIMER_OF,
    DELIVER_NANOS,
    HALF_ORIGIN,
    SETTLED,
)
RESERVED: Final = frozenset({*_RESERVED_TEXT.split(), *_OURS, CHECK_COUNT, TRANSACTION_ID})
"""Names that users may not set: RocketMQ, or we, give them a meaning."""

INTERNAL: Final = RESERVED | {
    SHARDING_KEY,
    TRACE_CONTEXT,
    PRIORITY,
    "INNER_NUM",
    "INNER_BASE",
    IMMUNITY_S,
    "INNER_MULTI_DISPATCH",
    "REDIRECT",
    DLQ_REASON,
}
"""Names never shown to a client as a user property."""


def encode(properties: dict[str, str], bytes_max: int = PROPERTIES_BYTES_MAX) -> bytes:
    """The property string. Raises `PropertiesTooLarge`.

    The caller has refused control characters in names and values.
    """
    text = "".join(
        [f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items()]
    ).encode()
    if len(text) > bytes_max:
        raise PropertiesTooLarge(
            reason=f"{len(text)} bytes with all names, keys and the trace context, the limit is "
            f"{bytes_max}"
        )
    return text


def decode(text: bytes) -> dict[str, str]:
    properties: dict[str, str] = {}
    for item in text.decode("utf-8", "replace").split(VALUE_END):
        if len(item) < 3:
            continue
        name, sep, value = item.partition(NAME_END)
        if sep and name:
            properties[name] = value
    return properties


def number_of(text: str | None) -> int | None:
    """A decimal number without a sign that 64 bits can hold; None: it is none."""
    if text and len(text) <= _DIGITS_MAX and text.isascii() and text.isdigit():
        return int(text)
    return None


def value_of(text: bytes, head: bytes) -> str | None:
    """One property, without decoding the others. `head`: its name and `NAME_END`, encoded."""
    found = bytes_of(text, head)
    return None if found is None else found.decode("utf-8", "replace")


def bytes_of(text: bytes, head: bytes) -> bytes | None:
    """The same as it stands there."""
    if text.startswith(head):
        start = len(head)
    else:
        inside = _VALUE_END + head
        at = text.find(inside)
        if at < 0:
            return None
        start = at + len(inside)
    end = text.find(_VALUE_END, start)
    return text[start : end if end >= 0 else None]
