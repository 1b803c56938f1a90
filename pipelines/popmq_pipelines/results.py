"""Where the tables of an audit lie, and how: the same rows always make the same bytes.

    OUT/T/snapshot_id=S/part-00000.parquet …    T of columns.AUDIT_TABLES

Rows are dealt out by the hash of their message's place, in as many files as their count asks for,
and sorted inside; nothing depends on how many tasks there are, nor on the JVM (`parquet_footer`).
A partition is written beside and then put in place.
"""

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from popmq_pipelines import parquet_footer
from popmq_pipelines.columns import AUDIT_TABLES
from popmq_pipelines.manifest import digest
from popmq_pipelines.schemas import struct
from popmq_pipelines.transforms import findings
from popmq_pipelines.transforms.queues import PLACE

ORDER: Final[Mapping[str, list[str]]] = {
    "recon_message_state": ["topic", "consumer_group", "queue_id", "queue_offset"],
    "recon_gaps": findings.ORDER,
    "recon_duplicates": findings.ORDER,
    "recon_revive": ["queue_id"],
    "recon_balance": ["topic", "consumer_group", "minute_ms"],
    "recon_latency": ["topic", "consumer_group", "minute_ms", "span"],
    "recon_run": ["verdict"],
}
"""What makes a row of the table different from all others."""

OF_RUN: Final = ("recon_revive", "recon_run")
"""Tables about a run; the others are about the messages of an epoch."""

FINDINGS: Final = ("recon_gaps", "recon_duplicates")

ROWS_PER_FILE: Final = 1_000_000
BLOCK_BYTES: Final = 16 << 20
"""Of a row group. The default changes with the memory there is, and so would the bytes."""


def write(
    out: Path, table: str, frame: DataFrame, targets: Mapping[int, str], *, row_count: int = 0
) -> None:
    """`targets`: epoch → snapshot id; each gets its rows of `frame`, which has an `epoch`, and
    loses what was there. `row_count`: about how many there are."""
    staging = out / f".{table}.staging"
    shutil.rmtree(staging, ignore_errors=True)
    file_count = 1 + row_count // ROWS_PER_FILE
    dealt = frame.repartition(file_count, *PLACE) if file_count > 1 else frame.repartition(1)
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
    frame.repartition(1).sortWithinPartitions(*ORDER[table]).write.parquet(str(staging))
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
    return reader.parquet(*files) if files else spark.createDataFrame([], struct(table))


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
