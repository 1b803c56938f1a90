"""What one stored record says, as rows of a snapshot's tables.

Rows are tuples in the order of `columns.SNAPSHOT_TABLES`. Every record has a row in
`commitlog_index`; the journal's are taken apart in `journal_rows`, those of system topics, copies
and whatever ends a wait in `index_rows`.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from popmq_broker.core.groups import offsets
from popmq_broker.core.groups.passing import EVERYTHING
from popmq_common.records import properties as names
from popmq_common.records.names import REVIVE_PREFIX
from popmq_common.records.record import Record
from popmq_pipelines.export import index_rows, journal_rows
from popmq_pipelines.export.log_reader import Stored

IN_COLUMNS: Final = frozenset(
    {names.UNIQ_KEY, names.TAGS, names.SHARDING_KEY, names.FIRST_POP_TIME}
)
"""Properties that are columns of `commitlog_index`."""
Row = tuple[object, ...]


class RecordRows(NamedTuple):
    """A record's rows, and the broker's name where the record tells it."""

    rows: list[tuple[str, Row]]
    broker: str = ""


def record_rows(stored: Stored, previous_log_offset: int | None) -> RecordRows:
    """Raises `Corrupt` for a record of the journal, a mark or an op record that is none; its index
    row is lost with it."""
    record = stored.record
    properties = names.decode(record.properties)
    index = ("commitlog_index", _index_row(stored, properties))
    if record.topic.startswith(REVIVE_PREFIX):
        rows, broker = journal_rows.of(record, properties.get(names.TAGS), previous_log_offset)
        return RecordRows([index, *rows], broker)
    if index_rows.says_more(record, properties):
        return RecordRows([index, *index_rows.of(record, properties, previous_log_offset)])
    return RecordRows([index])


def offset_rows(table: offsets.OffsetTable) -> Iterator[Row]:
    for key, next_offset in sorted(table.offsets.items()):
        way = table.passes.get(key, EVERYTHING)
        yield key.topic, key.group, key.queue_id, next_offset, *journal_rows.rejects(way)


def watermark_rows(queues: Mapping[tuple[str, int], tuple[int, int]]) -> Iterator[Row]:
    """`queues`: oldest and next offset."""
    for (topic, queue_id), (oldest, following) in sorted(queues.items()):
        yield topic, queue_id, oldest, following


def _index_row(stored: Stored, properties: Mapping[str, str]) -> Row:
    record: Record = stored.record
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
        properties.get(names.SHARDING_KEY),
        _more_properties(record.topic, properties),
    )


def _more_properties(topic: str, properties: Mapping[str, str]) -> str | None:
    """What a filter may ask for besides the columns; the journal's records are never filtered."""
    if topic.startswith(REVIVE_PREFIX) or properties.keys() <= IN_COLUMNS:
        return None
    more = {name: value for name, value in properties.items() if name not in IN_COLUMNS}
    return "".join(
        f"{name}{names.NAME_END}{value}{names.VALUE_END}" for name, value in more.items()
    )
