"""Start: which half messages are not settled, and how the others lately were.

Half topic and op topic are read from the positions in consumerOffset.json, in the order of the
log: a half message makes an entry, the op record behind it ends it. RocketMQ keeps the same
positions under CID_RMQ_SYS_TRANS. Op records some way before that tell of what was settled.
"""

import asyncio
import heapq
from collections.abc import Iterator
from typing import Final, NamedTuple

from popmq_broker.core.groups.offsets import OffsetTable, QueueKey
from popmq_broker.core.transactions import transaction
from popmq_broker.core.transactions.transaction_table import HalfTable
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.transactions.transaction_checks import load_checks
from popmq_broker.store.seek import entries_from
from popmq_common.errors import Corrupt
from popmq_common.records.names import HALF_GROUP, HALF_OP_TOPIC, HALF_TOPIC
from popmq_common.records.record import Record

TURN_RECORDS: Final = 256
"""Read before other work gets its turn: some 20 ms."""


class _Read(NamedTuple):
    log_offset: int
    size_bytes: int
    topic: str
    offset: int


async def load(runtime: Runtime, halves: HalfTable, saved: OffsetTable) -> None:
    """Raises `Corrupt`."""
    half_from = _position(runtime, saved, HALF_TOPIC)
    op_from = _position(runtime, saved, HALF_OP_TOPIC)
    op_at = max(0, op_from - runtime.config.settled_transactions_max)
    streams = (_entries(runtime, HALF_TOPIC, half_from), _entries(runtime, HALF_OP_TOPIC, op_at))
    for count, read in enumerate(heapq.merge(*streams), 1):
        if count % TURN_RECORDS == 0:
            await asyncio.sleep(0)
        record = _readable(runtime, read)
        if record is None:
            continue
        if read.topic == HALF_OP_TOPIC:
            op_at = read.offset + 1
            _apply(halves, record)
        else:
            _add(runtime, halves, read, record, max(op_at, op_from))
    load_checks(runtime, halves)
    if halves:
        runtime.log.info("transactions.replayed", unsettled=len(halves))


def _position(runtime: Runtime, saved: OffsetTable, topic: str) -> int:
    at = max(0, saved.offsets.get(QueueKey(HALF_GROUP, topic, 0), 0))
    return min(at, runtime.store.max_offset(topic, 0))


def _entries(runtime: Runtime, topic: str, start: int) -> Iterator[_Read]:
    for offset, entry in entries_from(runtime.store, topic, 0, start):
        yield _Read(entry.log_offset, entry.size_bytes, topic, offset)


def _readable(runtime: Runtime, read: _Read) -> Record | None:
    """None: retention has deleted it, or it is damaged and a half message: told of, and lost.

    Raises `Corrupt` for an op record: without it a message could come twice.
    """
    try:
        return runtime.store.read(read.log_offset, read.size_bytes)
    except Corrupt as damaged:
        if read.topic != HALF_TOPIC:
            raise
        runtime.log.error("transaction.damaged", reason=str(damaged))
        return None


def _add(runtime: Runtime, halves: HalfTable, read: _Read, record: Record, op_offset: int) -> None:
    half = transaction.read_half(
        record.properties,
        offset=read.offset,
        log_offset=read.log_offset,
        size_bytes=read.size_bytes,
        stored_ms=record.store_timestamp_ms,
        op_offset=op_offset,
        immunity_ms=runtime.config.transaction_immunity_ms,
    )
    halves.add(half)


def _apply(halves: HalfTable, record: Record) -> None:
    op = transaction.read_op(record, where=f"op topic, log offset {record.log_offset}")
    if op.moved:
        return
    for offset in op.offsets:
        half = halves.at(offset)
        if half is not None:
            halves.drop(half)
    if op.outcome is not None:
        halves.remember(op.origin_offset, op.origin_log_offset, op.outcome)
