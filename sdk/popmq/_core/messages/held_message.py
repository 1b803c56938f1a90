"""A message as the broker stores it. What nobody asks for is not decoded.

The record's layout is told in docs/formats.md. Most handlers read a body and little else, and
taking all of a message apart takes as long as receiving it. What is not there yet is an empty slot;
Python calls `__getattr__` for such alone.
"""

from collections.abc import Callable
from itertools import repeat
from struct import Struct
from typing import Any, Final

from popmq._core.messages.lazy_message import LATER_BYTES_MAX, begin, broker_of
from popmq.message import MessageHolder, ReceivedMessage
from popmq_consumer.v1 import consumer_pb2 as consumer

_COMPRESSED: Final = 0x1
_BORN_HOST_V6, _STORE_HOST_V6 = 0x10, 0x20
_HOSTS_V6 = _BORN_HOST_V6 | _STORE_HOST_V6
_V6_LONGER: Final = 12
"""Bytes of a host with an IPv6 address beyond those of one with IPv4."""
_I16, _I32, _I64 = Struct(">h"), Struct(">i"), Struct(">q")
_FLAG_AND_BODY_BYTES = Struct(">i44xi")
"""From the flag on, with hosts of IPv4."""
_MAGIC_END, _QUEUE_ID, _LOG_OFFSET, _SYS_FLAG, _BORN_MS = 7, 12, 28, 36, 40
_BORN_HOST_END, _BODY = 56, 88
"""Where these are, with hosts of IPv4."""
_LONG_TOPIC: Final = 0xAB
"""Last byte of the magic number: the topic's length takes two bytes."""
_GROUP: Final = b"__SHARDINGKEY"
_GROUP_BEGINS: Final = _GROUP + b"\x01"
_HIDDEN_TEXT: Final = """
    1ST_POP_TIME ARRIVE_TIME BORN_TIMESTAMP BUYER_ID CHECK_IMMUNITY_TIME_IN_SECONDS CLUSTER
    CONSUME_START_TIME CORRECTION_FLAG CORRELATION_ID DELAY DELIVER_NANOS DLQ_ORIGIN_MESSAGE_ID
    DLQ_ORIGIN_TOPIC DLQ_REASON DUP_INFO EXTEND_UNIQ_INFO INNER_BASE INNER_MULTI_DISPATCH
    INNER_MULTI_QUEUE_OFFSET INNER_NUM INSTANCE_ID KEYS MAX_OFFSET MAX_RECONSUME_TIMES
    MIN_OFFSET MQ2_FLAG MSG_REGION MSG_TYPE ORIGIN_MESSAGE_ID PGROUP POP_CK POP_CK_OFFSET
    PUSH_REPLY_TIME REAL_QID REAL_TOPIC RECONSUME_TIME REDIRECT REPLY_TO_CLIENT RETRY_TOPIC TAGS
    TIMER_DELAY_LEVEL TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_DEL_UNIQKEY
    TIMER_DEQUEUE_MS TIMER_ENQUEUE_MS TIMER_OUT_MS TIMER_ROLL_TIMES TRACE_CONTEXT TRACE_ON
    TRANSACTION_CHECK_TIMES TRANSFER_FLAG TRAN_MSG TRAN_PREPARED_QUEUE_OFFSET TTL UNIQ_KEY WAIT
    _SYS_MSG_PRIORITY_ __BORNHOST __CRC32# __DLQ_CAUSE __HALF_ORIGIN __ORIGIN_QUEUE_ID
    __REDRIVE_OF __RETRIED_IN_PLACE __RETRY_REASON __SETTLED __SHARDINGKEY __TIMER_OF
    __UNCOUNTED __transactionId__
"""
HIDDEN_NAMES: Final = frozenset(name.encode() for name in _HIDDEN_TEXT.split())
"""Properties that are RocketMQ's or the server's: no user's."""


class HeldMessage(ReceivedMessage):
    """Made by `held_messages`, without `__init__`."""

    __slots__ = ("_attempt", "_named", "_record", "_run", "_topic_at")
    _record: bytes
    _run: str
    """The handle of the messages it came with; empty: a change has given it one of its own."""
    _topic_at: int
    """Where the body ends, and the topic and properties begin."""
    _attempt: int
    _named: dict[bytes, bytes]
    """All properties."""

    def __getattr__(self, name: str) -> Any:
        read = _LATER.get(name)
        if read is None:
            raise AttributeError(f"a received message has no {name!r}")
        value = read(self)
        setattr(self, name, value)
        return value


def held_messages(
    run: consumer.HeldRun,
    *,
    topic: str,
    group: str,
    holder: MessageHolder | None,
    unpacked: Callable[[bytes], tuple[bytes, str]],
) -> list[HeldMessage]:
    """`unpacked`: a compressed body → it, and what is wrong."""
    handle, found = run.receipt_handle, []
    attempts = run.delivery_attempts or repeat(0)
    for record, offset, attempt in zip(run.records, run.queue_offsets, attempts, strict=False):
        sys_flag, body_bytes = _FLAG_AND_BODY_BYTES.unpack_from(record, _SYS_FLAG)
        body_at = _BODY
        if sys_flag & _HOSTS_V6:
            body_at += _V6_LONGER * (sys_flag & _HOSTS_V6).bit_count()
            (body_bytes,) = _I32.unpack_from(record, body_at - 4)
        topic_at = body_at + body_bytes
        body, body_error = record[body_at:topic_at], ""
        if sys_flag & _COMPRESSED:
            body, body_error = unpacked(body)
        message: HeldMessage = object.__new__(HeldMessage)
        message._record = record
        message._topic_at = topic_at
        message._attempt = attempt
        message._run = handle
        message.queue_offset = offset
        if record.find(_GROUP_BEGINS, topic_at) < 0:  # asked for of every message, and few have one
            message.message_group = None
        begin(message, topic, group, body, body_error)
        message.holder = holder
        if len(body) > LATER_BYTES_MAX:
            _read_all(message)
        found.append(message)
    return found


def _read_all(message: HeldMessage) -> None:
    for name in _LATER:
        getattr(message, name)
    del message._record, message._named


def give_handle(message: ReceivedMessage, handle: str) -> None:
    """A change made one for it alone."""
    message.receipt_handle = handle
    if isinstance(message, HeldMessage):
        message._run = ""


def run_of(message: ReceivedMessage) -> str:
    """The handle that it shares with other messages; empty: it has its own."""
    return message._run if type(message) is HeldMessage else ""


def _born_host_end(record: bytes) -> int:
    v6 = _I32.unpack_from(record, _SYS_FLAG)[0] & _BORN_HOST_V6
    return _BORN_HOST_END + (_V6_LONGER if v6 else 0)


def _store_host(record: bytes) -> bytes:
    at = _born_host_end(record) + 8
    v6 = _I32.unpack_from(record, _SYS_FLAG)[0] & _STORE_HOST_V6
    return record[at : at + 8 + (_V6_LONGER if v6 else 0)]


def _named(message: HeldMessage) -> dict[bytes, bytes]:
    record, topic_at = message._record, message._topic_at
    end = topic_at + 1 + record[topic_at]
    if record[_MAGIC_END] == _LONG_TOPIC:
        end = topic_at + 2 + int.from_bytes(record[topic_at : topic_at + 2])
    size = _I16.unpack_from(record, end)[0]
    found = {}
    for item in record[end + 2 : end + 2 + size].split(b"\x02"):
        name, separator, value = item.partition(b"\x01")
        if separator and name and len(item) >= 3:
            found[name] = value
    return found


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _optional(name: bytes) -> Callable[[HeldMessage], Any]:
    def read(message: HeldMessage) -> str | None:
        value = message._named.get(name)
        return None if value is None else _text(value)

    return read


def _message_id(message: HeldMessage) -> str:
    """RocketMQ's for one without: store host and log offset in hexadecimal."""
    given = message._named.get(b"UNIQ_KEY")
    if given:
        return _text(given)
    record = message._record
    return (_store_host(record) + record[_LOG_OFFSET : _LOG_OFFSET + 8]).hex().upper()


def _properties(message: HeldMessage) -> dict[str, str]:
    items = message._named.items()
    return {_text(name): _text(value) for name, value in items if name not in HIDDEN_NAMES}


def _deliver_at_ms(message: HeldMessage) -> int | None:
    value = message._named.get(b"TIMER_DELIVER_MS")
    return None if value is None else int(value)


def _attempt(message: HeldMessage) -> int:
    if message._attempt:
        return message._attempt
    at = _born_host_end(message._record) + 8 + len(_store_host(message._record))
    return 1 + int(_I32.unpack_from(message._record, at)[0])


def _store_ms(message: HeldMessage) -> int:
    at = _born_host_end(message._record)
    return int(_I64.unpack_from(message._record, at)[0])


_LATER: Final[dict[str, Callable[[HeldMessage], Any]]] = {
    "_named": _named,
    "_run": lambda _: "",  # of one that was made by `dataclasses.replace`
    "message_id": _message_id,
    "message_group": _optional(_GROUP),
    "tag": _optional(b"TAGS"),
    "keys": lambda message: tuple(map(_text, message._named.get(b"KEYS", b"").split())),
    "properties": _properties,
    "deliver_at_ms": _deliver_at_ms,
    "trace_context": lambda message: _text(message._named.get(b"TRACE_CONTEXT", b"")),
    "delivery_attempt": _attempt,
    "born_timestamp_ms": lambda message: _I64.unpack_from(message._record, _BORN_MS)[0],
    "store_timestamp_ms": _store_ms,
    "queue_id": lambda message: _I32.unpack_from(message._record, _QUEUE_ID)[0],
    "broker": lambda message: broker_of(message._run or message.receipt_handle),
    "receipt_handle": lambda message: f"{message._run} {message.queue_offset}",
}
