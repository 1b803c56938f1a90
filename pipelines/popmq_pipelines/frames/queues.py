"""The queues as they are stored: their bounds, and offsets that are missing or there twice.

A queue of any length is looked at in buckets of `BUCKET_OFFSETS` offsets, so a hot queue is the
work of many tasks. First each bucket is summed up (how many, from, to, a digest of the offsets);
only buckets that are not dense by their sum are looked at row by row. A digest is the xor of the
offsets' 64-bit hashes: one that agrees by chance is rarer than a wrong bit in memory.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from popmq_common.records.names import FORCED_TOPIC, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from popmq_common.records.record import SysFlag
from popmq_pipelines.frames.findings import finding
from popmq_pipelines.frames.partitioning import union

PREPARED: Final = SysFlag.PREPARED.value  # half messages and rollbacks too: they are in no queue
QUEUE: Final = ["topic", "queue_id"]
PLACE: Final = [*QUEUE, "queue_offset"]
BUCKET_BITS: Final = 16
BUCKET: Final = [*QUEUE, "epoch", "bucket"]


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


def runs(messages: DataFrame) -> DataFrame:
    """One row per bucket, and whether it is `dense`: each offset in it once. `messages` have
    `PLACE`, `log_offset` and their `epoch`."""
    nothing = F.lit(0).cast("bigint")
    expected = F.aggregate(
        F.sequence("first_offset", "last_offset"),
        nothing,
        lambda digest, offset: digest.bitwiseXOR(F.xxhash64(offset)),
    )
    span = F.col("last_offset") - F.col("first_offset") + 1
    return (
        in_buckets(messages)
        .groupBy(*BUCKET)
        .agg(
            F.count("*").alias("record_count"),
            F.min("queue_offset").alias("first_offset"),
            F.max("queue_offset").alias("last_offset"),
            F.min_by("log_offset", "queue_offset").alias("log_offset"),
            F.bit_xor(F.xxhash64("queue_offset")).alias("digest"),
        )
        .withColumn("dense", (F.col("record_count") == span) & (F.col("digest") == expected))
        .select(*BUCKET, "first_offset", "last_offset", "log_offset", "dense")
    )


def doubtful(messages: DataFrame, runs: DataFrame) -> DataFrame:
    """The places in the buckets that are not dense. Small, so it should be kept."""
    suspects = runs.where(~F.col("dense")).select(*BUCKET)
    places = in_buckets(messages).select(*BUCKET, "queue_offset", "log_offset")
    return places.join(F.broadcast(suspects), on=BUCKET, how="left_semi")


def in_buckets(rows: DataFrame) -> DataFrame:
    """With the `bucket` that each row's offset is in."""
    return rows.withColumn("bucket", F.shiftright("queue_offset", BUCKET_BITS))


def holes(
    doubted: DataFrame, runs: DataFrame, spans: DataFrame, *, whole_log: bool, judged: Sequence[int]
) -> DataFrame:
    """Findings: offsets between stored ones, or before the first if nothing was ever deleted.

    `spans` tell of the epochs that are not `judged` now.
    """
    in_bucket = Window.partitionBy(*BUCKET).orderBy("queue_offset")
    inside = doubted.select(
        *PLACE, "epoch", "log_offset", F.lag("queue_offset").over(in_bucket).alias("before")
    )
    earlier = (
        Window.partitionBy(*QUEUE)
        .orderBy("first_offset", "epoch")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    bucket_ends = [*QUEUE, "epoch", "first_offset", "last_offset", "log_offset", "judged"]
    others = spans.where(~F.col("epoch").isin(*judged)).withColumns(
        {"log_offset": F.lit(None).cast("bigint"), "judged": F.lit(False)}
    )
    ends = runs.withColumn("judged", F.lit(True)).select(*bucket_ends)
    before_all = F.lit(-1) if whole_log else F.col("first_offset") - 1
    between = (
        union(ends, others.select(*bucket_ends))
        .withColumn("before", F.coalesce(F.max("last_offset").over(earlier), before_all))
        .where("judged")
        .select(
            *QUEUE, F.col("first_offset").alias("queue_offset"), "epoch", "log_offset", "before"
        )
    )
    missing = (
        union(inside, between)
        .where(F.col("queue_offset") > F.col("before") + 1)
        .select(
            *QUEUE,
            "epoch",
            (F.col("before") + 1).alias("queue_offset"),
            (F.col("queue_offset") - F.col("before") - 1).alias("offset_count"),
            "log_offset",
        )
    )
    return finding(missing, "message missing")


def stored_twice(doubted: DataFrame) -> DataFrame:
    """Findings: one place in a queue, several records; named by the later one."""
    twice = (
        doubted.groupBy(*PLACE)
        .agg(F.count("*").alias("record_count"), F.max("log_offset").alias("log_offset"))
        .where(F.col("record_count") > 1)
        .select(*PLACE, "log_offset")
    )
    return finding(twice, "stored twice")


def beyond_the_log(watermarks: DataFrame, spans: DataFrame) -> DataFrame:
    """Queues that end behind their last record: from `queue_offset` on, so many offsets."""
    last = spans.groupBy(*QUEUE).agg(F.max("last_offset").alias("last_offset"))
    known_to = F.coalesce(F.col("last_offset") + 1, F.col("min_offset"))
    return (
        watermarks.where(F.col("max_offset") > F.col("min_offset"))
        .join(F.broadcast(last), on=QUEUE, how="left")
        .where(F.col("max_offset") > known_to)
        .select(
            *QUEUE,
            known_to.alias("queue_offset"),
            (F.col("max_offset") - known_to).alias("offset_count"),
        )
    )


def lost_tails(watermarks: DataFrame, spans: DataFrame) -> DataFrame:
    """Findings: messages at a queue's end that the log does not have."""
    return finding(beyond_the_log(watermarks, spans), "message missing")


def forced_primaries(index: DataFrame) -> DataFrame:
    """Findings: an operator has forced a primary; what was committed before may be missing."""
    return finding(index.where(F.col("topic") == FORCED_TOPIC), "primary forced")


def one_id_two_bodies(index: DataFrame) -> DataFrame:
    """Findings: of the messages of one id in a queue the last, if their bodies differ. The topics
    that a broker keeps for itself have records with a message's id that are not the message. Ids
    are first compared by their hash: adding up by a number takes much less than by texts."""
    is_own = F.col("topic").startswith(SYSTEM_TOPIC_PREFIX) | F.col("topic").isin(*SYSTEM_TOPICS)
    named = (
        queued(index)
        .where(F.col("message_id").isNotNull() & ~is_own)
        .withColumn("id_hash", F.xxhash64(*QUEUE, "message_id"))
    )
    differ = F.min("body_crc") != F.max("body_crc")
    suspects = named.groupBy("id_hash").agg(differ.alias("differ")).where("differ")
    twice = (
        named.join(F.broadcast(suspects.select("id_hash")), on="id_hash", how="left_semi")
        .groupBy(*QUEUE, "message_id")
        .agg(
            F.min("body_crc").alias("least"),
            F.max("body_crc").alias("greatest"),
            F.max("queue_offset").alias("queue_offset"),
            F.max("log_offset").alias("log_offset"),
        )
        .where(F.col("least") != F.col("greatest"))
    )
    return finding(twice, "one id, two bodies")


def unique(messages: DataFrame, doubted: DataFrame) -> DataFrame:
    """One record for each place: the first."""
    at_place = Window.partitionBy(*PLACE).orderBy("log_offset")
    later = (
        doubted.withColumn("number", F.row_number().over(at_place))
        .where(F.col("number") > 1)
        .select("log_offset")
    )
    return messages.join(F.broadcast(later), on="log_offset", how="left_anti")
