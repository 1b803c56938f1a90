"""Where the tables of an audit lie, and how: the same rows always make the same bytes.

    OUT/T/snapshot_id=S/part-00000.parquet …    T of columns.AUDIT_TABLES

Rows are dealt out by the hash of their message's place, in as many files as their count asks for,
and sorted inside; nothing depends on how many tasks there are, nor on the JVM (`parquet_footer`).
A partition is written beside and then put in place.
"""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, StringType, StructField

from popmq_pipelines.frames import findings
from popmq_pipelines.frames.partitioning import in_one_part, together
from popmq_pipelines.frames.queues import PLACE
from popmq_pipelines.snapshot import parquet_footer
from popmq_pipelines.snapshot.columns import AUDIT_TABLES
from popmq_pipelines.snapshot.manifest import digest
from popmq_pipelines.snapshot.schemas import struct

ORDER: Final[Mapping[str, list[str]]] = {
    "recon_message_state": ["topic", "consumer_group", "queue_id", "queue_offset"],
    "recon_gaps": findings.ORDER,
    "recon_duplicates": findings.ORDER,
    "recon_revive": ["queue_id"],
    "recon_balance": ["topic", "consumer_group", "minute_ms"],
    "recon_latency": ["topic", "consumer_group", "minute_ms", "span"],
    "recon_times": ["topic", "consumer_group", "span", "attempt", "bin_ms"],
    "recon_traffic": ["topic", "minute_ms"],
    "recon_run": ["verdict"],
}
"""What makes a row of the table different from all others."""

_NEVER: Final[Mapping[DataType, object]] = {
    StringType(): "",
    IntegerType(): 0,
    LongType(): 0,
    BooleanType(): False,
}
"""Values that stand for none, of types that a table has."""

FINDINGS: Final = ("recon_gaps", "recon_duplicates")

ROWS_PER_FILE: Final = 1_000_000
BLOCK_BYTES: Final = 16 << 20
"""Of a row group. The default changes with the memory there is, and so would the bytes."""


@contextmanager
def kept(out: Path, name: str, frame: DataFrame) -> Iterator[DataFrame]:
    """`frame`, worked out once for all who read it inside. It is put into files: no plan behind it
    holds the steps that led to it, Spark knows how many rows there are, and none stay in memory."""
    place = out / f".{name}.kept"
    try:
        frame.write.mode("overwrite").parquet(str(place))
        found = frame.sparkSession.read.schema(frame.schema).parquet(str(place))
        yield together(found.select(*map(_never_null, frame.schema)))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _never_null(field: StructField) -> Column:
    """A column that was read may be null to Spark, and would be written as one that may: other
    bytes. One that cannot be null is said to be so."""
    column = F.col(field.name)
    if field.nullable:
        return column
    return F.coalesce(column, F.lit(_NEVER[field.dataType])).alias(field.name)


def write(
    out: Path, table: str, frame: DataFrame, targets: Mapping[int, str], *, row_count: int = 0
) -> None:
    """`targets`: epoch → snapshot id; each gets its rows of `frame`, which has an `epoch`, and
    loses what was there. `row_count`: about how many there are."""
    staging = out / f".{table}.staging"
    shutil.rmtree(staging, ignore_errors=True)
    file_count = 1 + row_count // ROWS_PER_FILE
    dealt = frame.repartition(file_count, *PLACE) if file_count > 1 else in_one_part(frame)
    (
        dealt.sortWithinPartitions("epoch", *ORDER[table])
        .write.partitionBy("epoch")
        .option("parquet.block.size", BLOCK_BYTES)
        .parquet(str(staging))
    )
    for epoch, snapshot_id in targets.items():
        _put(staging / f"epoch={epoch}", partition(out, table, snapshot_id))
    shutil.rmtree(staging)


def write_run(out: Path, table: str, frame: DataFrame, snapshot_id: str) -> None:
    """Of a table about a run."""
    staging = out / f".{table}.staging"
    shutil.rmtree(staging, ignore_errors=True)
    in_one_part(frame).sortWithinPartitions(*ORDER[table]).write.parquet(str(staging))
    _put(staging, partition(out, table, snapshot_id))


def _put(staged: Path, target: Path) -> None:
    """Files get names that do not change from run to run."""
    fresh = target.with_name(f".{target.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    if staged.is_dir():
        for number, file in enumerate(sorted(staged.glob("part-*.parquet"))):
            parquet_footer.put_in_order(file)
            file.rename(fresh / f"part-{number:05}.parquet")
        shutil.rmtree(staged)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


def read(spark: SparkSession, out: Path, table: str, snapshot_ids: Iterable[str]) -> DataFrame:
    """All rows of these partitions; of those that were never written, none."""
    places = [partition(out, table, one) for one in snapshot_ids]
    files = [str(file) for place in places for file in sorted(place.glob("part-*.parquet"))]
    reader = spark.read.schema(struct(table))
    return together(reader.parquet(*files)) if files else spark.createDataFrame([], struct(table))


def row_count(out: Path, table: str, snapshot_id: str) -> int:
    """By the files' own footers."""
    files = partition(out, table, snapshot_id).glob("part-*.parquet")
    return sum(int(pq.read_metadata(file).num_rows) for file in files)


def clear(out: Path, snapshot_id: str) -> None:
    """Remove what a run on this snapshot left, its verdict first."""
    for table in sorted(AUDIT_TABLES, key=lambda name: name != "recon_run"):
        shutil.rmtree(partition(out, table, snapshot_id), ignore_errors=True)


def run_frame(spark: SparkSession, row: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame([row], schema=struct("recon_run"))


def signature(out: Path, snapshot_ids: Iterable[str], row: Mapping[str, Any]) -> str:
    """SHA-256 over a run's row and the files of these partitions: whether two runs agree."""
    told = hashlib.sha256(repr(sorted(row.items())).encode())
    for snapshot_id in sorted(snapshot_ids):
        for table in sorted(set(AUDIT_TABLES) - {"recon_run"}):
            for file in sorted(partition(out, table, snapshot_id).glob("part-*.parquet")):
                told.update(f"{table} {snapshot_id} {file.name} {digest(file)}\n".encode())
    return told.hexdigest()


def taken(frame: DataFrame, at_most: int) -> list[dict[str, Any]]:
    """The first rows, for people; never more than `at_most`."""
    return [row.asDict() for row in frame.take(at_most)]


def partition(out: Path, table: str, snapshot_id: str) -> Path:
    return out / table / f"snapshot_id={snapshot_id}"
