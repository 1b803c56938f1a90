"""Two snapshots of one log, table by table: what only one of them says."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from popmq_pipelines.snapshot.columns import names


def counts(table: str, first: DataFrame, second: DataFrame) -> DataFrame:
    """One row: `only_first`, `only_second`. Rows that are there twice must be there twice."""
    one, other = _comparable(table, first), _comparable(table, second)
    only_first = one.exceptAll(other).agg(f.count("*").alias("only_first"))
    only_second = other.exceptAll(one).agg(f.count("*").alias("only_second"))
    return only_first.crossJoin(only_second)


def differing(table: str, first: DataFrame, second: DataFrame) -> DataFrame:
    """The rows themselves, with `only_in`: 1 or 2."""
    one, other = _comparable(table, first), _comparable(table, second)
    only_first = one.exceptAll(other).withColumn("only_in", f.lit(1))
    return only_first.unionByName(other.exceptAll(one).withColumn("only_in", f.lit(2)))


def _comparable(table: str, frame: DataFrame) -> DataFrame:
    frame = frame.select(*names(table))
    if table == "queue_watermarks":  # a broker also tells of queues that hold nothing
        return frame.where(f.col("max_offset") > f.col("min_offset"))
    return frame
