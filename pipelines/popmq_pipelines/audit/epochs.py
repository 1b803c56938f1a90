"""Which snapshot brought a message: its epoch, counted from 1.

`spans` has for each queue the offsets that an epoch brought: from `start_offset`, which is right
behind what was known before, to `last_offset`. `first_offset` is the first that is really stored.
What a queue's later rows say of an older offset belongs to the older epoch: it opens it again.
Offsets beyond the last belong to the queue's last epoch, those of unknown queues to the first.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from popmq_common.records.names import REVIVE_GROUP
from popmq_pipelines.frames.partitioning import union
from popmq_pipelines.frames.queues import PLACE, QUEUE, bounds

_NO_END: Final = (1 << 63) - 1


def since(frame: DataFrame, watermark: int) -> DataFrame:
    """What lies at or behind the watermark of the run before."""
    return frame.where(F.col("log_offset") >= F.lit(watermark)) if watermark else frame


def spans(fresh_index: DataFrame, carried: DataFrame | None, epoch: int) -> DataFrame:
    """Of this epoch alone. `fresh_index`: the records that are new."""
    brought = bounds(fresh_index)
    if carried is None:
        return _spans(brought.withColumn("known_to", F.lit(None).cast("bigint")), epoch)
    known = carried.groupBy(*QUEUE).agg(F.max("last_offset").alias("known_to"))
    return _spans(brought.join(F.broadcast(known), on=QUEUE, how="left"), epoch)


def _spans(brought: DataFrame, epoch: int) -> DataFrame:
    known_to = F.col("known_to")
    start = F.coalesce(known_to + 1, F.lit(0).cast("bigint"))
    return brought.where(known_to.isNull() | (F.col("last_offset") > known_to)).select(
        *QUEUE,
        F.lit(epoch).alias("epoch"),
        start.alias("start_offset"),
        F.greatest("first_offset", start).alias("first_offset"),
        "last_offset",
    )


def placed(frame: DataFrame, spans: DataFrame, known: Sequence[int]) -> DataFrame:
    """`frame`, which has `PLACE`, with the column `epoch`. `known`: the epochs, the newest last.
    The table of spans is small."""
    if len(known) == 1:
        return frame.withColumn("epoch", F.lit(known[0]))
    in_queue = Window.partitionBy(*QUEUE).orderBy("start_offset")
    ends = spans.select(
        F.col("topic").alias("of_topic"),
        F.col("queue_id").alias("of_queue_id"),
        F.col("epoch").alias("of_epoch"),
        F.col("start_offset").alias("of_start"),
        F.coalesce(F.lead("start_offset").over(in_queue), F.lit(_NO_END)).alias("of_end"),
    )
    inside = (
        (F.col("topic") == F.col("of_topic"))
        & (F.col("queue_id") == F.col("of_queue_id"))
        & (F.col("queue_offset") >= F.col("of_start"))
        & (F.col("queue_offset") < F.col("of_end"))
    )
    return (
        frame.join(F.broadcast(ends), on=inside, how="left")
        .withColumn("epoch", F.coalesce(F.col("of_epoch"), F.lit(known[0])))
        .drop("of_topic", "of_queue_id", "of_epoch", "of_start", "of_end")
    )


def named_places(
    index: DataFrame, checkpoints: DataFrame, acks: DataFrame, moves: DataFrame
) -> DataFrame:
    """The places in queues that new rows are about, many times each."""
    last_moved = (F.col("to_offset") - 1).alias("queue_offset")
    return union(
        index.select(*PLACE),
        checkpoints.select(*PLACE),
        acks.select(*PLACE),
        moves.select(*QUEUE, last_moved),
    )


def strange_positions(offsets: DataFrame, spans: DataFrame) -> DataFrame:
    """The places of positions beyond their queues' ends. Other positions open no epoch again, else
    that of every queue which rests would never be closed."""
    last = spans.groupBy(*QUEUE).agg(F.max("last_offset").alias("last_offset"))
    at = F.col("next_offset") - 1
    return (
        offsets.where(F.col("consumer_group") != REVIVE_GROUP)
        .join(F.broadcast(last), on=QUEUE, how="left")
        .where(at > F.coalesce(F.col("last_offset"), F.lit(-1)))
        .select(*QUEUE, at.alias("queue_offset"))
    )


def touched(places: DataFrame, spans: DataFrame, known: Sequence[int]) -> DataFrame:
    """The epochs that these places are in, one row each."""
    return placed(places, spans, known).groupBy("epoch").agg(F.count("*")).select("epoch")
