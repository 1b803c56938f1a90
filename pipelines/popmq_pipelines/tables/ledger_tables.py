"""The rows that the ledger keeps: linked tables of snapshots, and what runs left for the next."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from popmq_pipelines.audit.epochs import since
from popmq_pipelines.frames.partitioning import in_one_part, together
from popmq_pipelines.snapshot.schemas import struct
from popmq_pipelines.tables.ledger import Epoch

KEPT: Final = (
    "commitlog_index",
    "pop_checkpoints",
    "pop_acks",
    "position_moves",
    "passes",
    "group_settings",
    "owners",
    "timer_index",
    "timer_ends",
    "half_messages",
    "half_ends",
    "redrives",
    "queue_faults",
)
"""Tables that tell what happened; the others tell how things are, and only the newest counts."""


def folder(out: Path) -> Path:
    return out / "ledger"


def keep_files(out: Path, number: int, table: str, files: Sequence[Path]) -> None:
    """Have these files of a snapshot in the ledger, in the order of the log; without a second copy
    where the disk allows it."""
    kept = place(out, number) / table
    if not files:  # an older version did not write the table
        return
    kept.mkdir(parents=True)
    for i, file in enumerate(files):
        target = kept / f"part-{i:05}.parquet"
        try:
            os.link(file, target)
        except OSError:  # another disk, or one without links
            shutil.copyfile(file, target)


def keep_rows(out: Path, number: int, table: str, rows: DataFrame) -> None:
    rows.write.parquet(str(place(out, number) / table))


def drop(out: Path, number: int) -> None:
    shutil.rmtree(place(out, number), ignore_errors=True)


def size_bytes(out: Path, number: int) -> int:
    files = (path for path in place(out, number).rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files)


def rows(spark: SparkSession, out: Path, table: str, epochs: Sequence[Epoch]) -> list[DataFrame]:
    """For each of these epochs the rows that were new to it."""
    return [since(read(spark, out, table, [one.number]), one.log_from) for one in epochs]


def write(out: Path, number: int, name: str, frame: DataFrame) -> None:
    """`name` of columns.LEDGER_TABLES."""
    in_one_part(frame).write.mode("overwrite").parquet(str(place(out, number) / name))


def read(spark: SparkSession, out: Path, name: str, numbers: Sequence[int]) -> DataFrame:
    places = [str(place(out, one) / name) for one in numbers if (place(out, one) / name).is_dir()]
    if not places:  # an older version did not leave all of them
        return spark.createDataFrame([], struct(name))
    return together(spark.read.schema(struct(name)).parquet(*places))


def place(out: Path, number: int) -> Path:
    """Where the tables of an epoch lie."""
    return folder(out) / f"{number:06}"
