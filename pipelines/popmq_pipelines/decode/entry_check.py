"""Records and queue entries held against each other; both as `raw_store` reads them.

What is not wrong: entries of records that retention has deleted, of a light topic (`%LMQ%`, a
second entry of one record), or behind the log's end (a torn tail); and records of a topic that was
deleted, whose queue is gone or begins anew at their offsets.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

_LIGHT_PREFIX: Final = "%LMQ%"
_PREPARED: Final = 4
"""The bit of `sys_flag` of records that have no place in a queue."""
_PLACE: Final = ["topic", "queue_id", "queue_offset"]


def with_previous(records: DataFrame) -> DataFrame:
    """`previous_log_offset` also of each file's first record: the last one of the file before."""
    lasts = records.groupBy("file_base").agg(f.max("log_offset").alias("last_log_offset"))
    bases = records.select("file_base").distinct()
    before = (
        bases.join(
            lasts.withColumnRenamed("file_base", "earlier_base"),
            on=f.col("earlier_base") < f.col("file_base"),
            how="inner",
        )
        .groupBy("file_base")
        .agg(f.max("last_log_offset").alias("last_log_offset"))
    )
    return (
        records.join(f.broadcast(before), on="file_base", how="left")
        .withColumn("previous_log_offset", f.coalesce("previous_log_offset", "last_log_offset"))
        .drop("last_log_offset")
    )


def in_the_log(entries: DataFrame, log_start: int, log_end: int) -> DataFrame:
    there = (f.col("log_offset") >= log_start) & (f.col("log_offset") < log_end)
    return entries.where(there & ~f.col("topic").startswith(_LIGHT_PREFIX))


def watermarks(entries: DataFrame) -> DataFrame:
    """Of queues that hold something: oldest and next offset. `entries`: those `in_the_log`."""
    return entries.groupBy("topic", "queue_id").agg(
        f.min("queue_offset").alias("min_offset"),
        (f.max("queue_offset") + 1).alias("max_offset"),
    )


def entries_without_record(records: DataFrame, entries: DataFrame) -> DataFrame:
    """Entries that do not lead to the record they are of."""
    found = records.select(*_PLACE, "log_offset", "size_bytes")
    return entries.join(found, on=[*_PLACE, "log_offset", "size_bytes"], how="left_anti")


def records_without_entry(records: DataFrame, entries: DataFrame) -> DataFrame:
    """Records that should be in a queue, and at whose offset there is no entry."""
    queued = records.where((f.col("sys_flag").bitwiseAND(_PREPARED)) == 0)
    ranges = watermarks(entries).select("topic", "queue_id", "min_offset")
    return (
        queued.join(f.broadcast(ranges), on=["topic", "queue_id"], how="inner")
        .where(f.col("queue_offset") >= f.col("min_offset"))
        .join(entries.select(*_PLACE), on=_PLACE, how="left_anti")
        .select(*_PLACE, "log_offset")
    )
