"""One table of a snapshot as a Parquet file, written in row groups so that memory stays small."""

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from popmq_pipelines.columns import SNAPSHOT_TABLES, Column
from popmq_pipelines.manifest import digest
from popmq_pipelines.rows import Row

ROWS_PER_GROUP: Final = 65_536  # a few MiB of Python objects
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

    def __init__(self, folder: Path, table: str) -> None:
        columns = SNAPSHOT_TABLES[table]
        self.path = folder / f"{table}.parquet"
        self._schema = arrow_schema(columns)
        self._log_offset_at = next(
            (i for i, column in enumerate(columns) if column.name == "log_offset"), None
        )
        self._rows: list[Row] = []
        self._count = 0
        self._log_offset_min: int | None = None
        self._log_offset_max: int | None = None

    def __enter__(self) -> Self:
        self._file = pq.ParquetWriter(self.path, self._schema, compression="zstd")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        wrong: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if wrong is None:
            self._write()
        self._file.close()

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= ROWS_PER_GROUP:
            self._write()

    def description(self) -> dict[str, Any]:
        """What the manifest says of the finished file."""
        return {
            "file": self.path.name,
            "rows": self._count,
            "sha256": digest(self.path),
            "log_offset_min": self._log_offset_min,
            "log_offset_max": self._log_offset_max,
        }

    def _write(self) -> None:
        if not self._rows:
            return
        columns = list(zip(*self._rows, strict=True))
        if self._log_offset_at is not None:  # rows come in the order of the log
            places = columns[self._log_offset_at]
            if self._log_offset_min is None:
                self._log_offset_min = int(places[0])
            self._log_offset_max = int(places[-1])
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(columns, self._schema, strict=True)
        ]
        self._file.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._count += len(self._rows)
        self._rows.clear()
