"""python -m audit_scale [MILLIONS …]: the audit of so many messages, each in a Spark of its own.

A row of the table: how long the audit takes, how long a plain read of every column of the same
files, and how the time per row compares with that of the smallest size.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from audit_scale import snapshot
from popmq_pipelines.jobs.reconcile import GRACE_MS, reconcile
from popmq_pipelines.snapshot.columns import SNAPSHOT_TABLES
from popmq_pipelines.snapshot.schemas import struct
from popmq_pipelines.tables import opened_snapshot, session

MASTER: Final = "local[2]"
DRIVER_MEMORY: Final = "4g"
READ: Final = ("commitlog_index", "pop_checkpoints", "pop_acks")
DISK_BYTES_PER_MESSAGE: Final = 500
"""Of the snapshot, what Spark puts aside and the tables: some 70 were seen with a million."""
ONE_SIZE_S: Final = 5_400
MARKS: Final = ("<!-- scale: begin -->", "<!-- scale: end -->")


class Measured(NamedTuple):
    message_count: int
    row_count: int
    audit_s: float
    read_s: float
    verdict: str


def measure(message_count: int) -> Measured:
    """In this process: generate, read plainly, audit."""
    with tempfile.TemporaryDirectory(prefix="popmq-audit-scale-") as folder:
        place = Path(folder) / "snapshot"
        began = time.monotonic()
        snapshot.write(place, message_count)
        tell(f"{message_count:,} messages: the snapshot is written", began)
        spark = session.start(
            "audit-scale",
            os.environ,
            master=MASTER,
            driver_memory=DRIVER_MEMORY,
            settings={"spark.local.dir": folder, session.LITTLE: "0"},
        )
        began = time.monotonic()
        warm_up(spark, Path(folder))
        tell("a small audit, to get warm", began)
        began = time.monotonic()
        for table in READ:
            read_all(spark.read.schema(struct(table)).parquet(str(place / f"{table}.parquet")))
        read_s = time.monotonic() - began
        tell("read plainly", began)
        began = time.monotonic()
        opened = opened_snapshot.open_snapshot(place)
        report = reconcile(spark, opened, Path(folder) / "out", grace_ms=GRACE_MS)
        audit_s = time.monotonic() - began
        tell(f"audited: {report.verdict.value}", began)
        spark.stop()
        rows = sum(int(opened.whole.files[table]["rows"]) for table in SNAPSHOT_TABLES)
        return Measured(message_count, rows, audit_s, read_s, report.verdict.value)


def warm_up(spark: SparkSession, folder: Path) -> None:
    """A small audit, whose rows are spread as those of a large one are: what a JVM does once is no
    time of the rows."""
    place = folder / "warm"
    snapshot.write(place, 10_000)
    reconcile(spark, opened_snapshot.open_snapshot(place), None, grace_ms=GRACE_MS)


def read_all(frame: DataFrame) -> None:
    """Every value of every column, and nothing else: the floor."""
    frame.select(F.bit_xor(F.xxhash64(*frame.columns))).take(1)


def tell(text: str, began: float) -> None:
    print(f"{text} ({time.monotonic() - began:.1f} s)", file=sys.stderr, flush=True)


def table(measured: list[Measured]) -> str:
    heads = "| messages | rows | audit | rows/s | plain read | ratio | time per row |"
    lines = [heads, "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    least = measured[0].audit_s / measured[0].row_count
    for one in measured:
        per_row = one.audit_s / one.row_count / least
        lines.append(
            f"| {one.message_count:,} | {one.row_count:,} | {one.audit_s:.0f} s "
            f"| {one.row_count / one.audit_s:,.0f} | {one.read_s:.1f} s "
            f"| {one.audit_s / one.read_s:.1f} | {per_row:.2f}× |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="audit_scale", description=__doc__)
    parser.add_argument("millions", nargs="*", type=float, default=[2, 5, 10, 20])
    parser.add_argument("--write", type=Path, help="put the table between the marks of this file")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return 0
    counts = [round(millions * 1_000_000) for millions in options.millions]
    needed_bytes = max(counts) * DISK_BYTES_PER_MESSAGE
    folder, free_bytes = tempfile.gettempdir(), shutil.disk_usage(tempfile.gettempdir()).free
    if free_bytes < needed_bytes:
        told = f"{folder} has {free_bytes >> 30} GiB free, {needed_bytes >> 30} may be needed"
        print(f"audit_scale: {told}: set TMPDIR", file=sys.stderr)
        return 2
    measured: list[Measured] = []
    for count in counts:
        words = [sys.executable, "-m", "audit_scale", "--one", str(count)]
        done = subprocess.run(
            words, stdout=subprocess.PIPE, text=True, check=True, timeout=ONE_SIZE_S
        )
        measured.append(Measured(*json.loads(done.stdout.splitlines()[-1])))
        if options.write:
            put(options.write, table(measured))
    print(table(measured))
    return 0 if all(one.verdict == "PASS" for one in measured) else 1


def put(page: Path, told: str) -> None:
    """Between the marks; after each size, so that what was measured is not lost."""
    before, rest = page.read_text().split(MARKS[0])
    page.write_text(f"{before}{MARKS[0]}\n{told}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


if __name__ == "__main__":
    sys.exit(main())
