"""The shape of a finding, and which of them are shown."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from popmq_pipelines.columns import names
from popmq_pipelines.verdict import FINDINGS_SHOWN_MAX

_TYPES: Final = {
    "consumer_group": "string",
    "generation": "int",
    "pop_time_ms": "bigint",
    "due_ms": "bigint",
    "log_offset": "bigint",
}


def finding(rows: DataFrame, kind: str | Column) -> DataFrame:
    """`rows` as findings: what a column is missing for is null, an offset counts as one."""
    columns = []
    for name in names("recon_gaps"):
        if name == "kind":
            columns.append((F.lit(kind) if isinstance(kind, str) else kind).alias(name))
        elif name in rows.columns:
            columns.append(F.col(name))
        elif name == "offset_count":
            columns.append(F.lit(1).cast("bigint").alias(name))
        else:
            columns.append(F.lit(None).cast(_TYPES[name]).alias(name))
    return rows.select(*columns)


def union(frames: list[DataFrame]) -> DataFrame:
    first, *others = frames
    for other in others:
        first = first.unionByName(other)
    return first.select(*names("recon_gaps"))


def shown(findings: DataFrame) -> DataFrame:
    """The first ones, in an order that does not change from run to run."""
    order = ["kind", "topic", "consumer_group", "queue_id", "queue_offset"]
    tie = ["pop_time_ms", "generation", "log_offset"]
    return findings.orderBy(*order, *tie).limit(FINDINGS_SHOWN_MAX).select(*names("recon_gaps"))


def counts(findings: DataFrame) -> DataFrame:
    """kind → how many findings."""
    return (
        findings.groupBy("kind")
        .agg(F.count("*").alias("finding_count"))
        .orderBy("kind")
        .select("kind", "finding_count")
    )
