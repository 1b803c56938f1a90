"""Records of the revive topic as rows: each in `revive_log`, its leases one by one besides."""

from itertools import zip_longest
from typing import Final

from popmq_broker.core.groups import passing
from popmq_broker.core.groups.offsets import Passing
from popmq_broker.core.leases import checkpoint as ck
from popmq_common.records.record import Record

FILTER_KINDS: Final = {1: "tags", 2: "sql"}
Row = tuple[object, ...]
Rows = list[tuple[str, Row]]


def of(record: Record, tag: str | None, previous_log_offset: int | None) -> tuple[Rows, str]:
    """And the broker's name, empty if the record does not tell it. Raises `Corrupt`."""
    where = f"the revive topic at log offset {record.log_offset}"
    if tag == ck.CHECKPOINT_TAG:
        checkpoint = ck.decode_checkpoint(record.body, where=where)
        return _checkpoint_rows(checkpoint, record), checkpoint.broker
    if tag in (ck.ACK_TAG, ck.BATCH_ACK_TAG):
        ack = ck.decode_ack(record.body, where=where)
        return _ack_rows(ack, record, previous_log_offset), ack.broker
    passes: Rows = []
    if tag == passing.PASS_TAG:
        passes = [("passes", _pass_row(passing.decode(record.body, where=where), record))]
    unknown = (None, None, None, None, 0, None, None, None, None, None, None, None)
    journal: Row = (*_place(record), record.store_timestamp_ms, "other", *unknown)
    return [("revive_log", journal), *passes], ""


def _pass_row(told: passing.PassRecord, record: Record) -> Row:
    key = told.key
    queue = (key.topic, key.group, key.queue_id)
    return (*queue, told.from_offset, *rejects(told.passing), *_place(record))


def rejects(way: Passing) -> tuple[str | None, str | None]:
    """Kind and expression of the filter."""
    return (FILTER_KINDS.get(way.kind, "unknown"), way.expression) if way.kind else (None, None)


def _place(record: Record) -> tuple[int, int, int]:
    return record.queue_id, record.queue_offset, record.log_offset


def _checkpoint_rows(checkpoint: ck.Checkpoint, record: Record) -> Rows:
    queue = (checkpoint.topic, checkpoint.group, checkpoint.queue_id)
    place, start = _place(record), checkpoint.start_offset
    nack = checkpoint.nack
    journal: Row = (
        *place,
        record.store_timestamp_ms,
        "checkpoint" if checkpoint.offsets else "move",
        *queue,
        start,
        len(checkpoint.offsets),
        checkpoint.pop_time_ms,
        checkpoint.generation,
        checkpoint.invisible_ms,
        nack.kind.name.lower() if nack else None,
        (nack.reason or None) if nack else None,
        checkpoint.client_id or None,
        checkpoint.broker or None,
    )
    rows: Rows = [("revive_log", journal)]
    if not checkpoint.offsets:
        rows.append(("position_moves", (*queue, start, checkpoint.pop_time_ms, *place)))
    until = (checkpoint.invisible_ms, checkpoint.due_ms)
    lease = (checkpoint.pop_time_ms, checkpoint.generation, *until, start)
    rows += [
        ("pop_checkpoints", (*queue, offset, *lease, attempt, *place))
        for offset, attempt in zip_longest(checkpoint.offsets, checkpoint.attempts)
    ]
    return rows


def _ack_rows(ack: ck.AckRecord, record: Record, previous_log_offset: int | None) -> Rows:
    queue, place = (ack.topic, ack.group, ack.queue_id), _place(record)
    journal: Row = (
        *place,
        record.store_timestamp_ms,
        "expiry" if ack.expired else "ack",
        *queue,
        ack.start_offset,
        len(ack.offsets),
        ack.pop_time_ms,
        ack.generation,
        *(None, None, None, None),
        ack.broker or None,
    )
    lease = (ack.pop_time_ms, ack.generation, ack.expired, *place, previous_log_offset)
    ends = [("pop_acks", (*queue, offset, *lease)) for offset in ack.offsets]
    return [("revive_log", journal), *ends]
