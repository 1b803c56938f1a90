"""The queues as they are stored: their bounds, and offsets that are missing or there twice."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from popmq_common.record import SysFlag
from popmq_pipelines.transforms.findings import finding

PREPARED: Final = SysFlag.PREPARED.value  # half messages and rollbacks too: they are in no queue
QUEUE: Final = ["topic", "queue_id"]
PLACE: Final = [*QUEUE, "queue_offset"]


def queued(index: DataFrame) -> DataFrame:
    """The records that have a place in a queue."""
    return index.where(F.col("sys_flag").bitwiseAND(PREPARED) == 0)


def bounds(index: DataFrame) -> DataFrame:
    """First and last stored offset of each queue."""
    return (
        queued(index)
        .groupBy(*QUEUE)
        .agg(
            F.min("queue_offset").alias("first_offset"), F.max("queue_offset").alias("last_offset")
        )
        .select(*QUEUE, "first_offset", "last_offset")
    )


def holes(index: DataFrame, *, log_start: int) -> DataFrame:
    """Findings: offsets between stored ones, or before the first if nothing was ever deleted."""
    in_queue = Window.partitionBy(*QUEUE).orderBy("queue_offset")
    whole_log = F.lit(log_start) == 0
    before = F.coalesce(
        F.lag("queue_offset").over(in_queue),
        F.when(whole_log, F.lit(-1)).otherwise(F.col("queue_offset") - 1),
    )
    missing = (
        queued(index)
        .select(*PLACE, "log_offset", before.alias("before"))
        .where(F.col("queue_offset") > F.col("before") + 1)
        .select(
            *QUEUE,
            (F.col("before") + 1).alias("queue_offset"),
            (F.col("queue_offset") - F.col("before") - 1).alias("offset_count"),
            "log_offset",
        )
    )
    return finding(missing, "message missing")


def stored_twice(index: DataFrame) -> DataFrame:
    """Findings: one place in a queue, several records; named by the later one."""
    twice = (
        queued(index)
        .groupBy(*PLACE)
        .agg(F.count("*").alias("record_count"), F.max("log_offset").alias("log_offset"))
        .where(F.col("record_count") > 1)
        .select(*PLACE, "log_offset")
    )
    return finding(twice, "stored twice")
