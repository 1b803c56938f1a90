"""One list of columns, and the same types on both sides of a Parquet file."""

import pytest

from popmq_pipelines.export.parquet_table import arrow_schema
from popmq_pipelines.snapshot.columns import AUDIT_TABLES, SNAPSHOT_TABLES, names
from popmq_pipelines.snapshot.schemas import struct

ARROW_NAMES = {"string": "string", "int32": "int", "int64": "bigint", "bool": "boolean"}


@pytest.mark.parametrize("table", SNAPSHOT_TABLES)
def test_what_is_written_is_what_is_read(table: str) -> None:
    written = arrow_schema(SNAPSHOT_TABLES[table])
    read = struct(table)
    assert [(f.name, ARROW_NAMES[str(f.type)], f.nullable) for f in written] == [
        (f.name, f.dataType.simpleString(), f.nullable) for f in read
    ]


@pytest.mark.parametrize("table", [*SNAPSHOT_TABLES, *AUDIT_TABLES])
def test_no_column_is_there_twice(table: str) -> None:
    assert len(set(names(table))) == len(names(table)) == len(struct(table))
