"""`columns` as Spark's types. Nothing is ever inferred: every read and every result uses these."""

from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from popmq_pipelines.snapshot.columns import AUDIT_TABLES, LEDGER_TABLES, SNAPSHOT_TABLES

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "boolean": BooleanType(),
}


def struct(table: str) -> StructType:
    """Of a table of a snapshot, of an audit or of its ledger."""
    columns = {**SNAPSHOT_TABLES, **AUDIT_TABLES, **LEDGER_TABLES}[table]
    return StructType([StructField(c.name, _TYPES[c.kind], c.nullable) for c in columns])
