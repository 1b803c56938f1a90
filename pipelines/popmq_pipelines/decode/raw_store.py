"""Files of a store → rows as they lie there, for Spark's `mapInArrow`: a second reader, on purpose.

The exporter reads the log from its first record to its last and makes the tables in Python. Here
each file is read by a task of its own, the ConsumeQueue besides, and the tables are made by Spark
(`decode/record_tables.py`). Both share the codec of a record and nothing else, so where they agree
one may believe either.

Both functions take batches that name files and give batches of `RECORDS` or `ENTRIES`. What they
cannot read they say in the column `problem`, in a row of its own.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final

import pyarrow as pa

from popmq_common.errors import Corrupt
from popmq_common.records import properties as names
from popmq_common.records import record as rec
from popmq_common.records.names import CATALOG_TOPIC, COUNTS_TOPIC, HALF_OP_TOPIC, REVIVE_PREFIX

ROWS_PER_BATCH: Final = 8_192
"""A few MiB of Python objects wait at a time."""
READ_BUFFER_BYTES: Final = 1 << 20
_ENTRY: Final = Struct(">qiq")
_BODY_CRC: Final = Struct(">i")
_BODY_CRC_AT: Final = 8
_PRE_BLANK_BYTES: Final = 0x7FFFFFFF
"""RocketMQ's size of an entry before the first one of a queue that begins behind 0."""
_WITH_BODY: Final = (REVIVE_PREFIX, HALF_OP_TOPIC, "rmq_sys_REDRIVE_", CATALOG_TOPIC, COUNTS_TOPIC)
"""Topics whose bodies say something; other bodies are left where they are."""

RECORDS: Final = pa.schema(
    [
        ("file_base", pa.int64()),
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("log_offset", pa.int64()),
        ("previous_log_offset", pa.int64()),
        ("size_bytes", pa.int32()),
        ("store_timestamp_ms", pa.int64()),
        ("born_timestamp_ms", pa.int64()),
        ("reconsume_times", pa.int32()),
        ("sys_flag", pa.int32()),
        ("body_crc", pa.int32()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("body", pa.string()),
        ("problem", pa.string()),
    ]
)
ENTRIES: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("log_offset", pa.int64()),
        ("size_bytes", pa.int32()),
    ]
)
RECORDS_DDL: Final = (
    "file_base bigint, topic string, queue_id int, queue_offset bigint, log_offset bigint, "
    "previous_log_offset bigint, size_bytes int, store_timestamp_ms bigint, "
    "born_timestamp_ms bigint, reconsume_times int, sys_flag int, body_crc int, "
    "properties map<string,string>, body string, problem string"
)
ENTRIES_DDL: Final = (
    "topic string, queue_id int, queue_offset bigint, log_offset bigint, size_bytes int"
)
LOG_FILES_DDL: Final = "path string, base bigint, last boolean"
QUEUE_FILES_DDL: Final = "path string, topic string, queue_id int, first_offset bigint"


def records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of the CommitLog files that rows of `LOG_FILES_DDL` name."""
    for batch in batches:
        for file in batch.to_pylist():
            yield from batched(_records_of(**file), RECORDS)


def entries(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of the ConsumeQueue files that rows of `QUEUE_FILES_DDL` name."""
    for batch in batches:
        for file in batch.to_pylist():
            yield from batched(_entries_of(**file), ENTRIES)


def batched(rows: Iterator[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Some thousand rows each."""
    waiting: list[tuple[Any, ...]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == ROWS_PER_BATCH:
            yield _batch(waiting, schema)
            waiting.clear()
    if waiting:
        yield _batch(waiting, schema)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _records_of(path: str, base: int, last: bool) -> Iterator[tuple[Any, ...]]:
    previous = None
    for record, data in whole_records(path, base, last):
        if isinstance(record, str):
            yield _problem(base, record)
            return
        yield _record_row(base, record, data, previous)
        previous = record.log_offset


def whole_records(path: str, base: int, last: bool) -> Iterator[tuple[rec.Record | str, bytes]]:
    """The records of a file with their bytes. `last`: nothing follows this file, so it may end
    anywhere; another one that does not end with a record or a blank ends with a text that says
    so."""
    at = 0
    with open(path, "rb", buffering=READ_BUFFER_BYTES) as source:
        size_bytes = source.seek(0, 2)
        source.seek(0)
        while size_bytes - at >= rec.BLANK_BYTES:
            head = source.read(rec.BLANK_BYTES)
            total, magic = rec.peek(head)
            if magic == rec.MAGIC_BLANK and total == size_bytes - at:
                return
            if magic not in (rec.MAGIC_V1, rec.MAGIC_V2) or not 0 < total <= size_bytes - at:
                break
            data = head + source.read(total - len(head))
            try:
                record = rec.decode(data, where=path, log_offset=base + at)
            except Corrupt:
                break
            yield record, data
            at += total
    if not last:
        yield f"no whole record at log offset {base + at}, but later files hold some", b""


def _record_row(
    base: int, record: rec.Record, data: bytes, previous: int | None
) -> tuple[Any, ...]:
    (body_crc,) = _BODY_CRC.unpack_from(data, _BODY_CRC_AT)
    says = record.topic.startswith(_WITH_BODY)
    return (
        base,
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.log_offset,
        previous,
        len(data),
        record.store_timestamp_ms,
        record.born_timestamp_ms,
        record.reconsume_times,
        record.sys_flag,
        body_crc,
        list(names.decode(record.properties).items()),
        record.body.decode("utf-8", "replace") if says else None,
        None,
    )


def _problem(base: int, text: str) -> tuple[Any, ...]:
    return (base, *(None,) * (len(RECORDS) - 2), text)


def _entries_of(
    path: str, topic: str, queue_id: int, first_offset: int
) -> Iterator[tuple[Any, ...]]:
    with open(path, "rb", buffering=READ_BUFFER_BYTES) as source:
        queue_offset = first_offset
        while len(data := source.read(_ENTRY.size * ROWS_PER_BATCH)) >= _ENTRY.size:
            whole = data[: len(data) // _ENTRY.size * _ENTRY.size]
            for log_offset, size_bytes, _ in _ENTRY.iter_unpack(whole):
                if 0 < size_bytes < _PRE_BLANK_BYTES and log_offset >= 0:
                    yield topic, queue_id, queue_offset, log_offset, size_bytes
                queue_offset += 1
