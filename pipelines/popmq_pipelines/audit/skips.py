"""Each offset from where a group began in a queue to its position must be accounted for.

    leased       a lease of it is in the journal, made since the position was last set
    filtered     the filter that was told for it rejects it (`filters`)
    deleted      retention has deleted it
    moved over   the position was set behind it: a reset, a commit, the group's start

Anything else was `skipped`. A bucket of offsets is first compared by count and digest with its
leases; only buckets that differ are looked at row by row.

What lies before `since` is not judged: before it a broker of an older version did not tell how
groups go over messages, or RocketMQ was at work, or pop_buffer=memory kept acks out of the journal.
"""

from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from popmq_common.records.names import SYSTEM_GROUP_PREFIX
from popmq_pipelines.audit import filters
from popmq_pipelines.audit.leases import GROUP_QUEUE, MESSAGE, newest
from popmq_pipelines.frames.findings import finding
from popmq_pipelines.frames.partitioning import union
from popmq_pipelines.frames.queues import QUEUE, in_buckets

FORGOTTEN: Final = -1
"""In the place of an offset that a position was set to: nothing is known of the group any more."""
_BUCKET: Final = [*GROUP_QUEUE, "epoch", "bucket"]


class Told(NamedTuple):
    """What is told of how groups go on, of all epochs."""

    moves: DataFrame
    passes: DataFrame
    begins: DataFrame
    offsets: DataFrame
    """The positions, as of `offsets_log_end`."""
    since: int | None
    """The log offset from which on it is told; None: it never was."""
    offsets_log_end: int
    whole_log: bool
    """Nothing was deleted before the first record that is known."""
    kept_from: int
    """The log offset that retention has deleted everything before."""


def users(offsets: DataFrame) -> DataFrame:
    """The positions of groups, without those that the broker keeps for itself."""
    return offsets.where(~F.col("consumer_group").startswith(SYSTEM_GROUP_PREFIX))


def begins(
    checkpoints: DataFrame,
    passes: DataFrame,
    moves: DataFrame,
    *,
    since: int | None,
    since_ms: int,
) -> DataFrame:
    """Where each group went on in a queue, behind the last position change of these rows: the
    first lease that is no change of another, or record of the way. Contract: LEDGER_TABLES."""
    moved = moves.groupBy(*GROUP_QUEUE).agg(F.max("log_offset").alias("moved_at"))
    is_new = (F.col("generation") == 1) & (F.col("pop_time_ms") >= F.lit(since_ms))
    first = union(
        checkpoints.where(is_new).select(
            *GROUP_QUEUE, F.col("start_offset").alias("from_offset"), "log_offset"
        ),
        passes.select(*GROUP_QUEUE, "from_offset", "log_offset"),
    )
    return (
        first.where(F.lit(since is not None) & (F.col("log_offset") >= F.lit(since or 0)))
        .join(F.broadcast(moved), on=GROUP_QUEUE, how="left")
        .where(F.col("log_offset") > F.coalesce("moved_at", F.lit(-1)))
        .groupBy(*GROUP_QUEUE)
        .agg(
            F.min_by("from_offset", "log_offset").alias("from_offset"),
            F.min("log_offset").alias("log_offset"),
        )
        .select(*GROUP_QUEUE, "from_offset", "log_offset")
    )


def bounds(told: Told) -> DataFrame:
    """What each group has to account for in a queue: from `from_offset`, with leases behind
    `moved_at`, to `next_offset`, which is null if the broker does not know the group there."""
    position = users(told.offsets).select(*GROUP_QUEUE, "next_offset", "filter_kind", "filter")
    begun_since = F.col("log_offset") > F.coalesce("moved_at", F.lit(-1))
    moved = (
        told.moves.where(F.col("log_offset") >= F.lit(told.since))
        .groupBy(*GROUP_QUEUE)
        .agg(
            F.max_by("to_offset", "log_offset").alias("moved_to"),
            F.max("log_offset").alias("moved_at"),
        )
    )
    begun = (
        told.begins.join(moved.select(*GROUP_QUEUE, "moved_at"), on=GROUP_QUEUE, how="left")
        .where(begun_since)
        .groupBy(*GROUP_QUEUE)
        .agg(
            F.min_by("from_offset", "log_offset").alias("begun_from"),
            F.min("log_offset").alias("begun_at"),
        )
    )
    # Of a log that has lost its begin nothing is known of filters before the first that is told.
    told_first = (
        told.passes.where(F.col("log_offset") >= F.lit(told.since))
        .groupBy(*GROUP_QUEUE)
        .agg(F.min("from_offset").alias("told_first"))
        .where(F.lit(not told.whole_log))
    )
    moved_to = F.when(F.col("moved_to") != FORGOTTEN, F.col("moved_to"))
    known_at = F.when(moved_to.isNotNull(), F.col("moved_at")).otherwise(F.col("begun_at"))
    return (
        moved.join(begun, on=GROUP_QUEUE, how="full")
        .join(position, on=GROUP_QUEUE, how="left")
        .join(told_first, on=GROUP_QUEUE, how="left")
        .where(~F.col("consumer_group").startswith(SYSTEM_GROUP_PREFIX))
        # The positions were taken before that: they do not know of it.
        .where(known_at < F.lit(told.offsets_log_end))
        .select(
            *GROUP_QUEUE,
            F.greatest(F.coalesce(moved_to, "begun_from"), "told_first").alias("from_offset"),
            F.coalesce("moved_at", F.lit(-1)).alias("moved_at"),
            "next_offset",
            "filter_kind",
            "filter",
        )
    )


def skipped(told: Told, messages: DataFrame, states: DataFrame, bounds: DataFrame) -> DataFrame:
    """Findings: runs of offsets that a group went over and was never given. `messages`: one per
    place, `states`: the leases, both of the epochs that are judged; `bounds`: as above, small."""
    leased = _leased(told, states, bounds)
    due = in_buckets(
        messages.where(F.col("log_offset") >= F.lit(told.kept_from))
        .join(F.broadcast(bounds), on=QUEUE, how="inner")
        .where(
            (F.col("queue_offset") >= F.col("from_offset"))
            & (F.col("queue_offset") < F.col("next_offset"))
        )
    )
    suspects = (
        _summed(due)
        .join(_summed(leased).withColumnsRenamed(_OTHER), on=_BUCKET, how="left")
        .where(
            F.col("other_count").isNull()
            | (F.col("other_count") != F.col("offset_count"))
            | (F.col("other_digest") != F.col("digest"))
        )
        .select(*_BUCKET)
    )
    suspected = F.broadcast(suspects)
    given = leased.join(suspected, on=_BUCKET, how="left_semi").select(*MESSAGE)
    lacking = due.join(suspected, on=_BUCKET, how="left_semi").join(
        given, on=MESSAGE, how="left_anti"
    )
    return finding(_runs(_unexplained(told, lacking)), "skipped")


def _unexplained(told: Told, lacking: DataFrame) -> DataFrame:
    return filters.unexplained(
        lacking, told.passes, told.offsets, since=told.since, whole_log=told.whole_log
    )


_OTHER: Final = {"offset_count": "other_count", "digest": "other_digest"}


def _leased(told: Told, states: DataFrame, bounds: DataFrame) -> DataFrame:
    """One row per message that was handed out since the group's position was last set: if any
    lease of it was made since, its newest one was."""
    given = (
        newest(states)
        .where(F.col("stored_at") >= F.lit(told.kept_from))
        .join(F.broadcast(bounds), on=GROUP_QUEUE, how="inner")
        .where(
            (F.col("log_offset") > F.col("moved_at"))
            & (F.col("queue_offset") >= F.col("from_offset"))
            & (F.col("queue_offset") < F.col("next_offset"))
        )
    )
    return in_buckets(given).select(*MESSAGE, "epoch", "bucket")


def _summed(rows: DataFrame) -> DataFrame:
    return rows.groupBy(*_BUCKET).agg(
        F.count("*").alias("offset_count"),
        F.bit_xor(F.xxhash64("queue_offset")).alias("digest"),
    )


def _runs(rows: DataFrame) -> DataFrame:
    """Offsets that follow each other as one row."""
    in_queue = Window.partitionBy(*GROUP_QUEUE, "epoch").orderBy("queue_offset")
    run = F.col("queue_offset") - F.row_number().over(in_queue)
    return (
        rows.withColumn("run", run)
        .groupBy(*GROUP_QUEUE, "epoch", "run")
        .agg(
            F.min("queue_offset").alias("queue_offset"),
            F.count("*").alias("offset_count"),
            F.min("log_offset").alias("log_offset"),
        )
        .select(*MESSAGE, "offset_count", "log_offset")
    )


def went_back(told: Told, states: DataFrame, bounds: DataFrame) -> DataFrame:
    """Findings: positions before messages that the group was given. Of a FIFO group the position is
    before what it has not settled."""
    given = (
        states.where((F.col("log_offset") < F.lit(told.offsets_log_end)) & ~F.col("is_fifo"))
        .join(F.broadcast(bounds), on=GROUP_QUEUE, how="inner")
        .where(
            (F.col("log_offset") > F.col("moved_at"))
            & (F.col("queue_offset") >= F.col("next_offset"))
        )
        .groupBy(*GROUP_QUEUE)
        .agg(F.max("queue_offset").alias("last_given"), F.min("next_offset").alias("queue_offset"))
        .withColumn("offset_count", F.col("last_given") + 1 - F.col("queue_offset"))
    )
    return finding(given, "position went back")


def gone(bounds: DataFrame) -> DataFrame:
    """Findings: the broker knows no position of a group that it has given messages."""
    lost = bounds.where(F.col("next_offset").isNull())
    return finding(lost.withColumn("queue_offset", F.col("from_offset")), "position gone")


def moved_places(before: DataFrame, offsets: DataFrame, moves: DataFrame) -> DataFrame:
    """Of each queue the offsets, `low` to `high`, that positions went over since the run before,
    whose positions `before` has. `moves`: those that are new."""
    earlier = users(before).select(*GROUP_QUEUE, F.col("next_offset").alias("earlier"))
    now = users(offsets).select(*GROUP_QUEUE, "next_offset")
    moved = moves.groupBy(*GROUP_QUEUE).agg(F.min("to_offset").alias("moved_to"))
    nothing = F.lit(0).cast("bigint")
    return (
        earlier.join(now, on=GROUP_QUEUE, how="full")
        .join(moved, on=GROUP_QUEUE, how="left")
        .select(
            *QUEUE,
            F.greatest(
                nothing,
                F.least(
                    F.coalesce("earlier", "moved_to", nothing),
                    F.coalesce("next_offset", nothing),
                    "moved_to",
                ),
            ).alias("low"),
            F.greatest("earlier", "next_offset").alias("high"),
        )
        .where(F.col("low") < F.col("high"))
        .groupBy(*QUEUE)
        .agg(F.min("low").alias("low"), F.max("high").alias("high"))
    )


def epochs_between(places: DataFrame, spans: DataFrame) -> DataFrame:
    """The epochs that have offsets of `moved_places`."""
    return (
        spans.join(F.broadcast(places), on=QUEUE, how="inner")
        .where((F.col("start_offset") < F.col("high")) & (F.col("last_offset") >= F.col("low")))
        .groupBy("epoch")
        .agg(F.count("*"))
        .select("epoch")
    )
