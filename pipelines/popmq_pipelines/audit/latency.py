"""How long messages took, per group, topic and minute in which they were stored.

    store to delivery    until they were first handed out
    delivery to ack      from there until their ack was on the log
    store to ack         both

Only messages that are acked count. Times are sorted into bins whose width is at most a 32nd of
their times, and a quantile is the lower edge of its bin, so the tables add up without their rows.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from popmq_common.records.names import REVIVE_PREFIX
from popmq_pipelines.snapshot.columns import names

MINUTE_MS: Final = 60_000
STORE_TO_DELIVERY: Final = "store to delivery"
DELIVERY_TO_ACK: Final = "delivery to ack"
STORE_TO_ACK: Final = "store to ack"
_BITS_KEPT: Final = 5
_QUANTILES: Final = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "max_ms": 1.0}
_OF: Final = ["epoch", "topic", "consumer_group", "minute_ms", "span"]


def minute(at_ms: Column) -> Column:
    return at_ms - at_ms % F.lit(MINUTE_MS)


def journal(index: DataFrame) -> DataFrame:
    """When the records of the journal were stored."""
    return index.where(F.col("topic").startswith(REVIVE_PREFIX)).select(
        F.col("log_offset").alias("ended_at"), F.col("store_timestamp_ms").alias("ended_ms")
    )


def latency(newest: DataFrame, journal: DataFrame) -> DataFrame:
    """`newest`: each message's newest lease, with its `epoch`. Contract: recon_latency, and it."""
    known = F.col("stored_ms").isNotNull() & (F.col("state") == "acked")
    first, stored, ended = F.col("first_pop_ms"), F.col("stored_ms"), F.col("ended_ms")
    spans = F.array(
        _span(STORE_TO_DELIVERY, first - stored),
        _span(DELIVERY_TO_ACK, ended - first),
        _span(STORE_TO_ACK, ended - stored),
    )
    timed = (
        newest.where(known)
        .select("epoch", "topic", "consumer_group", "stored_ms", "first_pop_ms", "ended_at")
        .join(journal, on="ended_at", how="inner")
        .select(
            "epoch",
            "topic",
            "consumer_group",
            minute(stored).alias("minute_ms"),
            F.explode(spans).alias("one"),
        )
    )
    bins = (
        timed.select("epoch", "topic", "consumer_group", "minute_ms", "one.span", "one.bin_ms")
        .groupBy(*_OF, "bin_ms")
        .agg(F.count("*").alias("bin_count"))
    )
    return _quantiles(bins)


def _span(name: str, took_ms: Column) -> Column:
    """A clock that is behind another one makes no time below nothing."""
    return F.struct(F.lit(name).alias("span"), _bin(F.greatest(took_ms, F.lit(0))).alias("bin_ms"))


def _bin(took_ms: Column) -> Column:
    bits = F.floor(F.log2(F.greatest(took_ms, F.lit(1)).cast("double")))
    width = F.pow(F.lit(2.0), F.greatest(bits - _BITS_KEPT, F.lit(0))).cast("bigint")
    return took_ms - took_ms % width


def _quantiles(bins: DataFrame) -> DataFrame:
    whole = Window.partitionBy(*_OF)
    up_to = whole.orderBy("bin_ms").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = bins.withColumn("rank", F.sum("bin_count").over(up_to)).withColumn(
        "message_count", F.sum("bin_count").over(whole)
    )
    reached = [
        F.min(F.when(F.col("rank") >= F.col("message_count") * share, F.col("bin_ms"))).alias(name)
        for name, share in _QUANTILES.items()
    ]
    return (
        ranked.groupBy(*_OF, "message_count").agg(*reached).select(*names("recon_latency"), "epoch")
    )
