"""Records as they lie in the log → the tables of a snapshot, by Spark's own functions.

`records` has the columns of `raw_store.RECORDS_DDL`. Each function ends in a select that matches
`columns.SNAPSHOT_TABLES`. Nothing here uses the code that the exporter makes its rows with.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from popmq_common.records.names import (
    DEAD_LETTER_PREFIX,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    LEVELS_TOPIC,
    RETRY_PREFIX,
    REVIVE_PREFIX,
    TIMER_TOPIC,
)
from popmq_pipelines.decode import inner_topics
from popmq_pipelines.snapshot.columns import names

_REDRIVE_PREFIX: Final = "rmq_sys_REDRIVE_"
_CHECKPOINT: Final = (
    "so bigint, pt bigint, it bigint, n int, q int, t string, c string, d array<bigint>, "
    "bn string, g int, nk int, nr string, ci string, at array<int>"
)
_ACK: Final = (
    "ao bigint, ackOffset bigint, so bigint, startOffset bigint, c string, consumerGroup string, "
    "t string, topic string, q int, queueId int, pt bigint, popTime bigint, bn string, "
    "brokerName string, aol array<bigint>, ackOffsetList array<bigint>, g int, x int"
)
_PASS: Final = "c string, t string, q int, so bigint, k int, f string"
_FILTER_KINDS: Final = {1: "tags", 2: "sql"}
_IN_COLUMNS: Final = ("UNIQ_KEY", "TAGS", "__SHARDINGKEY", "1ST_POP_TIME")
_NACK_KINDS: Final = {1: "counted", 2: "uncounted", 3: "fatal"}
_OUTCOMES: Final = {
    "COMMITTED": "committed",
    "ROLLED_BACK": "rolled back",
    "GIVEN_UP": "given up",
    "moved": "moved",
}


def tables(records: DataFrame) -> dict[str, DataFrame]:
    """Those of what happened; how things are is not in the records."""
    checkpoints, acks = _checkpoints(records), _acks(records)
    found = {
        "commitlog_index": _commitlog_index(records),
        "pop_checkpoints": _pop_checkpoints(checkpoints),
        "position_moves": _position_moves(checkpoints),
        "passes": _passes(records),
        "pop_acks": _pop_acks(acks),
        "revive_log": _revive_log(records, checkpoints, acks),
        "retry_index": _retry_index(records),
        "dlq_index": _dlq_index(records),
        "group_settings": inner_topics.group_settings(records),
        "owners": inner_topics.owners(records),
        "client_reports": inner_topics.client_reports(records),
        "client_counts": inner_topics.client_counts(records),
        "redrives": _redrives(records),
        "timer_index": _timer_index(records),
        "timer_ends": _timer_ends(records),
        "half_messages": _half_messages(records),
        "half_ends": _half_ends(records),
    }
    return {table: frame.select(*names(table)) for table, frame in found.items()}


def _property(name: str) -> Column:
    return f.col("properties")[name]


def _number(text: Column, digits: int, kind: str) -> Column:
    return f.when(text.rlike(f"^[0-9]{{1,{digits}}}$"), text.cast(kind))


def _int(text: Column) -> Column:
    return _number(text, 9, "int")


def _long(text: Column) -> Column:
    return _number(text, 18, "bigint")


def _with_message_id(records: DataFrame) -> DataFrame:
    return records.withColumn("message_id", _property("UNIQ_KEY"))


def _commitlog_index(records: DataFrame) -> DataFrame:
    return (
        _with_message_id(records)
        .withColumn("tags", _property("TAGS"))
        .withColumn("first_pop_time_ms", _long(_property("1ST_POP_TIME")))
        .withColumn("message_group", _property("__SHARDINGKEY"))
        .withColumn("more_properties", _more_properties())
    )


def _more_properties() -> Column:
    more = f.map_filter("properties", lambda name, _: ~name.isin(*_IN_COLUMNS))
    text = f.array_join(
        f.transform(
            f.map_entries(more),
            lambda one: f.concat(one["key"], f.lit("\x01"), one["value"], f.lit("\x02")),
        ),
        "",
    )
    return f.when(~f.col("topic").startswith(REVIVE_PREFIX) & (text != ""), text)


def _journal(records: DataFrame, *tags: str) -> DataFrame:
    of_journal = f.col("topic").startswith(REVIVE_PREFIX) & _property("TAGS").isin(*tags)
    return records.where(of_journal).select(
        f.col("queue_id").alias("revive_queue_id"),
        f.col("queue_offset").alias("revive_offset"),
        "log_offset",
        "previous_log_offset",
        "store_timestamp_ms",
        "body",
    )


def _checkpoints(records: DataFrame) -> DataFrame:
    said = _journal(records, "ck").withColumn("said", f.from_json("body", _CHECKPOINT))
    told = f.size(f.coalesce("said.d", f.array().cast("array<bigint>"))) > 0
    counted = f.when(
        f.col("said.n") > 0, f.sequence(f.lit(0), f.col("said.n") - 1).cast("array<bigint>")
    ).otherwise(f.array().cast("array<bigint>"))
    deltas = f.when(told, f.col("said.d")).otherwise(counted)
    return said.select(
        "*",
        f.col("said.t").alias("topic"),
        f.col("said.c").alias("consumer_group"),
        f.col("said.q").alias("queue_id"),
        f.col("said.so").alias("start_offset"),
        f.col("said.pt").alias("pop_time_ms"),
        f.coalesce("said.g", f.lit(1)).alias("generation"),
        f.col("said.it").alias("invisible_ms"),
        (f.col("said.pt") + f.col("said.it")).alias("due_ms"),
        f.transform(deltas, lambda delta: f.col("said.so") + delta).alias("offsets"),
    )


def _acks(records: DataFrame) -> DataFrame:
    said = _journal(records, "ack", "bAck").withColumn("said", f.from_json("body", _ACK))
    several = f.coalesce("said.aol", "said.ackOffsetList")
    one = f.array(f.coalesce("said.ao", "said.ackOffset"))
    return said.select(
        "*",
        f.coalesce("said.t", "said.topic").alias("topic"),
        f.coalesce("said.c", "said.consumerGroup").alias("consumer_group"),
        f.coalesce("said.q", "said.queueId").alias("queue_id"),
        f.coalesce("said.so", "said.startOffset").alias("start_offset"),
        f.coalesce("said.pt", "said.popTime").alias("pop_time_ms"),
        f.coalesce("said.g", f.lit(1)).alias("generation"),
        (f.coalesce("said.x", f.lit(0)) != 0).alias("expired"),
        f.when(f.size(several) > 0, several).otherwise(one).alias("offsets"),
    )


def undecodable(records: DataFrame) -> DataFrame:
    """Log offsets of journal records that say nothing: a table is incomplete without them."""
    found = _checkpoints(records).select("log_offset", "topic")
    found = found.unionByName(_acks(records).select("log_offset", "topic"))
    return found.where(f.col("topic").isNull()).select("log_offset")


def _pop_checkpoints(checkpoints: DataFrame) -> DataFrame:
    """The attempts of a FIFO group lie beside the offsets; others have none."""
    each = checkpoints.select("*", f.posexplode("offsets").alias("number", "queue_offset"))
    return each.withColumn("attempt", f.get("said.at", f.col("number")))


def _position_moves(checkpoints: DataFrame) -> DataFrame:
    return checkpoints.where(f.size("offsets") == 0).select(
        "*", f.col("start_offset").alias("to_offset"), f.col("pop_time_ms").alias("moved_at_ms")
    )


def _passes(records: DataFrame) -> DataFrame:
    kind = f.when(f.col("said.k") != 0, f.lit("unknown"))
    for number, name in _FILTER_KINDS.items():
        kind = f.when(f.col("said.k") == number, name).otherwise(kind)
    return (
        _journal(records, "pass")
        .withColumn("said", f.from_json("body", _PASS))
        .select(
            "*",
            f.col("said.t").alias("topic"),
            f.col("said.c").alias("consumer_group"),
            f.col("said.q").alias("queue_id"),
            f.col("said.so").alias("from_offset"),
            kind.alias("filter_kind"),
            f.when(f.col("said.k") != 0, f.col("said.f")).alias("filter"),
        )
    )


def _pop_acks(acks: DataFrame) -> DataFrame:
    return acks.withColumn("queue_offset", f.explode("offsets"))


def _revive_log(records: DataFrame, checkpoints: DataFrame, acks: DataFrame) -> DataFrame:
    text = f.lit(None).cast("string")
    nack_kind = text
    for number, name in _NACK_KINDS.items():
        nack_kind = f.when(f.col("said.nk") == number, name).otherwise(nack_kind)
    of_checkpoints = checkpoints.select(
        "*",
        f.when(f.size("offsets") > 0, "checkpoint").otherwise("move").alias("kind"),
        f.size("offsets").alias("message_count"),
        nack_kind.alias("nack_kind"),
        _or_null(f.when(f.col("said.nk").isNotNull(), f.col("said.nr"))).alias("reason"),
        _or_null(f.col("said.ci")).alias("renewed_by"),
        _or_null(f.col("said.bn")).alias("broker"),
    )
    of_acks = acks.select(
        "*",
        f.when(f.col("expired"), "expiry").otherwise("ack").alias("kind"),
        f.size("offsets").alias("message_count"),
        f.lit(None).cast("bigint").alias("invisible_ms"),
        *(text.alias(name) for name in ("nack_kind", "reason", "renewed_by")),
        _or_null(f.coalesce("said.bn", "said.brokerName")).alias("broker"),
    )
    wanted = names("revive_log")
    found = of_checkpoints.select(*wanted).unionByName(of_acks.select(*wanted))
    return found.unionByName(_other(records).select(*wanted))


def _other(records: DataFrame) -> DataFrame:
    """Records of the revive topic that are neither."""
    known = f.coalesce(_property("TAGS").isin("ck", "ack", "bAck"), f.lit(False))
    numbers = ("start_offset", "pop_time_ms", "invisible_ms")
    texts = ("topic", "consumer_group", "nack_kind", "reason", "renewed_by", "broker")
    return records.where(f.col("topic").startswith(REVIVE_PREFIX) & ~known).select(
        f.col("queue_id").alias("revive_queue_id"),
        f.col("queue_offset").alias("revive_offset"),
        "log_offset",
        "store_timestamp_ms",
        f.lit("other").alias("kind"),
        f.lit(0).alias("message_count"),
        f.lit(None).cast("int").alias("queue_id"),
        f.lit(None).cast("int").alias("generation"),
        *(f.lit(None).cast("bigint").alias(name) for name in numbers),
        *(f.lit(None).cast("string").alias(name) for name in texts),
    )


def _or_null(text: Column) -> Column:
    return f.when(text != "", text)


def _retry_index(records: DataFrame) -> DataFrame:
    return _with_message_id(records.where(f.col("topic").startswith(RETRY_PREFIX))).select(
        "*",
        _long(_property("1ST_POP_TIME")).alias("first_pop_time_ms"),
        _property("__RETRY_REASON").alias("reason"),
        _int(_property("__ORIGIN_QUEUE_ID")).alias("origin_queue_id"),
    )


def _dlq_index(records: DataFrame) -> DataFrame:
    dead = records.where(f.col("topic").startswith(DEAD_LETTER_PREFIX))
    return _with_message_id(dead).select(
        "*",
        f.expr(f"substring(topic, {len(DEAD_LETTER_PREFIX) + 1})").alias("consumer_group"),
        _property("DLQ_ORIGIN_TOPIC").alias("origin_topic"),
        _property("DLQ_ORIGIN_MESSAGE_ID").alias("origin_message_id"),
        _property("DLQ_REASON").alias("reason"),
        _int(_property("DLQ_ATTEMPTS")).alias("attempts"),
    )


def _redrives(records: DataFrame) -> DataFrame:
    return records.where(f.col("topic").startswith(_REDRIVE_PREFIX)).select(
        f.expr(f"substring(topic, {len(_REDRIVE_PREFIX) + 1})").alias("consumer_group"),
        f.get_json_object("body", "$.o").cast("bigint").alias("dead_letter_offset"),
        "log_offset",
        "store_timestamp_ms",
        "previous_log_offset",
    )


def _timer_index(records: DataFrame) -> DataFrame:
    of_level = f.col("topic") == LEVELS_TOPIC
    kind = f.when(of_level, "level").when(_property("TIMER_DEL_UNIQKEY").isNotNull(), "recall")
    waiting = records.where(f.col("topic").isin(TIMER_TOPIC, LEVELS_TOPIC))
    return _with_message_id(waiting).select(
        "*",
        kind.otherwise("parked").alias("kind"),
        _long(_property("TIMER_OUT_MS")).alias("due_ms"),
        f.when(of_level, f.col("queue_id") + 1).alias("level"),
        _property("REAL_TOPIC").alias("real_topic"),
        _int(_property("REAL_QID")).alias("real_queue_id"),
        f.coalesce(_int(_property("TIMER_ROLL_TIMES")), f.lit(0)).alias("roll_count"),
    )


def _timer_ends(records: DataFrame) -> DataFrame:
    mark = _property("TIMER_DEL_UNIQKEY").isNotNull()
    parked = f.col("topic") == TIMER_TOPIC
    kind = f.when(parked & mark, "recalled").when(parked, "rolled").otherwise("delivered")
    of = _property("__TIMER_OF")
    ended = records.where(of.isNotNull()).select(
        "*",
        kind.alias("kind"),
        _int(f.regexp_extract(of, "^([0-9]+)@", 1)).alias("level"),
        f.explode(f.split(f.regexp_replace(of, "^[0-9]+@", ""), ",")).alias("offset_text"),
    )
    ended = ended.withColumn("ended_offset", _long(f.col("offset_text")))
    return ended.where(f.col("ended_offset").isNotNull())


def _half_messages(records: DataFrame) -> DataFrame:
    origin = f.split(_property("__HALF_ORIGIN"), "@")
    prepared = _long(_property("TRAN_PREPARED_QUEUE_OFFSET"))
    again = _property("__HALF_ORIGIN").isNotNull()
    log_offset = f.when(again, origin[1].cast("bigint")).when(
        prepared.isNull(), f.col("log_offset")
    )
    return _with_message_id(records.where(f.col("topic") == HALF_TOPIC)).select(
        "*",
        _or_null(_property("REAL_TOPIC")).alias("real_topic"),
        _int(_property("REAL_QID")).alias("real_queue_id"),
        f.coalesce(origin[0].cast("bigint"), prepared, "queue_offset").alias("origin_offset"),
        f.when(log_offset >= 0, log_offset).alias("origin_log_offset"),
        f.coalesce(_int(_property("TRANSACTION_CHECK_TIMES")), f.lit(0)).alias("check_count"),
    )


def _half_ends(records: DataFrame) -> DataFrame:
    settled = f.split(_property("__SETTLED"), "@")
    ops = records.where(f.col("topic") == HALF_OP_TOPIC)
    ops = ops.withColumn("half_text", f.explode(f.split("body", ",")))
    return ops.where(f.col("half_text") != "").select(
        f.col("half_text").cast("bigint").alias("half_offset"),
        f.coalesce(_mapped(settled[0], _OUTCOMES), f.lit("unknown")).alias("outcome"),
        f.when(settled[1].cast("bigint") >= 0, settled[1].cast("bigint")).alias("origin_offset"),
        f.when(settled[2].cast("bigint") >= 0, settled[2].cast("bigint")).alias(
            "origin_log_offset"
        ),
        "log_offset",
        "store_timestamp_ms",
        "previous_log_offset",
    )


def _mapped(value: Column, table: Mapping[str, str]) -> Column:
    found = f.lit(None).cast("string")
    for key, name in table.items():
        found = f.when(value == key, name).otherwise(found)
    return found
