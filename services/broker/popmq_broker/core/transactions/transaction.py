"""Transactions: half message → final message, op record; what each holds.

A half message is stored in RMQ_SYS_TRANS_HALF_TOPIC, queue 0, where no consumer looks. It equals
what was sent, and has these properties besides:

    REAL_TOPIC, REAL_QID               where it goes when it is committed
    TRAN_MSG=true, PGROUP, __transactionId__       RocketMQ's; the group is the topic, the id the
                                       message id
    CHECK_IMMUNITY_TIME_IN_SECONDS     how long nobody is asked about it, if the sender said so
    TRANSACTION_CHECK_TIMES            how often producers had been asked when it was written again
    __HALF_ORIGIN                      of one that was written again: queue offset, log offset and
                                       store time of the first, separated by @

What ends it is an op record in RMQ_SYS_TRANS_OP_HALF_TOPIC, queue 0:

    tag d      body  QUEUE_OFFSET,     of the half message as it lies now
    __SETTLED  OUTCOME@QUEUE_OFFSET@LOG_OFFSET     how, and of the half message as it was first

A commit writes the final message, the half message's bytes in its own topic and queue with the
commit bit and `prepared_offset`, and the op record directly behind it: a pair, so no crash leaves
a message that would be committed a second time. Giving up writes a copy to
TRANS_CHECK_MAX_TIME_TOPIC and the op record, in the same way.

Source: RocketMQ TransactionalMessageBridge, EndTransactionProcessor, TransactionalOpBatchService.
Differs: one op record for each half message, written at once; RocketMQ gathers them for up to 3 s,
and a crash in that time commits twice. `__HALF_ORIGIN` and `__SETTLED` are ours; RocketMQ passes
over them.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from popmq_common.errors import Corrupt, PropertiesTooLarge
from popmq_common.records import properties as names
from popmq_common.records.names import HALF_OP_TOPIC
from popmq_common.records.record import Record

OP_TAG: Final = "d"
OFFSET_END: Final = ","
MOVED: Final = "moved"
"""The outcome of an op record that only says: this half message was written again."""
OWN_BYTES_MAX: Final = 256
"""What may be added to the properties of a half message that is written again."""
_PREPARED: Final = "TRAN_PREPARED_QUEUE_OFFSET"
_HEADS: Final = {
    name: f"{name}{names.NAME_END}".encode()
    for name in (
        names.REAL_TOPIC,
        names.REAL_QUEUE_ID,
        names.IMMUNITY_S,
        names.CHECK_COUNT,
        names.HALF_ORIGIN,
        names.SETTLED,
        _PREPARED,
    )
}
_OF_A_MOVE: Final = (names.HALF_ORIGIN, names.CHECK_COUNT, _PREPARED)
"""Said by who writes a half message again, never by who sends it."""


class TransactionOutcome(Enum):
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    GIVEN_UP = "given up"


@dataclass(slots=True, kw_only=True)
class Half:
    """A half message that is not settled."""

    origin_offset: int
    """Its first queue offset, by which everybody knows it."""
    origin_log_offset: int
    """−1: RocketMQ has written it again and does not tell."""
    first_stored_ms: int
    topic: str
    """That it was sent to."""
    offset: int
    """Where it lies now, when it was written again."""
    log_offset: int
    size_bytes: int
    stored_ms: int
    op_offset: int
    """The end of the op topic when it was written: what settles it comes behind that."""
    due_ms: int
    """When producers are to be asked next."""
    checks: int = 0
    """How often they were asked."""

    @property
    def end_offset(self) -> int:
        return self.log_offset + self.size_bytes


@dataclass(frozen=True, slots=True)
class Settled:
    """What an op record says."""

    offsets: tuple[int, ...]
    """Of half messages as they lie."""
    outcome: TransactionOutcome | None
    """None: RocketMQ has written it, or it was only moved."""
    moved: bool
    origin_offset: int
    origin_log_offset: int


def half_properties(properties: bytes, topic: str, queue_id: int) -> bytes:
    """Of the half message of what was sent to that queue. Raises `PropertiesTooLarge`."""
    named = names.decode(properties)
    for name in _OF_A_MOVE:
        named.pop(name, None)
    named[names.TRANSACTION] = "true"
    named[names.PRODUCER_GROUP] = topic
    named[names.TRANSACTION_ID] = named.get(names.UNIQ_KEY, "")
    named[names.REAL_TOPIC] = topic
    named[names.REAL_QUEUE_ID] = str(queue_id)
    text = names.encode(named)
    limit = names.PROPERTIES_BYTES_MAX - OWN_BYTES_MAX
    if len(text) > limit:
        reason = f"{len(text)} bytes with those of a transaction, the limit is {limit}"
        raise PropertiesTooLarge(reason=reason)
    return text


def read_half(
    properties: bytes,
    *,
    offset: int,
    log_offset: int,
    size_bytes: int,
    stored_ms: int,
    op_offset: int,
    immunity_ms: int,
) -> Half:
    """A half message that was just written or is found at start. `immunity_ms`: the least."""
    origin = _value(properties, names.HALF_ORIGIN)
    prepared = names.number_of(_value(properties, _PREPARED))
    first = (offset, log_offset, stored_ms)
    if origin is not None:
        first = _three(origin)
    elif prepared is not None:
        first = (prepared, -1, stored_ms)
    asked_ms = 1_000 * _number(_value(properties, names.IMMUNITY_S))
    return Half(
        origin_offset=first[0],
        origin_log_offset=first[1],
        first_stored_ms=first[2],
        topic=_value(properties, names.REAL_TOPIC) or "",
        offset=offset,
        log_offset=log_offset,
        size_bytes=size_bytes,
        stored_ms=stored_ms,
        op_offset=op_offset,
        due_ms=first[2] + max(asked_ms, immunity_ms),
        checks=_number(_value(properties, names.CHECK_COUNT)),
    )


def half_seen(record: Record) -> Half:
    """For who only looks: neither its time nor what it holds up is known. Raises `ValueError`."""
    return read_half(
        record.properties,
        offset=record.queue_offset,
        log_offset=record.log_offset,
        size_bytes=0,
        stored_ms=record.store_timestamp_ms,
        op_offset=0,
        immunity_ms=0,
    )


def real_queue(record: Record) -> int:
    """The queue that a half message was sent to."""
    return _number(_value(record.properties, names.REAL_QUEUE_ID))


def moved_properties(record: Record, half: Half) -> bytes:
    """Of a half message that is written again."""
    named = names.decode(record.properties)
    named[names.CHECK_COUNT] = str(half.checks)
    origin = (half.origin_offset, half.origin_log_offset, half.first_stored_ms)
    named[names.HALF_ORIGIN] = "@".join(map(str, origin))
    named.pop("TRAN_PREPARED_QUEUE_OFFSET", None)
    return names.encode(named)


def given_up_properties(record: Record, half: Half) -> bytes:
    """Of the copy of a half message that nobody would settle."""
    named = names.decode(record.properties)
    named[names.CHECK_COUNT] = str(half.checks)
    return names.encode(named)


def op_properties(half: Half, outcome: TransactionOutcome | None) -> bytes:
    """None: it was only moved."""
    how = MOVED if outcome is None else outcome.name
    return names.encode(
        {
            names.TAGS: OP_TAG,
            names.UNIQ_KEY: f"{HALF_OP_TOPIC}@{half.offset}",
            names.SETTLED: f"{how}@{half.origin_offset}@{half.origin_log_offset}",
        }
    )


def op_body(half: Half) -> bytes:
    return f"{half.offset}{OFFSET_END}".encode()


def read_op(record: Record, *, where: str) -> Settled:
    """Raises `Corrupt` naming `where`."""
    try:
        text = record.body.decode()
        offsets = tuple(int(word) for word in text.split(OFFSET_END) if word)
        said = _value(record.properties, names.SETTLED)
        if said is None:
            return Settled(offsets, None, False, -1, -1)
        how, origin, log_offset = said.split("@")
        outcome = None if how == MOVED else TransactionOutcome[how]
        return Settled(offsets, outcome, how == MOVED, int(origin), int(log_offset))
    except (ValueError, KeyError) as wrong:
        raise Corrupt(path=where, offset="?", reason=f"no op record: {wrong!r}") from wrong


def _value(properties: bytes, name: str) -> str | None:
    return names.value_of(properties, _HEADS[name])


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _three(text: str) -> tuple[int, int, int]:
    first, second, third = (int(word) for word in text.split("@"))
    return first, second, third
