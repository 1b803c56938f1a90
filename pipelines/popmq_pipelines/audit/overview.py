"""What a report shows of the tables: sums over epochs, per group and per minute."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from popmq_pipelines.audit.summary import COUNTED

COUNTS = ["stored", *COUNTED, "not_leased", "again_after_expiry", "again_after_move"]


def by_group(balance: DataFrame) -> DataFrame:
    """Contract: topic, consumer_group, `COUNTS`."""
    return _summed(balance, "topic", "consumer_group").orderBy("topic", "consumer_group")


def by_minute(balance: DataFrame) -> DataFrame:
    """The newest first. Contract: minute_ms, `COUNTS`."""
    return _summed(balance, "minute_ms").orderBy(F.desc("minute_ms"))


def totals(balance: DataFrame) -> DataFrame:
    """One row, of `COUNTS`."""
    zero = F.lit(0).cast("bigint")
    return balance.agg(*[F.coalesce(F.sum(name), zero).alias(name) for name in COUNTS])


def latency_by_minute(latency: DataFrame) -> DataFrame:
    """Of the slowest topic and group; the newest first.
    Contract: minute_ms, span, message_count, p50_ms, p99_ms, max_ms."""
    return (
        latency.groupBy("minute_ms", "span")
        .agg(
            F.sum("message_count").alias("message_count"),
            *[F.max(name).alias(name) for name in ("p50_ms", "p99_ms", "max_ms")],
        )
        .orderBy(F.desc("minute_ms"), "span")
    )


def revive_of_run(revive: DataFrame) -> DataFrame:
    """One row: all revive queues together."""
    return revive.agg(
        F.sum("lag_count").alias("lag_count"),
        F.max("oldest_open_age_ms").alias("oldest_open_age_ms"),
    )


def _summed(balance: DataFrame, *keys: str) -> DataFrame:
    return balance.groupBy(*keys).agg(*[F.sum(name).alias(name) for name in COUNTS])
