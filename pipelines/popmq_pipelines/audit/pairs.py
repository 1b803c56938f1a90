"""Records that are written as a pair, the second right behind the first: neither is there alone.

copy without end          a copy was written, but no ack record behind it ended the lease
commit without end        a final message of a transaction, but no op record behind it
end without commit        an op record that says committed, and no final message before it
message without mark      a dead letter was sent again, but no mark behind it says so
mark without message      a mark, and no message before it

Looked at by the run that reads the records first; it also gets the last record before them. The
log's last record may still wait for its second. But for copies, only records are looked at that lie
behind `since`: RocketMQ writes no pairs.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from popmq_common.records import properties
from popmq_common.records.names import DEAD_LETTER_PREFIX, HALF_TOPIC, RETRY_PREFIX
from popmq_common.records.record import SysFlag
from popmq_pipelines.audit.waits import at_dead_letter, at_half
from popmq_pipelines.frames.findings import finding
from popmq_pipelines.frames.queues import PLACE

_REDRIVEN = f"{properties.REDRIVE_OF}{properties.NAME_END}"


def copies_without_end(index: DataFrame, fresh_acks: DataFrame, *, log_last: int) -> DataFrame:
    """Only copies have a first pop time. `index`: the records that are new, and the last one before
    them, which may have waited."""
    is_copy = F.col("first_pop_time_ms").isNotNull() & (
        F.col("topic").startswith(RETRY_PREFIX) | F.col("topic").startswith(DEAD_LETTER_PREFIX)
    )
    ends = fresh_acks.where("expired")
    return finding(_alone(index.where(is_copy), ends, log_last), "copy without end")


def commits(
    index: DataFrame, half_ends: DataFrame, *, since: int, log_last: int
) -> list[DataFrame]:
    """`index`, as above; `half_ends`: those that are new."""
    said = half_ends.where((F.col("outcome") == "committed") & _is_behind(since))
    final = index.where(_is_final() & _is_behind(since))
    messages = final.select(F.col("log_offset").alias("previous_log_offset"))
    empty = said.where(F.col("previous_log_offset") >= F.lit(since)).join(
        messages, on="previous_log_offset", how="left_anti"
    )
    return [
        finding(_alone(final, said, log_last), "commit without end"),
        finding(at_half(empty), "end without commit"),
    ]


def redrives(index: DataFrame, marks: DataFrame, *, since: int, log_last: int) -> list[DataFrame]:
    """`index`, as above; `marks`: the redrives that are new."""
    marks = marks.where(_is_behind(since))
    sent = index.where((F.instr("more_properties", _REDRIVEN) > 0) & _is_behind(since))
    of = F.concat(
        F.lit(_REDRIVEN + DEAD_LETTER_PREFIX),
        "consumer_group",
        F.lit("@"),
        "dead_letter_offset",
        F.lit(properties.VALUE_END),
    )
    messages = sent.select(F.col("log_offset").alias("previous_log_offset"), "more_properties")
    empty = (
        marks.where(F.col("previous_log_offset") >= F.lit(since))
        .join(messages, on="previous_log_offset", how="left")
        .where(F.coalesce(F.instr("more_properties", of), F.lit(0)) == 0)
    )
    return [
        finding(_alone(sent, marks, log_last), "message without mark"),
        finding(at_dead_letter(empty), "mark without message"),
    ]


def _is_final() -> Column:
    """Of a transaction that was committed, and no later copy of it."""
    kind = F.col("sys_flag").bitwiseAND(F.lit(SysFlag.ROLLBACK.value))
    is_copy = F.col("first_pop_time_ms").isNotNull() | (
        F.coalesce(F.instr("more_properties", _REDRIVEN), F.lit(0)) > 0
    )
    return (kind == SysFlag.COMMIT.value) & (F.col("topic") != HALF_TOPIC) & ~is_copy


def _is_behind(since: int) -> Column:
    return F.col("log_offset") >= F.lit(since)


def _alone(firsts: DataFrame, seconds: DataFrame, log_last: int) -> DataFrame:
    """The first records of pairs behind which no second lies."""
    answered = seconds.select(F.col("previous_log_offset").alias("log_offset"))
    return (
        firsts.where(F.col("log_offset") < F.lit(log_last))
        .join(answered, on="log_offset", how="left_anti")
        .select(*PLACE, "log_offset")
    )
