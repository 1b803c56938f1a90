"""Rows spread over tasks, or kept together where Spark has been told that they are few.

With one shuffle partition every step finds its rows in one task, so nothing need be shuffled:
Spark sees that of a frame which was put together, but not of one that was read from files.
"""

from typing import Final

from pyspark.sql import DataFrame

PARTITIONS: Final = "spark.sql.shuffle.partitions"


def spread(frame: DataFrame, *columns: str) -> DataFrame:
    """By the hash of these columns."""
    return frame.coalesce(1) if few(frame) else frame.repartition(*columns)


def together(frame: DataFrame) -> DataFrame:
    """In one part where rows are few, else as it is."""
    return frame.coalesce(1) if few(frame) else frame


def union(first: DataFrame, *others: DataFrame) -> DataFrame:
    """By the names of their columns. Spark takes the parts of all, so few rows are put together."""
    for other in others:
        first = first.unionByName(other)
    return together(first)


def in_one_part(frame: DataFrame) -> DataFrame:
    """To be written as one file."""
    return frame.coalesce(1) if few(frame) else frame.repartition(1)


def few(frame: DataFrame) -> bool:
    """Whether Spark has been told that rows are few."""
    return frame.sparkSession.conf.get(PARTITIONS) == "1"
