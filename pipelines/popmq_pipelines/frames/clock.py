"""Records whose store time is before that of an earlier record: the broker's clock went back.

Times are compared by whole seconds and must differ by two of them, so that a clock that is slewed,
or two threads that write at once, are no finding. Leases are judged by time: behind a clock that
jumps, nothing the audit says about due times is worth much.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from popmq_pipelines.frames.findings import finding
from popmq_pipelines.frames.queues import PLACE, queued

SECONDS_BACK: Final = 2
_SECOND_MS: Final = 1_000


def went_back(fresh_index: DataFrame, *, known_ms: int, watermark: int) -> DataFrame:
    """Findings of the new records. `known_ms`: the latest store time of those before them, which
    all lie before `watermark`; 0: there are none."""
    seconds = fresh_index.groupBy(_second().alias("second")).agg(
        F.min("log_offset").alias("first_at"), F.max("log_offset").alias("last_at")
    )
    before = F.when(
        F.col("second") + SECONDS_BACK <= F.lit(known_ms // _SECOND_MS), F.lit(watermark - 1)
    )
    # A second is a row, so this runs over a few hundred thousand of them, in one task.
    later = (
        Window.partitionBy(F.lit(0))
        .orderBy("second")
        .rangeBetween(SECONDS_BACK, Window.unboundedFollowing)
    )
    limit = F.least(F.min("first_at").over(later), before)
    suspects = (
        seconds.withColumn("limit", limit)
        .where(F.col("last_at") > F.col("limit"))
        .select("second", "limit")
    )
    late = (
        queued(fresh_index)
        .withColumn("second", _second())
        .join(F.broadcast(suspects), on="second", how="inner")
        .where(F.col("log_offset") > F.col("limit"))
        .select(*PLACE, "log_offset")
    )
    return finding(late, "clock went back")


def _second() -> Column:
    at_ms = F.col("store_timestamp_ms")
    return F.floor(at_ms / _SECOND_MS)
