"""FIFO groups: within a message group nothing is handed out before its turn; attempts are counted.

delivered out of order     a message was first handed out after a later one of its message group
leased before its turn     an earlier message of its message group was not settled
attempt jumps              an attempt is neither that of the delivery before nor one more; or the
                           first delivery is not the first attempt
copy with other attempts   a copy or dead letter does not count the delivery before it, or counts
                           two

Messages that were first handed out by one record are a batch: they may be settled in any order,
and what failed of them may come again together with later ones, if it was given back uncounted. So
whole batches are compared, and only where one came too early its messages.

Groups that ever used a filter in a queue are not judged there: after a restart another filter may
let through what lies before messages that were handed out.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from popmq_pipelines.audit.leases import GROUP_QUEUE, MESSAGE
from popmq_pipelines.audit.skips import Told
from popmq_pipelines.frames.findings import finding
from popmq_pipelines.frames.queues import PLACE

_NEVER: Final = (1 << 63) - 1
_IN_ORDER: Final = [*GROUP_QUEUE, "message_group"]
_SETTLED: Final = ("acked", "dead", "uncopied")


def leases_in_order(
    told: Told, states: DataFrame, messages: DataFrame, bounds: DataFrame
) -> DataFrame:
    """The leases of FIFO groups since their position was last set, with their message group. Small
    where groups are not FIFO, so it should be kept. `messages`: one per place."""
    filtered = told.passes.where(F.col("log_offset") >= F.lit(told.since)).select(*GROUP_QUEUE)
    named = messages.select(*PLACE, F.coalesce("message_group", F.lit("")).alias("message_group"))
    return (
        states.where("is_fifo")
        .where(F.col("stored_at") >= F.lit(told.kept_from))
        .join(F.broadcast(bounds), on=GROUP_QUEUE, how="inner")
        .where(
            (F.col("log_offset") > F.col("moved_at")) & (F.col("log_offset") >= F.lit(told.since))
        )
        .join(F.broadcast(filtered.distinct()), on=GROUP_QUEUE, how="left_anti")
        .join(named, on=PLACE, how="inner")
        .select(
            *MESSAGE,
            "message_group",
            "log_offset",
            "generation",
            "attempt",
            "state",
            "ended_at",
            (F.col("stored_at") >= F.lit(told.since)).alias("known_whole"),
        )
    )


def out_of_order(leases: DataFrame) -> list[DataFrame]:
    """Findings. `leases`: as `leases_in_order` makes them."""
    settled_at = F.min(F.when(F.col("state").isin(*_SETTLED), F.col("ended_at")))
    messages = leases.groupBy(*_IN_ORDER, "queue_offset").agg(
        F.min("log_offset").alias("first_at"),
        F.coalesce(settled_at, F.lit(_NEVER)).alias("settled_at"),
    )
    earlier = (
        Window.partitionBy(*_IN_ORDER)
        .orderBy("first_at")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    batches = (
        messages.groupBy(*_IN_ORDER, "first_at")
        .agg(
            F.min("queue_offset").alias("queue_offset"),
            F.max("queue_offset").alias("last_offset"),
            F.max("settled_at").alias("settled_at"),
        )
        .withColumn("last_before", F.max("last_offset").over(earlier))
        .withColumn("settled_before", F.max("settled_at").over(earlier))
        .withColumn("log_offset", F.col("first_at"))
    )
    late = batches.where(F.col("queue_offset") < F.col("last_before"))
    early = batches.where(F.col("settled_before") >= F.col("first_at"))
    held = messages.select(
        *_IN_ORDER,
        F.col("queue_offset").alias("held_offset"),
        F.col("first_at").alias("held_at"),
        F.col("settled_at").alias("held_until"),
    )
    before = (F.col("held_at") < F.col("first_at")) & (F.col("held_until") >= F.col("first_at"))
    together = leases.select(
        *_IN_ORDER,
        F.col("queue_offset").alias("held_offset"),
        F.col("log_offset").alias("first_at"),
    )
    unsettled = (
        early.join(held, on=_IN_ORDER, how="inner")
        .where(before & (F.col("held_offset") < F.col("last_offset")))
        .join(together, on=[*_IN_ORDER, "held_offset", "first_at"], how="left_anti")
        .groupBy(*MESSAGE, "log_offset")
        .agg(F.count("*"))
        .select(*MESSAGE, "log_offset")
    )
    return [
        finding(late, "delivered out of order"),
        finding(unsettled, "leased before its turn"),
    ]


def attempts(leases: DataFrame) -> DataFrame:
    """Findings. `leases`: as `leases_in_order` makes them."""
    of_message = Window.partitionBy(*MESSAGE).orderBy("log_offset", "generation")
    before = F.coalesce(F.lag("attempt").over(of_message), F.lit(0))
    is_first = F.lag("attempt").over(of_message).isNull()
    step = F.col("attempt") - F.col("before")
    jumps = leases.withColumn("before", before).withColumn("is_first", is_first)
    began_wrong = F.col("is_first") & F.col("known_whole") & (step != 1)
    wrong = jumps.where(began_wrong | (~F.col("is_first") & ~step.isin(0, 1)))
    return finding(wrong.drop("before", "is_first"), "attempt jumps")


def miscounted(states: DataFrame) -> DataFrame:
    """Findings: copies and dead letters that do not continue the count of what they are copies of.
    An uncounted return keeps it."""
    step = F.col("copy_attempts") - F.col("counted_attempts")
    allowed = (step == 1) | ((step == 0) & (F.col("copy_uncounted") > 0))
    wrong = states.where(F.col("state").isin("retried", "dead") & ~allowed)
    return finding(wrong, "copy with other attempts")
