"""One table of a snapshot as a Parquet file, written in row groups so that memory stays small."""

from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from popmq_pipelines.export.record_rows import Row
from popmq_pipelines.snapshot.columns import SNAPSHOT_TABLES, Column
from popmq_pipelines.snapshot.destination import Sink

ROWS_PER_GROUP: Final = 32_768
ROWS_PER_BATCH: Final = 256
"""Turned into columns at a time: a millisecond of work, and little that waits as Python objects."""
_RANGES: Final = ("log_offset", "queue_offset")
"""Columns whose least and greatest value the manifest tells."""
_ARROW: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
}


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(c.name, _ARROW[c.kind], nullable=c.nullable) for c in columns])


class TableWriter:
    """Left by an error, the file is unfinished; only the manifest makes a snapshot of it."""

    def __init__(self, sink: Sink, table: str) -> None:
        columns = SNAPSHOT_TABLES[table]
        self._sink = sink
        self._table = table
        self._schema = arrow_schema(columns)
        self._ranges: dict[str, tuple[int, int | None, int | None]] = {
            column.name: (i, None, None)
            for i, column in enumerate(columns)
            if column.name in _RANGES
        }
        self._rows: list[Row] = []
        self._batches: list[pa.RecordBatch] = []
        self._count = 0

    def __enter__(self) -> Self:
        self._file = pq.ParquetWriter(self._sink, self._schema, compression="zstd")
        return self

    def __exit__(self, kind: object, wrong: BaseException | None, trace: object) -> None:
        try:
            if wrong is None:
                self._gather()
                self._write()
            self._file.close()
            if wrong is None:
                self._sink.sync()
        finally:
            self._sink.close()

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= ROWS_PER_BATCH:
            self._gather()
            if len(self._batches) * ROWS_PER_BATCH >= ROWS_PER_GROUP:
                self._write()

    def description(self) -> dict[str, Any]:
        """What the manifest says of the finished file."""
        told = {
            "file": f"{self._table}.parquet",
            "rows": self._count,
            "bytes": self._sink.size_bytes,
            "sha256": self._sink.sha256,
        }
        for name in _RANGES:
            _, least, greatest = self._ranges.get(name, (0, None, None))
            told[f"{name}_min"], told[f"{name}_max"] = least, greatest
        return told

    def _gather(self) -> None:
        if not self._rows:
            return
        columns = list(zip(*self._rows, strict=True))
        for name, (i, least, greatest) in self._ranges.items():
            places: Any = columns[i]
            low, high = min(places), max(places)
            self._ranges[name] = (
                i,
                low if least is None else min(least, low),
                high if greatest is None else max(greatest, high),
            )
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(columns, self._schema, strict=True)
        ]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._rows.clear()

    def _write(self) -> None:
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches, schema=self._schema)
        self._file.write_table(table)
        self._sink.sync()
        self._count += table.num_rows
        self._batches.clear()
