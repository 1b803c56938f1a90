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
NAME_END: Final = "\x01"
VALUE_END: Final = "\x02"
_VALUE_END: Final = VALUE_END.encode()

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
DELIVER_MS: Final = "TIMER_DELIVER_MS"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE: Final = "REAL_QID"
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
RESERVED: Final = frozenset({*_RESERVED_TEXT.split(), REDRIVE_OF, RETRY_REASON, ORIGIN_QUEUE})
"""Names that users may not set: RocketMQ, or we, give them a meaning."""

INTERNAL: Final = RESERVED | {
    SHARDING_KEY,
    TRACE_CONTEXT,
    PRIORITY,
    "__transactionId__",
    "INNER_NUM",
    "INNER_BASE",
    "CHECK_IMMUNITY_TIME_IN_SECONDS",
    "TRANSACTION_CHECK_TIMES",
    "INNER_MULTI_DISPATCH",
    "REDIRECT",
    DLQ_REASON,
}
"""Names never shown to a client as a user property."""


def encode(properties: dict[str, str]) -> bytes:
    """The property string. Raises `PropertiesTooLarge`.

    The caller has refused control characters in names and values.
    """
    text = "".join(
        [f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items()]
    ).encode()
    if len(text) > PROPERTIES_BYTES_MAX:
        raise PropertiesTooLarge(
            reason=f"{len(text)} bytes with the server's own, the limit is {PROPERTIES_BYTES_MAX}"
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


def value_of(text: bytes, head: bytes) -> str | None:
    """One property, without decoding the others. `head`: its name and `NAME_END`, encoded."""
    if text.startswith(head):
        start = len(head)
    else:
        inside = _VALUE_END + head
        at = text.find(inside)
        if at < 0:
            return None
        start = at + len(inside)
    end = text.find(_VALUE_END, start)
    return text[start : end if end >= 0 else None].decode("utf-8", "replace")
