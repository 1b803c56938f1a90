"""What is there twice and must be there once. Each function gives findings of one kind.

stored twice            two records say they are one message of a queue (see `queues`)
checkpointed twice      two checkpoints make one lease
ended twice             two ack records end one lease
leased while held       handed out again although the group held it
leased after its end    handed out again although it was acked or a copy was written
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from popmq_pipelines.audit.leases import GROUP_QUEUE, LEASE
from popmq_pipelines.frames.findings import finding


def checkpointed_twice(states: DataFrame) -> DataFrame:
    return finding(states.where(F.col("checkpoint_count") > 1), "checkpointed twice")


def ended_twice(states: DataFrame) -> DataFrame:
    return finding(states.where(F.col("ack_count") > 1), "ended twice")


def leased_again(states: DataFrame, moves: DataFrame) -> DataFrame:
    """Only a change, or a move of the group's position, lets an offset be leased again."""
    again = states.where(F.col("next_at").isNotNull() & (F.col("state") != "superseded"))
    moved = moves.select(*GROUP_QUEUE, F.col("log_offset").alias("moved_at"))
    between = (
        again.join(moved, on=GROUP_QUEUE, how="inner")
        .where(F.col("moved_at").between(F.col("log_offset"), F.col("next_at")))
        .select(*LEASE)
    )
    unexplained = again.join(between, on=LEASE, how="left_anti")
    had_ended = F.col("ended_at") < F.col("next_at")
    kind = F.when(had_ended, "leased after its end").otherwise("leased while held")
    return finding(unexplained, kind)
