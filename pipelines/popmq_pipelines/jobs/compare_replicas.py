"""Are the logs of a broker's replicas the same, record by record and byte by byte?

Each file is read by a Spark task of its own. Two logs are compared where both have records: a
replica that lags ends earlier, one whose retention was later begins earlier. A record counts as
committed when a queue's file leads to it or beyond, because nothing above the commit point gets
there. What differs behind that is the tail of a primary that was replaced: it was never shown, and
is cut off when the replica follows again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.decode import store_files
from popmq_pipelines.tables.results import taken

SHOWN_MAX: Final = 20
"""Differences, and problems of one directory."""
HASH_SHOWN: Final = 16
"""Characters."""


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """A replica's log as its directory has it; log offsets in bytes."""

    replica: str
    log_start: int
    log_end: int
    committed_end: int
    """A queue's file leads to the record that ends there; 0: none does."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """A record that two replicas do not have alike, at a place that both have."""

    log_offset: int
    hashes: Mapping[str, str]
    """Replica → SHA-256 of its record; a replica that has no record there is missing."""
    topic: str
    queue_id: int
    queue_offset: int


@dataclass(frozen=True, slots=True)
class Comparison:
    logs: tuple[ReplicaLog, ...]
    compared_from: int
    """Where the last of the logs begins."""
    compared_to: int
    """The first end of a log, or of what is committed."""
    record_count: int
    """Between the two, in each log."""
    difference_count: int
    differences: tuple[Difference, ...]
    """The first ones."""

    @property
    def verdict(self) -> AuditVerdict:
        if self.difference_count:
            return AuditVerdict.FAIL
        if any(log.problems for log in self.logs) or self.compared_to <= self.compared_from:
            return AuditVerdict.INCOMPLETE
        return AuditVerdict.PASS


def compare_replicas(spark: SparkSession, data_dirs: Mapping[str, Path]) -> Comparison:
    """`data_dirs`: replica → its data directory; at least two. Nothing in there is touched."""
    committed = {name: _committed_end(spark, path) for name, path in data_dirs.items()}
    frames = {name: store_files.read_hashes(spark, path) for name, path in data_dirs.items()}
    every = reduce(
        DataFrame.unionByName,
        (frame.withColumn("replica", f.lit(name)) for name, frame in frames.items()),
    ).persist()
    try:
        logs = _logs(every, data_dirs, committed)
        start = max(log.log_start for log in logs)
        shown = max(log.committed_end for log in logs)
        end = min(shown, *(max(log.log_end, log.committed_end) for log in logs))
        there = every.where((f.col("log_offset") >= start) & (f.col("log_offset") < end))
        places = there.groupBy("log_offset").agg(
            f.count("*").alias("replica_count"),
            f.countDistinct("sha256").alias("record_count"),
            f.map_from_entries(f.collect_list(f.struct("replica", f.hex("sha256")))).alias(
                "hashes"
            ),
            *(f.min(name).alias(name) for name in ("topic", "queue_id", "queue_offset")),
        )
        differs = places.where(
            (f.col("replica_count") < len(logs)) | (f.col("record_count") > 1)
        ).persist()
        rows = taken(differs.orderBy("log_offset").limit(SHOWN_MAX), SHOWN_MAX)
        return Comparison(
            logs=tuple(logs),
            compared_from=start,
            compared_to=end,
            record_count=places.count() if end > start else 0,
            difference_count=differs.count(),
            differences=tuple(_difference(row) for row in rows),
        )
    finally:
        every.unpersist()


def _committed_end(spark: SparkSession, data_dir: Path) -> int:
    """Read before the log: a running replica's log has whatever its queues lead to."""
    ends = store_files.read_entries(spark, data_dir).agg(
        f.max(f.col("log_offset") + f.col("size_bytes")).alias("end")
    )
    return int(taken(ends, 1)[0]["end"] or 0)


def _logs(
    every: DataFrame, data_dirs: Mapping[str, Path], committed: Mapping[str, int]
) -> list[ReplicaLog]:
    ends = every.groupBy("replica").agg(
        f.max(f.col("log_offset") + f.col("size_bytes")).alias("log_end"),
        f.slice(f.collect_list("problem"), 1, SHOWN_MAX).alias("problems"),
    )
    found = {row["replica"]: row for row in taken(ends, len(data_dirs))}
    return [
        ReplicaLog(
            replica=name,
            log_start=store_files.log_start(path),
            log_end=int(found[name]["log_end"] or 0) if name in found else 0,
            committed_end=committed[name],
            problems=tuple(found[name]["problems"]) if name in found else ("it has no record",),
        )
        for name, path in data_dirs.items()
    ]


def _difference(row: Mapping[str, Any]) -> Difference:
    return Difference(
        row["log_offset"], row["hashes"], row["topic"], row["queue_id"], row["queue_offset"]
    )


def as_json(comparison: Comparison) -> str:
    return json.dumps({"verdict": comparison.verdict.value, **asdict(comparison)}, indent=1)


def text(comparison: Comparison) -> str:
    """For people."""
    logs, start, end = comparison.logs, comparison.compared_from, comparison.compared_to
    committed_end = max(log.committed_end for log in logs)
    lines = [f"Replicas: {comparison.verdict.value}"]
    for log in logs:
        behind = committed_end - log.log_end
        lag = f", {behind:,} bytes behind what is committed" if behind > 0 else ""
        lines.append(f"  {log.replica}: log from {log.log_start} to {log.log_end}{lag}")
        lines += [f"    incomplete: {problem}" for problem in log.problems]
    if end > start:
        lines.append(f"Compared from {start} to {end}: {comparison.record_count:,} records.")
    else:
        lines.append("No committed record is in all of these logs.")
    for one in comparison.differences:
        lines.append(
            f"  differs at log offset {one.log_offset}:"
            f" {one.topic} queue {one.queue_id} offset {one.queue_offset}"
        )
        lines += [
            f"    {log.replica}: {one.hashes.get(log.replica, 'no such record')[:HASH_SHOWN]}"
            for log in logs
        ]
    if comparison.difference_count > len(comparison.differences):
        lines.append(f"  {comparison.difference_count:,} records differ; these are the first.")
    return "\n".join(lines)
