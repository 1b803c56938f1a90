"""What must be there and is not. Each function gives findings of one kind.

lease overdue                  neither acked nor redelivered, its time long over
copy missing                   ended by redelivery, but no copy of the message was written
message missing                an offset inside a queue that no record has
beyond the queue               a lease, ack or position of an offset that was never stored
ack without checkpoint         it ends a lease that was never made
journal record not exported    it is in the log, its rows are not in the snapshot
replay would skip              the next start reads the journal from behind a live lease
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from popmq_broker.core.leases import checkpoint as ck
from popmq_common.records.names import REVIVE_GROUP, REVIVE_PREFIX
from popmq_pipelines.audit.leases import GROUP_QUEUE, LEASE, OPEN
from popmq_pipelines.frames.findings import finding
from popmq_pipelines.frames.partitioning import union
from popmq_pipelines.frames.queues import PLACE, QUEUE, in_buckets
from popmq_pipelines.snapshot.columns import names

JOURNAL_TAGS = [ck.CHECKPOINT_TAG, ck.ACK_TAG, ck.BATCH_ACK_TAG]


def overdue(states: DataFrame) -> DataFrame:
    return finding(states.where(F.col("state") == "overdue"), "lease overdue")


def uncopied(states: DataFrame, *, kept_from: int) -> DataFrame:
    """Of messages that are still stored: a copy of a deleted one cannot be made."""
    is_stored = F.col("stored_at") >= F.lit(kept_from)
    return finding(states.where((F.col("state") == "uncopied") & is_stored), "copy missing")


def orphan_acks(acks: DataFrame, states: DataFrame, *, whole_log: bool, first_ms: int) -> DataFrame:
    """Acks of leases that were never made. Of those made before the log begins nothing is known.
    `states`: every lease, with how many acks it has. Only buckets of offsets that have more acks
    than their leases are looked at row by row."""
    of = [*GROUP_QUEUE, "bucket"]
    met = in_buckets(states).groupBy(*of).agg(F.sum("ack_count").alias("met_count"))
    suspects = (
        in_buckets(acks)
        .groupBy(*of)
        .agg(F.count("*").alias("ack_count"))
        .join(met, on=of, how="left")
        .where(F.col("ack_count") > F.coalesce("met_count", F.lit(0)))
        .select(*of)
    )

    def suspected(rows: DataFrame) -> DataFrame:
        return in_buckets(rows).join(F.broadcast(suspects), on=of, how="left_semi")

    inside = F.lit(whole_log) | (F.col("pop_time_ms") > F.lit(first_ms))
    leases = suspected(states).select(*LEASE)
    lone = suspected(acks.where(inside)).join(leases, on=LEASE, how="left_anti")
    return lone.select(*names("pop_acks"))


def orphans(lone: DataFrame) -> DataFrame:
    return finding(lone, "ack without checkpoint")


def beyond(
    checkpoints: DataFrame,
    acks: DataFrame,
    moves: DataFrame,
    offsets: DataFrame,
    spans: DataFrame,
    *,
    whole_log: bool,
) -> DataFrame:
    """Positions may point right behind the last offset, leases and acks at most to it."""
    at = [*GROUP_QUEUE, "queue_offset"]
    place = [*at, "log_offset"]
    no_place = F.lit(None).cast("bigint").alias("log_offset")
    last_used = (F.col("next_offset") - 1).alias("queue_offset")
    last_moved = (F.col("to_offset") - 1).alias("queue_offset")
    named = union(
        checkpoints.select(*place),
        acks.select(*place),
        moves.select(*GROUP_QUEUE, last_moved, "log_offset"),
        offsets.select(*GROUP_QUEUE, last_used, no_place),
    )
    last = spans.groupBy(*QUEUE).agg(F.max("last_offset").alias("last_offset"))
    known = F.col("last_offset").isNotNull() | F.lit(whole_log)
    outside = F.col("queue_offset") > F.coalesce(F.col("last_offset"), F.lit(-1))
    found = (
        named.join(F.broadcast(last), on=QUEUE, how="left")
        .where(known & outside)
        .groupBy(*at)
        .agg(F.min("log_offset").alias("log_offset"))
        .select(*place)
    )
    return finding(found, "beyond the queue")


def unexported(
    index: DataFrame, checkpoints: DataFrame, moves: DataFrame, acks: DataFrame
) -> DataFrame:
    rows = (
        union(*(frame.select("log_offset") for frame in (checkpoints, moves, acks)))
        .groupBy("log_offset")  # a record has up to dozens of rows, one after the other
        .agg(F.count("*"))
    )
    journal = index.where(
        F.col("topic").startswith(REVIVE_PREFIX) & F.col("tags").isin(JOURNAL_TAGS)
    )
    missing = journal.join(rows, on="log_offset", how="left_anti").select(*PLACE, "log_offset")
    return finding(missing, "journal record not exported")


def skipped_by_replay(states: DataFrame, offsets: DataFrame) -> DataFrame:
    """Leases that live on, although the offsets say that none needs their checkpoint.

    The revive group's offset is the last that no live lease needs; see `core.offsets`. Leases
    made after it was taken have greater ones.
    """
    needed = offsets.where(F.col("consumer_group") == REVIVE_GROUP).select(
        F.col("queue_id").alias("revive_queue_id"), "next_offset"
    )
    live = states.where(F.col("state").isin(OPEN))
    lost = live.join(F.broadcast(needed), on="revive_queue_id", how="inner").where(
        F.col("revive_offset") <= F.col("next_offset")
    )
    return finding(lost, "replay would skip")
