"""An audit's rows as the lake has them: columns in front that tell whose they are, and times as
timestamps in UTC."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from popmq_pipelines.lake.audits import Partition
from popmq_pipelines.snapshot.columns import AUDIT_TABLES, Column

MOMENTS: Final = frozenset({"as_of_ms", "due_ms", "minute_ms", "pop_time_ms", "until_ms"})
"""Milliseconds since 1970; other columns in `_ms` tell how long something took."""
LENGTHS: Final = frozenset(
    {"bin_ms", "grace_ms", "max_ms", "oldest_open_age_ms", "p50_ms", "p90_ms", "p99_ms"}
)
LATEST_MS: Final = 253_402_300_799_999
"""The last moment of the year 9999; engines know no later ones, and neither does a lease end."""
BATCH_ROWS: Final = 65_536

WHOSE: Final = (
    ("broker", pa.string()),
    ("day", pa.date32()),
    ("snapshot_id", pa.string()),
    ("source_digest", pa.string()),
)
_TYPES: Final = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
_MOMENT: Final = pa.timestamp("us", "UTC")


def lake_name(column: str) -> str:
    """`until_ms` is `until_at` in the lake."""
    return f"{column[: -len('_ms')]}_at" if column in MOMENTS else column


def schema(table: str) -> pa.Schema:
    """Of a table of AUDIT_TABLES. Every column may be null: a later version may add some."""
    columns = [(lake_name(column.name), _type(column)) for column in _own(table)]
    return pa.schema([*WHOSE, *columns])


def batches(table: str, broker: str, partitions: Iterable[Partition]) -> Iterator[pa.RecordBatch]:
    """At most `BATCH_ROWS` rows at a time are in memory. Raises `OSError`."""
    for partition in partitions:
        whose = (broker, partition.day, partition.snapshot_id, partition.source_digest)
        for file in partition.files:
            with pq.ParquetFile(file) as opened:
                for rows in opened.iter_batches(BATCH_ROWS):
                    yield _converted(table, whose, rows)


def _converted(table: str, whose: tuple[Any, ...], rows: pa.RecordBatch) -> pa.RecordBatch:
    """A column that an older version did not write is null."""
    count, there = rows.num_rows, set(rows.schema.names)
    arrays = [
        pa.repeat(pa.scalar(value, kind), count)
        for value, (_, kind) in zip(whose, WHOSE, strict=True)
    ]
    for column in _own(table):
        if column.name not in there:
            arrays.append(pa.nulls(count, _type(column)))
        elif column.name in MOMENTS:
            arrays.append(_moments(rows.column(column.name)))
        else:
            arrays.append(rows.column(column.name).cast(_type(column)))
    return pa.record_batch(arrays, schema=schema(table))


def _moments(values: pa.Array) -> pa.Array:
    known = pc.if_else(pc.less_equal(values, LATEST_MS), values, pa.scalar(None, pa.int64()))
    return known.cast(pa.timestamp("ms", "UTC")).cast(_MOMENT)


def _own(table: str) -> list[Column]:
    """The audit's name of the broker is in front already."""
    return [column for column in AUDIT_TABLES[table] if column.name != "broker"]


def _type(column: Column) -> pa.DataType:
    return _MOMENT if column.name in MOMENTS else _TYPES[column.kind]
