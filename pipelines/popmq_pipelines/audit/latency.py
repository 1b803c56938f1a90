"""How long messages took, and how many were stored, per topic and minute in which they were stored.

    born to store        from the client until they were on the log; of all messages of a topic
    store to delivery    until they were first handed out
    delivery to ack      from there until their ack was on the log
    store to ack         both

The last three are per group, and only messages that are acked count. A copy for redelivery is a
message of its own, stored when it was made, with a later `attempt`. Times are sorted into bins
whose width is at most a 32nd of their times, and a quantile is the lower edge of its bin, so the
tables add up without their rows.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from popmq_common.records.names import REVIVE_PREFIX
from popmq_pipelines.frames.partitioning import union
from popmq_pipelines.snapshot.columns import names

MINUTE_MS: Final = 60_000
BORN_TO_STORE: Final = "born to store"
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


def arrivals(messages: DataFrame, *, kept_from: int) -> DataFrame:
    """What was stored, with its `epoch`, by minute and by how long it took to get there. Small.
    `messages`: one per place. Contract: epoch, topic, minute_ms, bin_ms, stored, stored_bytes."""
    stored_ms = F.col("store_timestamp_ms")
    took_ms = F.greatest(stored_ms - F.col("born_timestamp_ms"), F.lit(0))
    return (
        messages.where(F.col("log_offset") >= F.lit(kept_from))
        .groupBy(
            "epoch", "topic", minute(stored_ms).alias("minute_ms"), _bin(took_ms).alias("bin_ms")
        )
        .agg(F.count("*").alias("stored"), F.sum("size_bytes").alias("stored_bytes"))
    )


def traffic(arrivals: DataFrame) -> DataFrame:
    """Contract: recon_traffic, and the epoch."""
    return (
        arrivals.groupBy("epoch", "topic", "minute_ms")
        .agg(F.sum("stored").alias("stored"), F.sum("stored_bytes").alias("stored_bytes"))
        .select(*names("recon_traffic"), "epoch")
    )


def settled(newest: DataFrame, journal: DataFrame) -> DataFrame:
    """How long acked messages took, with their `epoch`, by minute and attempt. `newest`: each
    message's newest lease. Contract: `_OF`, attempt, bin_ms, bin_count."""
    known = F.col("stored_ms").isNotNull() & (F.col("state") == "acked")
    first, stored, ended = F.col("first_pop_ms"), F.col("stored_ms"), F.col("ended_ms")
    spans = F.array(
        _span(STORE_TO_DELIVERY, first - stored),
        _span(DELIVERY_TO_ACK, ended - first),
        _span(STORE_TO_ACK, ended - stored),
    )
    of = ["epoch", "topic", "consumer_group"]
    timed = (
        newest.where(known)
        .select(*of, "stored_ms", "first_pop_ms", "ended_at", "counted_attempts")
        .join(journal, on="ended_at", how="inner")
        .select(
            *of,
            minute(stored).alias("minute_ms"),
            (F.col("counted_attempts") + 1).alias("attempt"),
            F.explode(spans).alias("one"),
        )
    )
    return (
        timed.select(*of, "minute_ms", "attempt", "one.span", "one.bin_ms")
        .groupBy(*_OF, "attempt", "bin_ms")
        .agg(F.count("*").alias("bin_count"))
    )


def latency(settled: DataFrame) -> DataFrame:
    """Contract: recon_latency, and the epoch."""
    bins = settled.groupBy(*_OF, "bin_ms").agg(F.sum("bin_count").alias("bin_count"))
    return _quantiles(bins)


def times(settled: DataFrame, arrivals: DataFrame) -> DataFrame:
    """Contract: recon_times, and the epoch."""
    of_topics = arrivals.select(
        "epoch",
        "topic",
        F.lit("").alias("consumer_group"),
        F.lit(BORN_TO_STORE).alias("span"),
        F.lit(0).alias("attempt"),
        "bin_ms",
        F.col("stored").alias("bin_count"),
    )
    of_groups = settled.select(of_topics.columns)
    return (
        union(of_groups, of_topics)
        .groupBy("epoch", "topic", "consumer_group", "span", "attempt", "bin_ms")
        .agg(F.sum("bin_count").alias("message_count"))
        .select(*names("recon_times"), "epoch")
    )


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
