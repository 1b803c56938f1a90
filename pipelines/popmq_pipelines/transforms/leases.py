"""Every lease and how it ended. Leases and acks meet by all six parts of a lease's name.

    acked        an ack record says so
    retried      it ran out or was given back: a copy is in the group's retry topic
    dead         a copy is in the group's dead letters
    uncopied     it ran out, and there is no copy in either: the message is lost to the group
    superseded   a change gave the message a new lease, one generation higher
    voided       the group's position was moved later, which ends all leases of the queue
    deleted      retention has deleted the message since
    overdue      due for longer than the grace, and nothing says how it ended
    in_flight    anything else

A copy lies directly before the ack record that ends its lease, in one append; it must be in the
topic that it has to be in, and its body must be the message's.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from popmq_common.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from popmq_pipelines.transforms.queues import PLACE, queued

GROUP_QUEUE: Final = ["topic", "consumer_group", "queue_id"]
MESSAGE: Final = [*GROUP_QUEUE, "queue_offset"]
LEASE: Final = [*MESSAGE, "pop_time_ms", "generation"]
OPEN: Final = ["in_flight", "overdue"]
_AT: Final = ["log_offset", "due_ms", "revive_queue_id", "revive_offset"]
STATES: Final = [*LEASE, *_AT, "checkpoint_count", "ack_count", "ended_at", "next_at", "state"]


def leases(checkpoints: DataFrame) -> DataFrame:
    """One row per lease, with where the message's next lease begins and its generation.

    A lease that was renewed has a checkpoint for each time it ends at; the last of them counts.
    """
    later = Window.partitionBy(*MESSAGE).orderBy("log_offset")
    return (
        checkpoints.groupBy(*LEASE)
        .agg(
            F.min(F.struct(*_AT)).alias("first"),
            F.max(F.struct("due_ms", "revive_offset")).alias("last"),
            (F.count("*") - F.countDistinct("due_ms") + 1).alias("checkpoint_count"),
        )
        .select(*LEASE, "first.log_offset", "first.revive_queue_id", "last.*", "checkpoint_count")
        .withColumn("next_at", F.lead("log_offset").over(later))
        .withColumn("next_generation", F.lead("generation").over(later))
        .select(*LEASE, *_AT, "checkpoint_count", "next_at", "next_generation")
    )


def ends(acks: DataFrame, copies: DataFrame) -> DataFrame:
    """One row per ended lease: where, whether it was acked, and which copy was written."""
    return (
        acks.join(copies, on=[*LEASE, "log_offset"], how="left")
        .groupBy(*LEASE)
        .agg(
            F.min(F.struct("log_offset", "expired", "copy")).alias("first"),
            F.count("*").alias("ack_count"),
        )
        .select(
            *LEASE,
            F.col("first.log_offset").alias("ended_at"),
            F.col("first.expired").alias("expired"),
            F.col("first.copy").alias("copy"),
            "ack_count",
        )
    )


def copies(acks: DataFrame, index: DataFrame) -> DataFrame:
    """The right copy before each ack record of an expired lease: `copy` is retried or dead."""
    before = index.select(
        F.col("log_offset").alias("previous_log_offset"),
        F.col("topic").alias("copy_topic"),
        F.col("body_crc").alias("copy_crc"),
    )
    original = queued(index).select(*PLACE, "body_crc")
    group = F.col("consumer_group")
    prefix = F.concat(F.lit(RETRY_PREFIX), group, F.lit("_"))
    topic = F.col("topic")
    retry = F.when(topic.startswith(prefix), topic).otherwise(F.concat(prefix, topic))
    copy = F.when(F.col("copy_topic") == retry, "retried").when(
        F.col("copy_topic") == F.concat(F.lit(DEAD_LETTER_PREFIX), group), "dead"
    )
    same_body = F.col("body_crc").isNull() | (F.col("body_crc") == F.col("copy_crc"))
    return (
        acks.where("expired")
        .join(before, on="previous_log_offset", how="inner")
        .join(original, on=PLACE, how="left")
        .where(same_body & copy.isNotNull())
        .groupBy(*LEASE, "log_offset")  # a place stored twice must not double its copies
        .agg(F.min(copy).alias("copy"))
        .select(*LEASE, "log_offset", "copy")
    )


def lease_states(
    leased: DataFrame,
    ended: DataFrame,
    moves: DataFrame,
    queue_bounds: DataFrame,
    *,
    as_of_ms: int,
    running_since_ms: int,
    grace_ms: int,
) -> DataFrame:
    """One row per lease, with its `state`. Contract: `STATES`."""
    moved = moves.groupBy(*GROUP_QUEUE).agg(F.max("log_offset").alias("moved_at"))
    first = queue_bounds.select("topic", "queue_id", "first_offset")
    has_ended = F.col("ended_at").isNotNull()
    changed = F.col("next_generation") == F.col("generation") + 1
    ended_before_change = has_ended & (F.col("expired") | (F.col("ended_at") < F.col("next_at")))
    due = F.greatest(F.col("due_ms"), F.lit(running_since_ms))
    state = (
        F.when(changed & ~ended_before_change, "superseded")
        .when(has_ended & F.col("expired"), F.coalesce(F.col("copy"), F.lit("uncopied")))
        .when(has_ended, "acked")
        .when(F.col("moved_at") > F.col("log_offset"), "voided")
        .when(F.col("queue_offset") < F.col("first_offset"), "deleted")
        .when(due + F.lit(grace_ms) <= F.lit(as_of_ms), "overdue")
        .otherwise("in_flight")
    )
    return (
        leased.join(ended, on=LEASE, how="left")
        .join(F.broadcast(moved), on=GROUP_QUEUE, how="left")
        .join(F.broadcast(first), on=["topic", "queue_id"], how="left")
        .withColumn("ack_count", F.coalesce(F.col("ack_count"), F.lit(0)))
        .withColumn("state", state)
        .select(*STATES)
    )


def counts(states: DataFrame) -> DataFrame:
    """state → how many leases."""
    return (
        states.groupBy("state")
        .agg(F.count("*").alias("lease_count"))
        .orderBy("state")
        .select("state", "lease_count")
    )
