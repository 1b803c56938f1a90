"""Every lease and how it ended; what did not add up.

A lease (one generation of one message for one group) is

    acked          an ack record says so
    redelivered    its time ran out and a copy was written
    fenced         a later move of the position voided it
    in flight      it is not due yet, or due only for less than the grace
    unaccounted    due for longer, and nothing says how it ended
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

QUEUE = ["consumer_group", "topic", "queue_id"]
LEASE = [*QUEUE, "queue_offset", "generation"]


def lease_states(
    checkpoints: DataFrame, acks: DataFrame, moves: DataFrame, *, as_of_ms: int, grace_ms: int
) -> DataFrame:
    """One row per lease, with its `state`."""
    ended = acks.groupBy(*LEASE).agg(F.max("expired").alias("expired"))
    moved = moves.groupBy(*QUEUE).agg(F.max("log_offset").alias("moved_at"))
    late = F.col("due_ms") + F.lit(grace_ms) <= F.lit(as_of_ms)
    state = (
        F.when(F.col("expired").isNull() & (F.col("moved_at") > F.col("log_offset")), "fenced")
        .when(F.col("expired").isNull() & late, "unaccounted")
        .when(F.col("expired").isNull(), "in flight")
        .when(F.col("expired"), "redelivered")
        .otherwise("acked")
    )
    return (
        checkpoints.join(ended, on=LEASE, how="left")
        .join(moved, on=QUEUE, how="left")
        .select(*LEASE, "due_ms", "log_offset", state.alias("state"))
    )


def findings(
    states: DataFrame, acks: DataFrame, checkpoints: DataFrame, messages: DataFrame
) -> DataFrame:
    """Everything that must not be, one row each."""
    unaccounted = states.where(F.col("state") == "unaccounted").select(
        *_finding("lease is overdue, neither acked nor redelivered", F.col("due_ms"))
    )
    orphans = acks.join(checkpoints, on=LEASE, how="left_anti").select(
        *_finding("ack without a checkpoint", F.lit(None).cast("bigint"))
    )
    place = ["topic", "queue_id", "queue_offset"]
    unknown = checkpoints.join(messages, on=place, how="left_anti").select(
        *_finding("lease of a message that is not stored", F.col("due_ms"))
    )
    doubled = (
        messages.groupBy(*place)
        .count()
        .where(F.col("count") > 1)
        .select(
            F.lit("").alias("consumer_group"),
            *place[:2],
            "queue_offset",
            F.lit(0).alias("generation"),
            F.lit("two messages have one offset").alias("finding"),
            F.lit(None).cast("bigint").alias("due_ms"),
        )
    )
    return unaccounted.unionByName(orphans).unionByName(unknown).unionByName(doubled)


def balance(states: DataFrame) -> DataFrame:
    """Leases by group, topic and state."""
    keys = ["consumer_group", "topic", "state"]
    return states.groupBy(*keys).agg(F.count("*").alias("leases")).select(*keys, "leases")


def _finding(text: str, due_ms: Column) -> list[Column]:
    return [
        *(F.col(name) for name in LEASE),
        F.lit(text).alias("finding"),
        due_ms.alias("due_ms"),
    ]
