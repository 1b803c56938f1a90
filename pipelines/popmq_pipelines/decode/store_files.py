"""Which files of a data directory a decoder reads, and where what it made lies.

The paths must be the same for every worker of Spark: a shared disk, or `local[*]`.
"""

import shutil
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from popmq_common.records.record import BLANK_BYTES
from popmq_pipelines.decode import raw_store, record_hashes
from popmq_pipelines.snapshot import manifest as manifests
from popmq_pipelines.snapshot.columns import SNAPSHOT_TABLES

RAW: Final = ".raw"
"""Below the snapshot while it is made: records and entries, read once."""
_RANGES: Final = ("log_offset", "queue_offset")


def read_records(spark: SparkSession, data_dir: Path) -> DataFrame:
    """Of the CommitLog."""
    return _log_files(spark, data_dir).mapInArrow(raw_store.records, raw_store.RECORDS_DDL)


def read_hashes(spark: SparkSession, data_dir: Path) -> DataFrame:
    """Of the CommitLog's records."""
    return _log_files(spark, data_dir).mapInArrow(record_hashes.hashes, record_hashes.HASHES_DDL)


def _log_files(spark: SparkSession, data_dir: Path) -> DataFrame:
    begun = [path for path in _numbered(data_dir / "commitlog") if _is_begun(path)]
    rows = [(str(path), int(path.name), path == begun[-1]) for path in begun]
    return _one_task_each(spark, rows, raw_store.LOG_FILES_DDL)


def read_entries(spark: SparkSession, data_dir: Path) -> DataFrame:
    """Of all ConsumeQueues."""
    rows = [
        (str(path), queue.parent.name, int(queue.name), int(path.name) // 20)
        for topic in sorted((data_dir / "consumequeue").iterdir())
        for queue in _numbered(topic)
        for path in _numbered(queue)
    ]
    files = _one_task_each(spark, rows, raw_store.QUEUE_FILES_DDL)
    return files.mapInArrow(raw_store.entries, raw_store.ENTRIES_DDL)


def log_start(data_dir: Path) -> int:
    """Where the CommitLog's first file begins; 0: there is none."""
    return min((int(path.name) for path in _numbered(data_dir / "commitlog")), default=0)


def keep(frame: DataFrame, folder: Path, name: str) -> DataFrame:
    """The same, from Parquet: what is dear to read is read once."""
    place = str(folder / RAW / name)
    frame.write.mode("overwrite").parquet(place)
    return frame.sparkSession.read.schema(frame.schema).parquet(place)


def drop_kept(folder: Path) -> None:
    shutil.rmtree(folder / RAW, ignore_errors=True)


def write_table(frame: DataFrame, folder: Path, table: str) -> dict[str, Any]:
    """One file in the order of the log, as an exporter writes it; what the manifest says of it."""
    made = folder / f"{table}.made"
    names = [column.name for column in SNAPSHOT_TABLES[table]]
    order = ["log_offset"] if "log_offset" in names else names
    frame.repartition(1).sortWithinPartitions(*order).write.mode("overwrite").parquet(str(made))
    (part,) = made.glob("part-*.parquet")
    path = folder / f"{table}.parquet"
    part.replace(path)
    shutil.rmtree(made)
    return _description(path)


def _description(path: Path) -> dict[str, Any]:
    read = pq.read_metadata(path)
    told: dict[str, Any] = {
        "file": path.name,
        "rows": read.num_rows,
        "bytes": path.stat().st_size,
        "sha256": manifests.digest(path),
    }
    for name in _RANGES:
        ends = _range(read, name)
        told[f"{name}_min"], told[f"{name}_max"] = ends
    return told


def _range(read: Any, name: str) -> tuple[int | None, int | None]:
    """From the statistics of the row groups."""
    at = next((i for i, column in enumerate(read.schema.names) if column == name), None)
    if at is None or not read.num_rows:
        return None, None
    found = [read.row_group(i).column(at).statistics for i in range(read.num_row_groups)]
    return min(one.min for one in found), max(one.max for one in found)


def _one_task_each(spark: SparkSession, rows: list[Any], ddl: str) -> DataFrame:
    if not rows:
        return spark.createDataFrame([], ddl)
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, len(rows)), ddl)


def _numbered(folder: Path) -> list[Path]:
    """In the order of their numbers; empty if there is no such folder."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.name.isascii() and path.name.isdigit()]
    return sorted(found, key=lambda path: int(path.name))


def _is_begun(path: Path) -> bool:
    with open(path, "rb") as file:
        return any(file.read(BLANK_BYTES))
