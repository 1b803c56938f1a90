"""Attempts against the settings of groups: a message becomes a dead letter after its last one.

attempts above the maximum    it was to be a dead letter, and was redelivered instead
dead letter too early         attempts were left, and its consumer did not reject it

What counts are the settings in force where the log says what became of a delivery. Settings that
the log does not tell are not judged by: those before a group's first row. Nor are dead letters
without a cause, which brokers of older versions wrote.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from popmq_pipelines.audit.leases import LEASE, MESSAGE
from popmq_pipelines.frames.findings import finding

_NEVER: Final = (1 << 63) - 1


def in_force(settings: DataFrame) -> DataFrame:
    """From which log offset on to which one a group had these limits. Small. `settings`: the rows
    of group_settings, of all epochs."""
    of_group = Window.partitionBy("consumer_group").orderBy("log_offset")
    told_until = F.coalesce(F.lead("log_offset").over(of_group), F.lit(_NEVER))
    return (
        settings.withColumn("told_until", told_until)
        .where(~F.col("is_deleted"))
        .select(
            F.col("consumer_group").alias("of_group"),
            F.col("log_offset").alias("told_from"),
            "told_until",
            "max_attempts",
            "max_hand_outs",
        )
    )


def judged_by_settings(states: DataFrame, limits: DataFrame) -> list[DataFrame]:
    """Findings. `limits`: as `in_force` makes them."""
    ended = _with_limits(states.where(F.col("state").isin("retried", "dead")), limits)
    attempts_left = F.col("copy_attempts") < F.col("max_attempts")
    deliveries_left = F.col("copy_attempts") + F.col("copy_uncounted") < F.col("max_hand_outs")
    did_count = F.col("copy_attempts") > F.col("counted_attempts")
    left = F.when(did_count, attempts_left).otherwise(deliveries_left)
    early = ((F.col("copy_cause") == "attempts") & attempts_left) | (
        (F.col("copy_cause") == "deliveries") & deliveries_left
    )
    return [
        finding(ended.where((F.col("state") == "retried") & ~left), "attempts above the maximum"),
        finding(_leased_above(states, limits), "attempts above the maximum"),
        finding(ended.where((F.col("state") == "dead") & early), "dead letter too early"),
    ]


def _with_limits(states: DataFrame, limits: DataFrame) -> DataFrame:
    """The limits in force where the lease ended."""
    then = (
        (F.col("consumer_group") == F.col("of_group"))
        & (F.col("ended_at") > F.col("told_from"))
        & (F.col("ended_at") < F.col("told_until"))
    )
    return states.join(F.broadcast(limits), on=then, how="inner")


def _leased_above(states: DataFrame, limits: DataFrame) -> DataFrame:
    """FIFO groups, which write nothing when a delivery fails: it failed between its lease and the
    next one, so the greatest maximum of that time counts. One that was given back uncounted may
    come again with the same attempt, whatever the maximum is by then."""
    of_message = Window.partitionBy(*MESSAGE).orderBy("log_offset", "generation")
    again = (
        states.where("is_fifo")
        .withColumn("before", F.lag("attempt").over(of_message))
        .withColumn("before_at", F.lag("log_offset").over(of_message))
        .where(F.col("attempt") > F.col("before"))
        .select(*LEASE, "due_ms", "log_offset", "attempt", "before_at")
    )
    meanwhile = (
        (F.col("consumer_group") == F.col("of_group"))
        & (F.col("told_from") < F.col("log_offset"))
        & (F.col("told_until") > F.col("before_at"))
    )
    return (
        again.join(F.broadcast(limits), on=meanwhile, how="inner")
        .groupBy(*LEASE, "due_ms", "log_offset", "attempt", "before_at")
        .agg(F.max("max_attempts").alias("greatest"), F.min("told_from").alias("told_from"))
        .where((F.col("told_from") < F.col("before_at")) & (F.col("attempt") > F.col("greatest")))
        .select(*LEASE, "due_ms", "log_offset")
    )
