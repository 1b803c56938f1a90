"""Every lease and how it ended. Leases and acks meet by all six parts of a lease's name.

    acked        an ack record says so
    retried      it ran out or was given back: a copy is in the group's retry topic
    dead         a copy is in the group's dead letters
    uncopied     it ran out, and there is no copy in either: the message is lost to the group
    superseded   a change gave the message a new lease, one generation higher
    voided       the group's position was moved later, which ends all leases of the queue
    deleted      retention has deleted the message since
    in_place     of a FIFO group, which gets its messages again where they lie: the time is over,
                 the message waits for its turn. Nothing is written when that happens, so an ack
                 that was lost looks like this too
    overdue      due for longer than the grace, and nothing says how it ended
    in_flight    anything else

In a FIFO group a later generation may be two or more higher: messages that are handed out together
get the same one.

A copy lies directly before the ack record that ends its lease, in one append; it must be in the
topic that it has to be in, and its body must be the message's.

Checkpoints, acks and messages are spread over tasks by the message's place in its queue, once,
and every step behind that finds its rows together: no queue is too hot for one task.
"""

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from popmq_common.records import properties
from popmq_common.records.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from popmq_pipelines.frames.partitioning import spread, union
from popmq_pipelines.frames.queues import PLACE, QUEUE

GROUP_QUEUE: Final = ["topic", "consumer_group", "queue_id"]
MESSAGE: Final = [*GROUP_QUEUE, "queue_offset"]
LEASE: Final = [*MESSAGE, "pop_time_ms", "generation"]
OPEN: Final = ["in_flight", "overdue"]
_AT: Final = ["log_offset", "due_ms", "revive_queue_id", "revive_offset"]
_OF_FIFO: Final = ["is_fifo", "attempt"]
_OF_COPY: Final = ["copy", "copy_crc", "copy_attempts", "copy_uncounted", "copy_cause"]
_OF_MESSAGE: Final = ["lease_count", "first_pop_ms", "next_at"]
_RETRIED, _DEAD = 1, 2
_NO_COPY: Final = {
    "copy": "int",
    "copy_crc": "int",
    "copy_attempts": "int",
    "copy_uncounted": "int",
    "copy_cause": "string",
}
_UNCOUNTED: Final = f"{properties.UNCOUNTED}{properties.NAME_END}([0-9]{{1,9}})"
_DLQ_CAUSE: Final = f"{properties.DLQ_CAUSE}{properties.NAME_END}([a-z]+)"
_DLQ_ATTEMPTS: Final = f"DLQ_ATTEMPTS{properties.NAME_END}([0-9]{{1,9}})"
STATES: Final = [
    *LEASE,
    *_AT,
    "checkpoint_count",
    *_OF_MESSAGE,
    "ack_count",
    "ended_at",
    "stored_at",
    "stored_ms",
    "is_fifo",
    "attempt",
    "counted_attempts",
    "copy_attempts",
    "copy_uncounted",
    "copy_cause",
    "state",
]


class Rules(NamedTuple):
    """By which leases are judged."""

    as_of_ms: int
    running_since_ms: int
    """When the broker was started; what was due before has the grace from then on."""
    grace_ms: int
    kept_from: int
    """The log offset that retention has deleted everything before."""


def leases(checkpoints: DataFrame) -> DataFrame:
    """One row per lease, with where the message's next lease begins and its generation.

    A lease that was renewed has a checkpoint for each time it ends at; the last of them counts.
    """
    later = Window.partitionBy(*MESSAGE).orderBy("log_offset", "generation")
    of_message = Window.partitionBy(*MESSAGE)
    return (
        spread(checkpoints, *PLACE)
        .groupBy(*LEASE, "due_ms")
        .agg(
            F.count("*").alias("same_count"),
            F.min("log_offset").alias("log_offset"),
            F.min_by("revive_queue_id", "log_offset").alias("revive_queue_id"),
            F.max("revive_offset").alias("revive_offset"),
            F.max("attempt").alias("attempt"),
        )
        .groupBy(*LEASE)
        .agg(
            F.min("log_offset").alias("log_offset"),
            F.max("due_ms").alias("due_ms"),
            F.min_by("revive_queue_id", "log_offset").alias("revive_queue_id"),
            F.max_by("revive_offset", "due_ms").alias("revive_offset"),
            F.max("attempt").isNotNull().alias("is_fifo"),
            F.max("attempt").alias("attempt"),
            (F.sum("same_count") - F.count("*") + 1).alias("checkpoint_count"),
        )
        .withColumn("next_at", F.lead("log_offset").over(later))
        .withColumn("next_generation", F.lead("generation").over(later))
        .withColumn("lease_count", F.count("*").over(of_message))
        .withColumn("first_pop_ms", F.min("pop_time_ms").over(of_message))
        .select(*LEASE, *_AT, "checkpoint_count", *_OF_MESSAGE, "next_generation", *_OF_FIFO)
    )


def copies(index: DataFrame) -> DataFrame:
    """The records that may be copies for redelivery or dead letters."""
    topic = F.col("topic")
    is_copy = topic.startswith(RETRY_PREFIX) | topic.startswith(DEAD_LETTER_PREFIX)
    return index.where(is_copy).select(
        F.col("log_offset").alias("previous_log_offset"),
        topic.alias("copy_topic"),
        F.col("body_crc").alias("copy_crc"),
        _attempts_of_copy().alias("copy_attempts"),
        F.coalesce(_told(_UNCOUNTED).cast("int"), F.lit(0)).alias("copy_uncounted"),
        _told(_DLQ_CAUSE).alias("copy_cause"),
    )


def _told(pattern: str) -> Column:
    """What a property says; null: there is none."""
    found = F.regexp_extract("more_properties", pattern, 1)
    return F.when(found != "", found)


def _attempts_of_copy() -> Column:
    """How often its message had been handed out when it was made; null: it does not tell."""
    is_retry = F.col("topic").startswith(RETRY_PREFIX)
    dead = _told(_DLQ_ATTEMPTS).cast("int")
    return F.when(is_retry, F.col("reconsume_times")).otherwise(dead)


def ends(acks: DataFrame, copies: DataFrame) -> DataFrame:
    """One row per ended lease: where, whether it was acked, and which copy lies before that."""
    expired = (
        acks.where("expired")
        .join(copies, on="previous_log_offset", how="left")
        .withColumn("copy", _kind_of_copy())
        .select(*LEASE, "log_offset", "expired", *_OF_COPY)
    )
    acked = acks.where(~F.col("expired")).select(
        *LEASE,
        "log_offset",
        "expired",
        *(F.lit(None).cast(kind).alias(name) for name, kind in _NO_COPY.items()),
    )
    return (
        spread(union(acked, expired), *PLACE)
        .groupBy(*LEASE)
        .agg(
            F.min("log_offset").alias("ended_at"),
            F.min_by("expired", "log_offset").alias("expired"),
            *(F.min_by(name, "log_offset").alias(name) for name in _OF_COPY),
            F.count("*").alias("ack_count"),
        )
    )


def _kind_of_copy() -> Column:
    """Whether the record before the end is in the topic that a copy has to be in."""
    group, topic = F.col("consumer_group"), F.col("topic")
    prefix = F.concat(F.lit(RETRY_PREFIX), group, F.lit("_"))
    retry = F.when(topic.startswith(prefix), topic).otherwise(F.concat(prefix, topic))
    dead = F.concat(F.lit(DEAD_LETTER_PREFIX), group)
    return F.when(F.col("copy_topic") == retry, _RETRIED).when(F.col("copy_topic") == dead, _DEAD)


def stored(messages: DataFrame) -> DataFrame:
    """What a lease has to know of its message. `messages`: one per place."""
    return messages.select(
        *PLACE,
        F.col("log_offset").alias("stored_at"),
        F.col("store_timestamp_ms").alias("stored_ms"),
        F.col("reconsume_times").alias("counted_before"),
        "body_crc",
    )


def lease_states(
    leased: DataFrame,
    ended: DataFrame,
    messages: DataFrame,
    moves: DataFrame,
    spans: DataFrame,
    rules: Rules,
) -> DataFrame:
    """One row per lease, with its `state`. `messages`: as `stored` makes them. Contract: STATES."""
    moved = moves.groupBy(*GROUP_QUEUE).agg(F.max("log_offset").alias("moved_at"))
    first = spans.groupBy(*QUEUE).agg(F.min("first_offset").alias("known_from"))
    return (
        leased.join(ended, on=LEASE, how="left")
        .join(messages, on=PLACE, how="left")
        .join(F.broadcast(moved), on=GROUP_QUEUE, how="left")
        .join(F.broadcast(first), on=QUEUE, how="left")
        .withColumn("ack_count", F.coalesce(F.col("ack_count"), F.lit(0).cast("bigint")))
        .withColumn("state", _state(rules))
        .withColumn(
            "counted_attempts",
            F.when(F.col("is_fifo"), F.col("attempt") - 1).otherwise(F.col("counted_before")),
        )
        .select(*STATES)
    )


def _state(rules: Rules) -> Column:
    has_ended = F.col("ended_at").isNotNull()
    later = F.col("next_generation") - F.col("generation")
    changed = (later == 1) | (F.col("is_fifo") & (later > 1))
    ended_before_change = has_ended & (F.col("expired") | (F.col("ended_at") < F.col("next_at")))
    same_body = F.col("body_crc").isNull() | (F.col("body_crc") == F.col("copy_crc"))
    copy = F.when(same_body & (F.col("copy") == _RETRIED), "retried").when(
        same_body & (F.col("copy") == _DEAD), "dead"
    )
    never_seen = F.col("stored_at").isNull() & (F.col("queue_offset") < F.col("known_from"))
    due = F.greatest(F.col("due_ms"), F.lit(rules.running_since_ms))
    in_place = F.col("is_fifo") & (F.col("due_ms") <= F.lit(rules.as_of_ms))
    return (
        F.when(changed & ~ended_before_change, "superseded")
        .when(has_ended & F.col("expired"), F.coalesce(copy, F.lit("uncopied")))
        .when(has_ended, "acked")
        .when(F.col("moved_at") > F.col("log_offset"), "voided")
        .when(never_seen | (F.col("stored_at") < F.lit(rules.kept_from)), "deleted")
        .when(in_place, "in_place")
        .when(due + F.lit(rules.grace_ms) <= F.lit(rules.as_of_ms), "overdue")
        .otherwise("in_flight")
    )


def newest(states: DataFrame) -> DataFrame:
    """A message's newest lease, which decides where it stands."""
    return states.where(F.col("next_at").isNull())


def counts(states: DataFrame) -> DataFrame:
    """state → how many leases."""
    return (
        states.groupBy("state")
        .agg(F.count("*").alias("lease_count"))
        .orderBy("state")
        .select("state", "lease_count")
    )
