"""The shape of a finding, and which of them are shown."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from popmq_pipelines.frames import partitioning
from popmq_pipelines.snapshot.columns import names

PLACE: Final = ["topic", "queue_id", "queue_offset"]
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
    return partitioning.union(*frames).select(*names("recon_gaps"))


ORDER: Final = [
    *["kind", "topic", "consumer_group", "queue_id", "queue_offset"],
    *["pop_time_ms", "generation", "log_offset", "due_ms", "offset_count"],
]
"""It does not change from run to run."""


def shown(findings: DataFrame, messages: DataFrame, at_most: int) -> DataFrame:
    """The first ones, each with the id of its message if it has one. `messages`: the records."""
    first = findings.orderBy(*ORDER).limit(at_most)
    named = (
        messages.join(F.broadcast(first.select(*PLACE)), on=PLACE, how="left_semi")
        .groupBy(*PLACE)
        .agg(F.min("message_id").alias("message_id"))
    )
    return (
        first.join(named, on=PLACE, how="left")
        .orderBy(*ORDER)
        .select(*names("recon_gaps"), "message_id")
    )


def places(findings: DataFrame) -> DataFrame:
    """Kind, topic, group → how many findings, those with most first."""
    return (
        findings.groupBy(
            "kind", "topic", F.coalesce("consumer_group", F.lit("")).alias("consumer_group")
        )
        .agg(F.count("*").alias("finding_count"))
        .orderBy(F.desc("finding_count"), "kind", "topic", "consumer_group")
    )


def counts(findings: DataFrame) -> DataFrame:
    """kind → how many findings."""
    return (
        findings.groupBy("kind")
        .agg(F.count("*").alias("finding_count"))
        .orderBy("kind")
        .select("kind", "finding_count")
    )
