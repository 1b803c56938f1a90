"""Whether the filter that was told for a message rejects it; what it lets through was skipped.

A tag filter is judged by Spark's own functions. An SQL filter is judged by the broker's own code,
in Python, of the few rows that only such a filter can explain: what an expression means is told in
one place alone.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from popmq_broker.core.filters.sql_filter import parse_sql
from popmq_common.errors import IllegalFilter
from popmq_common.records import properties as names
from popmq_pipelines.audit.leases import GROUP_QUEUE, MESSAGE
from popmq_pipelines.frames.partitioning import union

_ASKED: Final = {
    "message_id": names.UNIQ_KEY,
    "tags": names.TAGS,
    "message_group": names.SHARDING_KEY,
}
"""Columns of properties that are not in `more_properties`."""
_SEPARATOR: Final = r"\|\|"


def unexplained(
    lacking: DataFrame,
    passes: DataFrame,
    offsets: DataFrame,
    *,
    since: int | None,
    whole_log: bool,
) -> DataFrame:
    """Of messages that a group went over, those that nothing told explains. `lacking` has
    `MESSAGE`, the properties, the filter in force, as `offsets` have it, and `moved_at`: what was
    told before says nothing. `whole_log`: all that was told is there."""
    told = passes.where(F.col("log_offset") >= F.lit(since)).select(
        *GROUP_QUEUE,
        F.col("from_offset").alias("told_from"),
        F.col("log_offset").alias("told_at"),
        F.struct("filter_kind", "filter").alias("way"),
    )
    applies = (F.col("told_from") <= F.col("queue_offset")) & (F.col("told_at") > F.col("moved_at"))
    ways = (
        lacking.select(*MESSAGE, "moved_at")
        .join(F.broadcast(told), on=GROUP_QUEUE, how="inner")
        .where(applies)
        .groupBy(*MESSAGE)
        .agg(F.max_by("way", "told_at").alias("way"))
    )
    # Without a record the filter in force: retention has deleted the record that told it.
    in_force = F.struct("filter_kind", "filter")
    judged = lacking.join(ways, on=MESSAGE, how="left").withColumn(
        "way", F.coalesce("way", F.when(F.lit(not whole_log), in_force))
    )
    kind = F.col("way.filter_kind")
    by_tag = judged.where(kind.isNull() | ((kind == "tags") & _has_tag()))
    by_sql = judged.where(kind == "sql")
    kinds = union(passes.select("filter_kind"), offsets.select("filter_kind"))
    if kinds.where(F.col("filter_kind") == "sql").take(1):
        return by_tag.unionByName(_let_through(by_sql))
    return by_tag


def _has_tag() -> Column:
    wanted = F.transform(F.split("way.filter", _SEPARATOR), lambda tag: F.trim(tag))
    return F.coalesce(F.array_contains(wanted, F.col("tags")), F.lit(False))


def _let_through(rows: DataFrame) -> DataFrame:
    return rows.mapInArrow(_matching, rows.schema)


def _matching(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of the batches whose filter lets them through."""
    for batch in batches:
        asked = batch.select(["way", "more_properties", *_ASKED]).to_pylist()
        yield batch.filter(pa.array([_matches(row) for row in asked], pa.bool_()))


def _matches(row: dict[str, object]) -> bool:
    way = row["way"]
    assert isinstance(way, dict)
    own = {name: str(row[column]) for column, name in _ASKED.items() if row[column] is not None}
    text = names.encode(own, 1 << 20) + str(row["more_properties"] or "").encode()
    try:
        return parse_sql(way["filter"]).matches(text)
    except IllegalFilter:  # no broker takes it: nothing can have been rejected by it
        return True
