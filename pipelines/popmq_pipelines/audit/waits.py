"""What waits for its end: delayed messages for their time, half messages for their producer.

delivered early                a delayed message came before its time
delivered twice                its wait was ended by two deliveries
recalled and delivered         a delayed message that was recalled came nevertheless
wait ended twice               written again, and ended besides
timer overdue                  its time is long over, and nothing ended its wait
committed twice                a half message has two final messages
committed and rolled back      both were recorded
settled twice                  any other two ends
transaction unsettled          a half message that is older than any transaction may become
redriven twice                 a dead letter was sent again two times

Each names the place of what waited, in the topic where it waits. Ends lie in later snapshots, which
open the epoch of what waited, as acks do. Only what began to wait `since` the broker tells how
groups go on is judged: RocketMQ records ends in its own way.
"""

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from popmq_common.records.names import (
    DEAD_LETTER_PREFIX,
    HALF_TOPIC,
    LEVELS_TOPIC,
    REVIVE_PREFIX,
    TIMER_TOPIC,
)
from popmq_pipelines.audit.leases import Rules
from popmq_pipelines.frames.findings import finding
from popmq_pipelines.frames.partitioning import union
from popmq_pipelines.frames.queues import PLACE

HALF_AGE_MS_MAX: Final = 73 * 3_600_000
"""A broker gives a transaction up after 72 hours, unless it is set otherwise."""


class Waits(NamedTuple):
    """Rows of the epochs that are judged."""

    timer_index: DataFrame
    timer_ends: DataFrame
    half_messages: DataFrame
    half_ends: DataFrame
    redrives: DataFrame


def ended_places(timer_ends: DataFrame, half_ends: DataFrame, redrives: DataFrame) -> DataFrame:
    """The places of what these rows end."""
    return union(
        at_timer(timer_ends).select(*PLACE),
        at_half(half_ends).select(*PLACE),
        at_dead_letter(redrives).select(*PLACE),
    )


def at_timer(timer_ends: DataFrame) -> DataFrame:
    """With the place of what waited, in place of its own."""
    by_level = F.col("level").isNotNull()
    return timer_ends.select(
        F.when(by_level, LEVELS_TOPIC).otherwise(TIMER_TOPIC).alias("topic"),
        F.when(by_level, F.col("level") - 1).otherwise(0).alias("queue_id"),
        F.col("ended_offset").alias("queue_offset"),
        "kind",
        "log_offset",
    )


def at_half(half_ends: DataFrame) -> DataFrame:
    return half_ends.select(
        F.lit(HALF_TOPIC).alias("topic"),
        F.lit(0).alias("queue_id"),
        F.col("half_offset").alias("queue_offset"),
        F.col("outcome").alias("kind"),
        "log_offset",
    )


def at_dead_letter(redrives: DataFrame) -> DataFrame:
    return redrives.select(
        F.concat(F.lit(DEAD_LETTER_PREFIX), "consumer_group").alias("topic"),
        F.lit(0).alias("queue_id"),
        F.col("dead_letter_offset").alias("queue_offset"),
        F.lit("redriven").alias("kind"),
        "log_offset",
    )


def twice(waits: Waits, since: int) -> list[DataFrame]:
    """Findings: waits that were ended more than once."""
    return [
        finding(_more_than_one(_waiting(waits, since), _delivered(waits)), _of_deliveries()),
        finding(_more_than_one(_halves(waits, since), _settled(waits)), _of_outcomes()),
        finding(
            _ends(at_dead_letter(waits.redrives), "redriven").where("end_count > 1"),
            "redriven twice",
        ),
    ]


def untimely(waits: Waits, journal: DataFrame, rules: Rules, since: int) -> list[DataFrame]:
    """Findings: what came too early, or never. `journal`: every record that was read, for the times
    of deliveries."""
    waiting = _waiting(waits, since)
    due = F.greatest("due_ms", F.lit(rules.running_since_ms)) + F.lit(rules.grace_ms)
    old_ms = F.col("store_timestamp_ms") + F.lit(HALF_AGE_MS_MAX)
    given_up = F.greatest(old_ms, F.lit(rules.running_since_ms)) + F.lit(rules.grace_ms)
    overdue = waiting.where(due <= F.lit(rules.as_of_ms))
    unsettled = _halves(waits, since).where(given_up <= F.lit(rules.as_of_ms))
    return [
        finding(_early(waiting, waits.timer_ends, journal), "delivered early"),
        finding(_never(overdue, _delivered(waits), rules), "timer overdue"),
        finding(_never(unsettled, _settled(waits), rules), "transaction unsettled"),
    ]


def _waiting(waits: Waits, since: int) -> DataFrame:
    is_of_lease = F.coalesce("real_topic", F.lit("")).startswith(REVIVE_PREFIX)
    is_mark = F.col("kind") == "recall"
    return waits.timer_index.where(~is_mark & ~is_of_lease & (F.col("log_offset") >= F.lit(since)))


def _halves(waits: Waits, since: int) -> DataFrame:
    return waits.half_messages.where(F.col("log_offset") >= F.lit(since))


def _delivered(waits: Waits) -> DataFrame:
    return _ends(at_timer(waits.timer_ends), "delivered")


def _settled(waits: Waits) -> DataFrame:
    return _ends(at_half(waits.half_ends), "committed")


def _more_than_one(waiting: DataFrame, ends: DataFrame) -> DataFrame:
    return waiting.select(*PLACE).join(ends.where("end_count > 1"), on=PLACE, how="inner")


def _of_deliveries() -> Column:
    return _of_ends(
        "delivered twice", "recalled_count", "recalled and delivered", "wait ended twice"
    )


def _of_outcomes() -> Column:
    both = "committed and rolled back"
    return _of_ends("committed twice", "rolled_back_count", both, "settled twice")


def _of_ends(twice: str, other_count: str, both: str, otherwise: str) -> Column:
    """What several ends of one message are called. `other_count`: the column that counts ends that
    exclude the wanted one."""
    wanted = F.col("wanted_count")
    has_both = (wanted == 1) & (F.col(other_count) > 0)
    return F.when(wanted > 1, twice).when(has_both, both).otherwise(otherwise)


def _ends(ended: DataFrame, wanted: str) -> DataFrame:
    """One row for each place: its ends, how many of them of the kind `wanted`, where the last."""
    kind = F.col("kind")
    return ended.groupBy(*PLACE).agg(
        F.count("*").alias("end_count"),
        F.count_if(kind == wanted).alias("wanted_count"),
        F.count_if(kind == "recalled").alias("recalled_count"),
        F.count_if(kind == "rolled back").alias("rolled_back_count"),
        F.max("log_offset").alias("log_offset"),
    )


def _early(waiting: DataFrame, timer_ends: DataFrame, journal: DataFrame) -> DataFrame:
    delivered = at_timer(timer_ends.where(F.col("kind") == "delivered")).join(
        journal.select("log_offset", "store_timestamp_ms"), on="log_offset", how="inner"
    )
    timed = waiting.where(F.col("due_ms").isNotNull()).select(*PLACE, "due_ms")
    return timed.join(delivered, on=PLACE, how="inner").where(
        F.col("store_timestamp_ms") < F.col("due_ms")
    )


def _never(waiting: DataFrame, ends: DataFrame, rules: Rules) -> DataFrame:
    """Of what is still stored: what retention has deleted cannot come any more."""
    is_stored = F.col("log_offset") >= F.lit(rules.kept_from)
    return waiting.where(is_stored).join(ends.select(*PLACE), on=PLACE, how="left_anti")


def wakes(waits: Waits, since: int | None) -> DataFrame:
    """What waits, with the time at which it must have ended; those that have no time never wake."""
    ended = union(
        at_timer(waits.timer_ends).select(*PLACE), at_half(waits.half_ends).select(*PLACE)
    )
    return (
        union(
            waits.timer_index.where(F.col("kind") != "recall").select(*_woken(F.col("due_ms"))),
            waits.half_messages.select(
                *_woken(F.col("store_timestamp_ms") + F.lit(HALF_AGE_MS_MAX))
            ),
        )
        .where(F.lit(since is not None) & F.col("wakes_ms").isNotNull())
        .where(F.col("log_offset") >= F.lit(since or 0))
        .join(ended, on=PLACE, how="left_anti")
        .select(*PLACE, "wakes_ms")
    )


def _woken(at_ms: Column) -> list[Column | str]:
    return [*PLACE, "log_offset", at_ms.alias("wakes_ms")]
