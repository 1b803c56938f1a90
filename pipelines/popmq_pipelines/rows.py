"""What one stored record says, as rows of a snapshot's tables.

Rows are tuples in the order of `columns.SNAPSHOT_TABLES`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from popmq_broker.core import checkpoint as ck
from popmq_broker.core import offsets
from popmq_common import properties as names
from popmq_common.names import REVIVE_PREFIX
from popmq_common.record import Record
from popmq_pipelines.log_reader import Stored

Row = tuple[object, ...]


class Entry(NamedTuple):
    """A record's rows, and the broker's name where the record tells it."""

    rows: list[tuple[str, Row]]
    broker: str = ""


def entry(stored: Stored, previous_log_offset: int | None) -> Entry:
    """Raises `Corrupt` for a journal record that is none; its index row is lost with it."""
    record = stored.record
    properties = names.decode(record.properties)
    tag = properties.get(names.TAGS)
    index = ("commitlog_index", _index_row(stored, properties))
    if not record.topic.startswith(REVIVE_PREFIX):
        return Entry([index])
    where = f"the revive topic at log offset {record.log_offset}"
    if tag == ck.CHECKPOINT_TAG:
        checkpoint = ck.decode_checkpoint(record.body, where=where)
        return Entry([index, *_checkpoint_rows(checkpoint, record)], checkpoint.broker)
    if tag in (ck.ACK_TAG, ck.BATCH_ACK_TAG):
        ack = ck.decode_ack(record.body, where=where)
        return Entry([index, *_ack_rows(ack, record, previous_log_offset)], ack.broker)
    return Entry([index])


def offset_rows(table: offsets.OffsetTable) -> Iterator[Row]:
    for key, next_offset in sorted(table.offsets.items()):
        yield key.topic, key.group, key.queue_id, next_offset


def _index_row(stored: Stored, properties: dict[str, str]) -> Row:
    record = stored.record
    first_pop_time = properties.get(names.FIRST_POP_TIME, "")
    return (
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.log_offset,
        stored.size_bytes,
        record.store_timestamp_ms,
        record.born_timestamp_ms,
        properties.get(names.UNIQ_KEY),
        properties.get(names.TAGS),
        record.reconsume_times,
        record.sys_flag,
        stored.body_crc,
        int(first_pop_time) if first_pop_time.isdecimal() else None,
    )


def _checkpoint_rows(checkpoint: ck.Checkpoint, record: Record) -> Iterator[tuple[str, Row]]:
    queue = (checkpoint.topic, checkpoint.group, checkpoint.queue_id)
    place = (record.queue_id, record.queue_offset, record.log_offset)
    if not checkpoint.offsets:
        move = (*queue, checkpoint.start_offset, checkpoint.pop_time_ms, *place)
        yield "position_moves", move
    for offset in checkpoint.offsets:
        yield (
            "pop_checkpoints",
            (
                *queue,
                offset,
                checkpoint.pop_time_ms,
                checkpoint.generation,
                checkpoint.invisible_ms,
                checkpoint.due_ms,
                checkpoint.start_offset,
                *place,
            ),
        )


def _ack_rows(
    ack: ck.AckRecord, record: Record, previous_log_offset: int | None
) -> Iterator[tuple[str, Row]]:
    for offset in ack.offsets:
        yield (
            "pop_acks",
            (
                ack.topic,
                ack.group,
                ack.queue_id,
                offset,
                ack.pop_time_ms,
                ack.generation,
                ack.expired,
                record.queue_id,
                record.queue_offset,
                record.log_offset,
                previous_log_offset,
            ),
        )
