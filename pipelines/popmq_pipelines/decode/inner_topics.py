"""Settings of groups, owners, counts of clients: from the topics that brokers keep themselves."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from popmq_common.records.names import CATALOG_TOPIC, COUNTS_TOPIC

_COUNTS: Final = (
    "c string, p string, s bigint, f bigint, u bigint, l boolean, n bigint, r array<array<string>>"
)


def group_settings(records: DataFrame) -> DataFrame:
    of_group = (f.col("topic") == CATALOG_TOPIC) & (f.col("properties")["TAGS"] == "group")

    def said(path: str) -> Column:
        return f.get_json_object("body", f"$.v{path}")

    def attribute(name: str) -> Column:
        return said(f".attributes['popmq.{name}']")

    is_deleted = said("").isNull()
    hand_outs = f.coalesce(attribute("max.hand.outs").cast("int"), f.lit(1_000))
    return records.where(of_group).select(
        "*",
        f.get_json_object("body", "$.n").alias("consumer_group"),
        is_deleted.alias("is_deleted"),
        said(".consumeMessageOrderly").cast("boolean").alias("is_fifo"),
        (said(".retryMaxTimes").cast("int") + 1).alias("max_attempts"),
        f.when(~is_deleted, hand_outs).alias("max_hand_outs"),
        attribute("consume.from").alias("consume_from"),
        said(".groupRetryPolicy").alias("retry_policy"),
    )


def owners(records: DataFrame) -> DataFrame:
    kind = f.col("properties")["TAGS"]
    owner = f.get_json_object("body", "$.v.attributes['popmq.owner']")
    return records.where((f.col("topic") == CATALOG_TOPIC) & kind.isin("topic", "group")).select(
        "*",
        kind.alias("kind"),
        f.get_json_object("body", "$.n").alias("name"),
        f.nullif(owner, f.lit("")).alias("owner"),
    )


def _counted(records: DataFrame) -> DataFrame:
    said = records.where(f.col("topic") == COUNTS_TOPIC)
    said = said.withColumn("said", f.from_json("body", _COUNTS))
    return said.select(
        "log_offset",
        "store_timestamp_ms",
        f.col("said.c").alias("client_id"),
        f.col("said.p").alias("id_prefix"),
        f.col("said.s").alias("sequence"),
        f.col("said.f").alias("from_ms"),
        f.col("said.u").alias("until_ms"),
        f.col("said.l").alias("is_last"),
        f.col("said.n").alias("uncounted"),
        f.col("said.r").alias("rows"),
    )


def client_reports(records: DataFrame) -> DataFrame:
    return _counted(records)


def client_counts(records: DataFrame) -> DataFrame:
    each = _counted(records).select("*", f.explode("rows").alias("row"))
    return each.select(
        "client_id",
        "sequence",
        "log_offset",
        f.get("row", f.lit(0)).alias("counted_as"),
        f.get("row", f.lit(1)).alias("topic"),
        f.nullif(f.get("row", f.lit(2)), f.lit("")).alias("consumer_group"),
        f.get("row", f.lit(3)).cast("bigint").alias("minute_ms"),
        f.get("row", f.lit(4)).cast("bigint").alias("message_count"),
        f.get("row", f.lit(5)).cast("bigint").alias("digest"),
    )
