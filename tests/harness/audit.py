"""A log to write, its audit, and what was found: for tests with Spark."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.log_writer import DEAD, INVISIBLE_MS, RETRY, LogWriter
from pyspark.sql import SparkSession

from popmq_pipelines.audit.verdict import Report
from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.jobs.reconcile import GRACE_MS, reconcile
from popmq_pipelines.tables import opened_snapshot, results

LONG_MS = INVISIBLE_MS + GRACE_MS + 1


@dataclass
class Bench:
    """A log to write, and what the audit says of it."""

    spark: SparkSession
    folder: Path
    log: LogWriter

    @property
    def snapshot(self) -> Path:
        return self.folder / "snapshot"

    @property
    def out(self) -> Path:
        return self.folder / "audit"

    def export(self) -> None:
        export(self.log.data_dir, self.snapshot, "s1")

    def judge(self) -> Report:
        snapshot = opened_snapshot.open_snapshot(self.snapshot)
        return reconcile(self.spark, snapshot, self.out, grace_ms=GRACE_MS)

    def audit(self) -> Report:
        self.export()
        return self.judge()

    def table(self, name: str) -> list[dict[str, Any]]:
        rows = results.read(self.spark, self.out, name, ["s1"]).collect()
        return sorted((row.asDict() for row in rows), key=repr)


def healthy(log: LogWriter) -> None:
    """Acks single and in a batch, a change, a retry, a dead letter, one lease in flight."""
    for i in range(6):
        log.send(f"m{i}")
    lease = log.pop(0, 1, 2, 3)
    log.ack(lease, 0)
    log.ack(lease, 1, 2)
    log.now_ms += INVISIBLE_MS
    copied = log.expire(lease, 3, "m3")
    again = log.pop(copied, topic=RETRY)
    log.now_ms += INVISIBLE_MS
    log.expire(again, copied, "m3", topic=DEAD)
    held = log.pop(4)
    log.now_ms += 5_000
    first = log.change(held, 20_000)
    log.now_ms += 15_000
    log.ack(log.change(first, 20_000))
    log.pass_time(LONG_MS)
    log.pop(5)
    log.save_offsets()


def found(report: Report) -> list[tuple[str, str, str | None, int, int]]:
    return [
        (
            row["kind"],
            row["topic"],
            row["consumer_group"],
            row["queue_id"],
            row["queue_offset"],
        )
        for row in report.findings
    ]
