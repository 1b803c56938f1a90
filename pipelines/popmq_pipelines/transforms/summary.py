"""Leases summed up: where each message stands, what each group has, how far the journal is."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from popmq_common.names import REVIVE_GROUP, REVIVE_PREFIX
from popmq_pipelines.columns import names
from popmq_pipelines.transforms.leases import MESSAGE, OPEN
from popmq_pipelines.transforms.queues import queued


def message_states(states: DataFrame) -> DataFrame:
    """A message's newest lease decides. `until_ms`: when an open one is due."""
    newest = Window.partitionBy(*MESSAGE).orderBy(F.desc("log_offset"), F.desc("generation"))
    all_leases = Window.partitionBy(*MESSAGE)
    is_open = F.col("state").isin(OPEN)
    return (
        states.withColumn("rank", F.row_number().over(newest))
        .withColumn("lease_count", F.count("*").over(all_leases))
        .where(F.col("rank") == 1)
        .withColumn("until_ms", F.when(is_open, F.col("due_ms")))
        .select(*names("recon_message_state"))
    )


def balance(messages: DataFrame, index: DataFrame) -> DataFrame:
    """stored = acked + in_flight + retried + dead + voided + overdue + uncopied + not_leased.

    Not leased are messages that are ready, were filtered out, or lie before the group's start;
    messages that retention deleted are on neither side.
    """
    stored = queued(index).groupBy("topic").agg(F.count("*").alias("stored"))
    counted = ["acked", "in_flight", "retried", "dead", "voided", "overdue", "uncopied"]
    sums = [F.count_if(F.col("state") == state).alias(state) for state in counted]
    leased = sum((F.col(state) for state in counted), F.lit(0).cast("bigint"))
    return (
        messages.groupBy("topic", "consumer_group")
        .agg(*sums)
        .join(F.broadcast(stored), on="topic", how="left")
        .withColumn("stored", F.coalesce(F.col("stored"), F.lit(0).cast("bigint")))
        .withColumn("not_leased", F.col("stored") - leased)
        .orderBy("topic", "consumer_group")
        .select(*names("recon_balance"))
    )


def revive(
    index: DataFrame, states: DataFrame, orphans: DataFrame, offsets: DataFrame, *, as_of_ms: int
) -> DataFrame:
    """`orphans`: revive queue of each ack without checkpoint."""
    queues = (
        index.where(F.col("topic").startswith(REVIVE_PREFIX))
        .groupBy("queue_id")
        .agg((F.max("queue_offset") + 1).alias("end_offset"))
    )
    committed = offsets.where(F.col("consumer_group") == REVIVE_GROUP).select(
        "queue_id", (F.col("next_offset") + 1).alias("replay_from_offset")
    )
    is_open = F.col("state").isin(OPEN)
    made = states.groupBy(F.col("revive_queue_id").alias("queue_id")).agg(
        F.count("*").alias("lease_count"),
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
        queues.join(committed, on="queue_id", how="left")
        .join(made, on="queue_id", how="left")
        .join(lone, on="queue_id", how="left")
        .withColumns({name: F.coalesce(F.col(name), zero) for name in counted})
        .withColumn("lag_count", F.col("end_offset") - F.col("replay_from_offset"))
        .orderBy("queue_id")
        .select(*names("recon_revive"))
    )
