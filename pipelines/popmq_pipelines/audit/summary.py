"""Leases summed up: where each message stands, what each group has, how far the journal is."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from popmq_common.records.names import PASSES_GROUP, REVIVE_GROUP, REVIVE_PREFIX
from popmq_pipelines.audit.latency import minute
from popmq_pipelines.audit.leases import OPEN
from popmq_pipelines.frames.partitioning import union
from popmq_pipelines.snapshot.columns import names

COUNTED: Final = ["acked", "in_flight", "retried", "dead", "voided", "overdue", "uncopied"]
"""States of a message that is stored and was handed out."""


def message_states(newest: DataFrame) -> DataFrame:
    """`until_ms`: when an open lease is due. Contract: recon_message_state, and the epoch."""
    is_open = F.col("state").isin(OPEN)
    return newest.withColumn("until_ms", F.when(is_open, F.col("due_ms"))).select(
        *names("recon_message_state"), "epoch"
    )


def groups(states: DataFrame, offsets: DataFrame) -> DataFrame:
    """Which group takes which topic: it was given a message, or has a position."""
    by_lease = states.groupBy("topic", "consumer_group").agg(F.count("*")).drop("count(1)")
    by_position = (
        offsets.where(~F.col("consumer_group").isin(REVIVE_GROUP, PASSES_GROUP))
        .groupBy("topic", "consumer_group")
        .agg(F.count("*"))
    )
    columns = ["topic", "consumer_group"]
    return (
        union(by_lease.select(*columns), by_position.select(*columns))
        .groupBy(*columns)
        .agg(F.count("*"))
        .select(*columns)
    )


def balance(
    states: DataFrame, messages: DataFrame, groups: DataFrame, *, kept_from: int
) -> DataFrame:
    """stored = acked + in_flight + retried + dead + voided + overdue + uncopied + not_leased.

    Not leased are messages that are ready (in place, too), were filtered out or pulled, or lie
    before the group's start; messages that retention deleted are on neither side. `again_*` count
    leases that had the message redelivered. Contract: recon_balance, and the epoch.
    """
    of = ["epoch", "topic", "consumer_group", "minute_ms"]
    stored = (
        messages.where(F.col("log_offset") >= F.lit(kept_from))
        .groupBy("epoch", "topic", minute(F.col("store_timestamp_ms")).alias("minute_ms"))
        .agg(F.count("*").alias("stored"))
        .join(F.broadcast(groups), on="topic", how="inner")
    )
    is_newest = F.col("next_at").isNull()
    sums = [F.count_if(is_newest & (F.col("state") == state)).alias(state) for state in COUNTED]
    moved = ~is_newest & (F.col("state") != "superseded")
    stored_ms = F.coalesce(F.col("stored_ms"), F.col("pop_time_ms"))
    told = states.groupBy(
        "epoch", "topic", "consumer_group", minute(stored_ms).alias("minute_ms")
    ).agg(
        *sums,
        F.count_if(F.col("state") == "retried").alias("again_after_expiry"),
        F.count_if(moved).alias("again_after_move"),
    )
    zero = F.lit(0).cast("bigint")
    counted = ["stored", *COUNTED, "again_after_expiry", "again_after_move"]
    leased = sum((F.col(state) for state in COUNTED), F.lit(0).cast("bigint"))
    return (
        stored.join(told, on=of, how="full")
        .withColumns({name: F.coalesce(F.col(name), zero) for name in counted})
        .withColumn("not_leased", F.col("stored") - leased)
        .select(*names("recon_balance"), "epoch")
    )


def revive(
    ends: DataFrame,
    states: DataFrame,
    orphans: DataFrame,
    offsets: DataFrame,
    *,
    as_of_ms: int,
    fresh_from: int,
) -> DataFrame:
    """How the journal stands at the newest snapshot. `ends`: (queue_id, end_offset) of the revive
    queues; `orphans`: revive queue of each ack without checkpoint. Leases that were made from
    `fresh_from` on are counted, and all that are open: whatever else was judged adds nothing."""
    committed = offsets.where(F.col("consumer_group") == REVIVE_GROUP).select(
        "queue_id", (F.col("next_offset") + 1).alias("replay_from_offset")
    )
    is_open = F.col("state").isin(OPEN)
    made = states.groupBy(F.col("revive_queue_id").alias("queue_id")).agg(
        F.count_if(F.col("log_offset") >= F.lit(fresh_from)).alias("lease_count"),
        F.count_if(F.col("state") == "in_flight").alias("in_flight_count"),
        F.count_if(F.col("state") == "overdue").alias("overdue_count"),
        (F.lit(as_of_ms) - F.min(F.when(is_open, F.col("pop_time_ms")))).alias(
            "oldest_open_age_ms"
        ),
    )
    lone = orphans.groupBy(F.col("revive_queue_id").alias("queue_id")).agg(
        F.count("*").alias("orphan_ack_count")
    )
    zero = F.lit(0).cast("bigint")
    counted = ["lease_count", "in_flight_count", "overdue_count", "orphan_ack_count"]
    return (
        ends.join(committed, on="queue_id", how="left")
        .join(made, on="queue_id", how="left")
        .join(lone, on="queue_id", how="left")
        .withColumns({name: F.coalesce(F.col(name), zero) for name in counted})
        .withColumn("lag_count", F.col("end_offset") - F.col("replay_from_offset"))
        .select(*names("recon_revive"))
    )


def revive_ends(spans: DataFrame) -> DataFrame:
    """One row per revive queue: where it ends."""
    return (
        spans.where(F.col("topic").startswith(REVIVE_PREFIX))
        .groupBy("queue_id")
        .agg((F.max("last_offset") + 1).alias("end_offset"))
        .select("queue_id", "end_offset")
    )
