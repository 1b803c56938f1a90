"""What clients have counted against what brokers have: of each minute how many messages, and which.

sent and not stored            answered OK, and no broker has them
sent, and others stored        as many are stored, but not the same ones
stored and not sent            of a client that has told all of the minute: more than it has sent
received without lease         more than were leased to the group
received, and others leased    as many were leased, but not the same ones
acked without ack              answered OK, and the message has no ack in any journal

A client's messages are known by the beginning of their ids, which no other client has. The minute
of what was sent is that of its born time, of what was received that of its pop time: both are told
by client and broker alike. What a client claims must be among what brokers have, so reports that
are missing hide something, but accuse nobody. All frames have the column `broker`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from popmq_common.records.count_report import DIGEST_MAX, PREFIX_CHARS
from popmq_common.records.names import HALF_TOPIC, LEVELS_TOPIC, RETRY_PREFIX, TIMER_TOPIC
from popmq_common.records.properties import NAME_END, REAL_TOPIC, VALUE_END

MINUTE_MS: Final = 60_000
SETTLED_AFTER_MS: Final = 600_000
"""So long after a minute nothing of it is on its way any more, if a client goes on counting."""
SENT_BY: Final = ["id_prefix", "topic", "minute_ms"]
TAKEN_BY: Final = ["consumer_group", "topic", "minute_ms"]
_INNER: Final = "^(%|rmq_sys_|RMQ_SYS_|SCHEDULE_TOPIC_|TRANS_CHECK_)"
"""Topics of copies, and of the brokers' own."""
_HANDED_OUT: Final = ["broker", "topic", "consumer_group", "queue_id", "queue_offset"]
_LEASE: Final = [*_HANDED_OUT, "pop_time_ms", "generation"]
_PLACE: Final = ["broker", "topic", "queue_id", "queue_offset"]
_REAL_TOPIC: Final = f"(?:^|{VALUE_END}){REAL_TOPIC}{NAME_END}([^{VALUE_END}]+)"


def told_once(counts: DataFrame, reports: DataFrame) -> DataFrame:
    """Rows of reports that count, with the prefix; one that was told twice counts once."""
    chosen = reports.groupBy("client_id", "sequence").agg(
        F.min(F.struct("broker", "log_offset")).alias("place"),
        F.first("id_prefix").alias("id_prefix"),
    )
    places = chosen.select("client_id", "id_prefix", "place.broker", "place.log_offset")
    return counts.join(
        F.broadcast(places), on=["client_id", "broker", "log_offset"], how="inner"
    ).select(counts["*"], "id_prefix")


def stored(index: DataFrame, prefixes: DataFrame) -> DataFrame:
    """By `SENT_BY`: `stored` messages and their digest. One that waits, or is out of sight, is
    stored; one that a repeated try has stored twice is one message. `prefixes`: of who counts."""
    mine = _sent(index).join(F.broadcast(prefixes), on="id_prefix", how="left_semi")
    return mine.groupBy(*SENT_BY).agg(F.count("*").alias("stored"), _digest())


def _sent(index: DataFrame) -> DataFrame:
    """Each message that a client has sent, once; copies and inner topics are none of its doing."""
    waits = F.col("topic").isin(TIMER_TOPIC, LEVELS_TOPIC, HALF_TOPIC)
    real = F.regexp_extract("more_properties", _REAL_TOPIC, 1)
    named = F.col("message_id").isNotNull() & F.col("first_pop_time_ms").isNull()
    return (
        index.where(named)
        .select(
            F.substring("message_id", 1, PREFIX_CHARS).alias("id_prefix"),
            F.when(waits, real).otherwise(F.col("topic")).alias("topic"),
            _minute("born_timestamp_ms").alias("minute_ms"),
            "message_id",
        )
        .where((F.col("topic") != "") & ~F.col("topic").rlike(_INNER))
        .distinct()
    )


def taken(leases: DataFrame, index: DataFrame, column: str) -> DataFrame:
    """By `TAKEN_BY`: these leases, as `column`; the digest of their messages; `nameless`: how many
    of them have no message id."""
    prefix = F.concat(F.lit(RETRY_PREFIX), "consumer_group", F.lit("_"))
    consumed = F.when(
        F.col("topic").startswith(prefix),
        F.expr(f"substring(topic, length(consumer_group) + {len(RETRY_PREFIX) + 2})"),
    ).otherwise(F.col("topic"))
    named = leases.join(index.select(*_PLACE, "message_id"), on=_PLACE, how="left")
    return (
        named.withColumn("topic", consumed)
        .withColumn("minute_ms", _minute("pop_time_ms"))
        .groupBy(*TAKEN_BY)
        .agg(
            F.count("*").alias(column),
            _digest(),
            F.count_if(F.col("message_id").isNull()).alias("nameless"),
        )
    )


def leases(checkpoints: DataFrame, acks: DataFrame) -> DataFrame:
    """Each once: `was_handed_out`, or made by a change or a nack; and `is_acked`, its message. Who
    changes a lease writes the new one first, and then an ack of the old one."""
    ended = acks.where(~F.col("expired")).groupBy(*_LEASE).agg(F.min("log_offset").alias("ack_at"))
    of_message = Window.partitionBy(*_HANDED_OUT).orderBy("at", "generation")
    changed_before = F.coalesce(F.lag("ack_at").over(of_message) > F.col("at"), F.lit(False))
    changed_later = F.coalesce(F.lead("at").over(of_message) < F.col("ack_at"), F.lit(False))
    of_consumer = F.col("ack_at").isNotNull() & ~changed_later
    return (
        checkpoints.groupBy(*_LEASE)
        .agg(F.min("log_offset").alias("at"))
        .join(ended, on=_LEASE, how="left")
        .withColumn("was_handed_out", ~changed_before)
        .withColumn("acked_here", of_consumer)
        .withColumn("is_acked", F.max("acked_here").over(Window.partitionBy(*_HANDED_OUT)))
        .select(*_LEASE, "was_handed_out", "is_acked")
    )


def _minute(column: str) -> Column:
    return (F.floor(F.col(column) / MINUTE_MS) * MINUTE_MS).cast("bigint")


def _digest() -> Column:
    """As clients make it: the CRC-32 of each id, added up."""
    of_id = F.crc32(F.encode("message_id", "UTF-8"))
    return F.coalesce(F.sum(of_id), F.lit(0)).bitwiseAND(F.lit(DIGEST_MAX)).alias("digest")


def claimed(rows: DataFrame, by: list[str], *kinds: str) -> DataFrame:
    """For each of `by` the messages and the digest of each kind, as the clients tell it."""
    added = []
    for kind in kinds:
        is_kind = F.col("counted_as") == kind
        added += [
            F.coalesce(F.sum(F.when(is_kind, F.col("message_count"))), F.lit(0)).alias(kind),
            F.coalesce(F.sum(F.when(is_kind, F.col("digest"))), F.lit(0))
            .bitwiseAND(F.lit(DIGEST_MAX))
            .alias(f"{kind}_digest"),
        ]
    return rows.where(F.col("counted_as").isin(*kinds)).groupBy(*by).agg(*added)


def of_producers(claims: DataFrame, facts: DataFrame, complete: DataFrame) -> DataFrame:
    """Every minute with what was sent and stored, and the `kind` of its finding, null: it agrees.
    `complete`: by prefix, the minute up to which the client has told all (`told_until_ms`)."""
    both = (
        claims.join(facts, on=SENT_BY, how="full")
        .join(F.broadcast(complete), on="id_prefix", how="left")
        .na.fill(0)
    )
    known = F.col("sent") + F.col("unknown") + F.col("refused")
    open_digest = F.col("sent_digest") + F.col("unknown_digest") + F.col("refused_digest")
    is_all = F.col("stored") == known
    wrong_all = open_digest.bitwiseAND(F.lit(DIGEST_MAX)) != F.col("digest")
    wrong_sent = (F.col("stored") == F.col("sent")) & (F.col("sent_digest") != F.col("digest"))
    told_all = F.col("minute_ms") + MINUTE_MS <= F.col("told_until_ms")
    kind = (
        F.when(F.col("stored") < F.col("sent"), "sent and not stored")
        .when(wrong_sent | (is_all & wrong_all), "sent, and others stored")
        .when(told_all & (F.col("stored") > known), "stored and not sent")
    )
    surplus = F.when(F.col("stored") > known, F.col("stored") - known)
    count = F.coalesce(surplus, F.greatest(F.col("sent") - F.col("stored"), F.lit(1)))
    return both.withColumn("kind", kind).withColumn("finding_count", count)


def of_consumers(
    claims: DataFrame, facts: DataFrame, claim: str, fact: str, more: str, others: str
) -> DataFrame:
    """Every minute in which clients say that they have `claim`, and what brokers have, `fact`."""
    both = claims.join(facts, on=TAKEN_BY, how="left").na.fill(0)
    differ = (F.col(claim) == F.col(fact)) & (F.col(f"{claim}_digest") != F.col("digest"))
    kind = F.when(F.col(claim) > F.col(fact), more).when(differ & (F.col("nameless") == 0), others)
    count = F.greatest(F.col(claim) - F.col(fact), F.lit(1))
    return both.withColumn("kind", kind).withColumn("finding_count", count)


def not_counting(index: DataFrame, prefixes: DataFrame) -> DataFrame:
    """By topic, stored messages of clients that report nothing: official ones, and older ones."""
    return (
        _sent(index)
        .join(F.broadcast(prefixes), on="id_prefix", how="left_anti")
        .groupBy("topic")
        .agg(F.count("*").alias("stored"))
    )
