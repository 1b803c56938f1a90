"""A snapshot from the files of a stopped or copied broker, ours or RocketMQ's: a second opinion.

    python -m popmq_pipelines.jobs.decode --data-dir DIR --out DIR [--compare SNAPSHOT]
    spark-submit .../jobs/decode.py the same

Reads CommitLog and ConsumeQueue in Spark, each file by a task of its own, and makes the tables of
a snapshot by Spark's functions: it shares the codec of a record with the exporter, nothing else.
`reconcile` reads what it writes. --compare holds it against a snapshot that an exporter made.

Exit codes: 0 done and equal, 1 they differ, 2 it could not be run, 70 it crashed.
"""

import argparse
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from popmq_broker.core.store.snapshot_id import make_id
from popmq_common.records.names import REVIVE_PREFIX
from popmq_pipelines.decode import entry_check, record_tables, snapshot_diff, store_files
from popmq_pipelines.export import watermarks
from popmq_pipelines.export.log_reader import flushed_mark
from popmq_pipelines.export.record_rows import offset_rows
from popmq_pipelines.snapshot import manifest as manifests
from popmq_pipelines.snapshot.columns import SCHEMA_VERSION, SNAPSHOT_TABLES
from popmq_pipelines.snapshot.manifest import MANIFEST, Manifest
from popmq_pipelines.snapshot.schemas import struct
from popmq_pipelines.tables import opened_snapshot, session
from popmq_pipelines.tables.results import taken

CRASHED: Final = 70
PROBLEMS_MAX: Final = 20
"""Of one kind."""


class CannotDecode(Exception):
    """There is nothing to decode, or the snapshot exists already."""


def decode(
    spark: SparkSession, data_dir: Path, into: Path, snapshot_id: str | None = None
) -> Manifest:
    """Nothing in `data_dir` is touched. Raises `CannotDecode`, `OSError`."""
    _check(data_dir, into)
    into.mkdir(parents=True, exist_ok=True)
    marks = watermarks.found(data_dir)
    raw = store_files.keep(store_files.read_records(spark, data_dir), into, "records")
    records = entry_check.with_previous(raw.where(f.col("problem").isNull()))
    start = store_files.log_start(data_dir)
    ends = taken(_ends(records), 1)[0]
    log_end = ends["log_end"] or start
    entries = store_files.keep(store_files.read_entries(spark, data_dir), into, "entries")
    entries = entry_check.in_the_log(entries, start, log_end)
    problems = [*marks.problems, *_problems(raw, records, entries)]
    if log_end < max(marks.flushed, flushed_mark(data_dir)):
        problems.append(f"the log ends at {log_end}, but it was on disk up to {marks.flushed}")
    tables = record_tables.tables(records)
    tables["consume_offsets"] = _offsets(spark, marks)
    tables["queue_watermarks"] = entry_check.watermarks(entries)
    tables["queue_faults"] = spark.createDataFrame([], struct("queue_faults"))  # told as problems
    files = {name: store_files.write_table(tables[name], into, name) for name in SNAPSHOT_TABLES}
    store_files.drop_kept(into)
    as_of_ms = marks.as_of_ms or ends["last_ms"] or 0
    broker, cluster = ends["broker"] or "", ends["cluster"] or ""
    manifest = Manifest(
        schema_version=SCHEMA_VERSION,
        code_version=manifests.code_version(),
        snapshot_id=snapshot_id or make_id(broker, as_of_ms, log_end),
        broker=broker,
        cluster=cluster,
        log_start=start,
        log_from=start,
        log_end=log_end,
        log_last=-1 if ends["log_last"] is None else ends["log_last"],
        log_last_sha256="",  # nothing goes on from a decoded one
        log_first_ms=ends["first_ms"] or 0,
        offsets_log_end=marks.table.log_end,
        as_of_ms=as_of_ms,
        taken_ms=marks.taken_ms,
        running_since_ms=marks.running_since_ms,
        problems=problems,
        files=files,
    )
    (into / f"{MANIFEST}.tmp").write_bytes(manifests.encode(manifest))
    (into / f"{MANIFEST}.tmp").replace(into / MANIFEST)
    return manifest


def compare(spark: SparkSession, one: Path, other: Path) -> dict[str, dict[str, int]]:
    """Table → rows that only one of two snapshots has; tables that agree are missing. Raises
    `CannotDecode`: one of them is not whole."""
    snapshots = [opened_snapshot.open_snapshot(folder) for folder in (one, other)]
    for snapshot in snapshots:
        if snapshot.problems:
            raise CannotDecode(f"{snapshot.folder}: {'; '.join(snapshot.problems)}")
    first, second = (opened_snapshot.read_tables(spark, snapshot) for snapshot in snapshots)
    found = {}
    for table in SNAPSHOT_TABLES:
        counts = snapshot_diff.counts(table, first[table], second[table])
        (row,) = taken(counts, 1)
        if row["only_first"] or row["only_second"]:
            found[table] = row
    return found


def _check(data_dir: Path, into: Path) -> None:
    if not (data_dir / "commitlog").is_dir():
        raise CannotDecode(f"{data_dir} is no data directory: it has no commitlog/")
    if not (data_dir / "consumequeue").is_dir():
        raise CannotDecode(f"{data_dir} has no consumequeue/: export needs none, this does")
    if into.resolve().is_relative_to(data_dir.resolve()):
        raise CannotDecode(f"{into} is inside the data directory; choose another place")
    if (into / MANIFEST).exists():
        raise CannotDecode(f"{into} holds a snapshot already; choose another directory")


def _ends(records: DataFrame) -> DataFrame:
    """One row: what the manifest says of all records."""
    of_journal = f.col("topic").startswith(REVIVE_PREFIX)
    broker = f.coalesce(
        f.get_json_object("body", "$.bn"), f.get_json_object("body", "$.brokerName")
    )
    at = f.col("log_offset")
    cluster = f.expr(f"substring(topic, {len(REVIVE_PREFIX) + 1})")
    return records.agg(
        f.max(at + f.col("size_bytes")).alias("log_end"),
        f.max(at).alias("log_last"),
        f.min_by("store_timestamp_ms", at).alias("first_ms"),
        f.max("store_timestamp_ms").alias("last_ms"),
        f.max_by(broker, f.when(of_journal & (broker != ""), at)).alias("broker"),
        f.max_by(cluster, f.when(of_journal, at)).alias("cluster"),
    )


def _problems(raw: DataFrame, records: DataFrame, entries: DataFrame) -> list[str]:
    """What files say against each other, or do not say at all."""
    told = raw.where(f.col("problem").isNotNull()).select("problem")
    problems = [str(row["problem"]) for row in taken(told, PROBLEMS_MAX)]
    silent = taken(record_tables.undecodable(records), PROBLEMS_MAX)
    problems += [f"the journal at log offset {row['log_offset']} says nothing" for row in silent]
    for text, frame in (
        ("an entry without its record", entry_check.entries_without_record(records, entries)),
        ("a record without entry", entry_check.records_without_entry(records, entries)),
    ):
        for row in taken(frame, PROBLEMS_MAX):
            place = f"{row['topic']} queue {row['queue_id']} offset {row['queue_offset']}"
            problems.append(f"{text}: {place}, log offset {row['log_offset']}")
    return problems


def _offsets(spark: SparkSession, marks: watermarks.Watermarks) -> DataFrame:
    return spark.createDataFrame(list(offset_rows(marks.table)), struct("consume_offsets"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m popmq_pipelines.jobs.decode")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a new directory")
    parser.add_argument("--snapshot-id", help="default: broker, time and end of the log")
    parser.add_argument("--compare", type=Path, help="a snapshot of the same directory")
    options = parser.parse_args(arguments)
    try:
        spark = session.start("popmq-decode", os.environ)
        try:
            manifest = decode(spark, options.data_dir, options.out, options.snapshot_id)
            differs = compare(spark, options.out, options.compare) if options.compare else {}
        finally:
            spark.stop()
    except (CannotDecode, session.JavaMissing, OSError) as wrong:
        print(f"decode: {wrong}", file=sys.stderr)
        return 2
    rows = {table: told["rows"] for table, told in manifest.files.items()}
    told = {"snapshotId": manifest.snapshot_id, "rows": rows, "problems": manifest.problems}
    print(json.dumps({**told, "differs": differs}))
    return 1 if differs else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:
        traceback.print_exc()
        sys.exit(CRASHED)
