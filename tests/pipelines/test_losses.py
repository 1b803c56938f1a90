"""A broker that comes back with less than was audited: never PASS, and never the old PASS again."""

import shutil
from pathlib import Path

import pytest
from harness.audit import healthy
from harness.log_writer import LogWriter
from pyspark.sql import SparkSession

from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.jobs.backfill import backfill
from popmq_pipelines.jobs.reconcile import GRACE_MS

pytestmark = [
    pytest.mark.pipelines,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("few_rows"),
]
LOST = {"log went back": 1}


class Audited:
    """A broker's directory, its snapshots, and their audit."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.log = LogWriter(folder / "data")
        healthy(self.log)
        (report,) = self.audit("s1")
        assert report.verdict is AuditVerdict.PASS

    def audit(self, snapshot_id: str) -> list[Report]:
        export(self.log.data_dir, self.folder / "snapshots" / snapshot_id, snapshot_id)
        return self.audit_again()

    def audit_again(self) -> list[Report]:
        return backfill(
            self.spark,
            self.folder / "snapshots",
            self.folder / "out",
            since=None,
            until=None,
            grace_ms=GRACE_MS,
        )

    def wipe(self) -> None:
        """As a broker starts on an empty disk."""
        now_ms = self.log.now_ms
        shutil.rmtree(self.log.data_dir)
        self.log = LogWriter(self.log.data_dir, now_ms=now_ms)


@pytest.fixture
def audited(spark: SparkSession, tmp_path: Path) -> Audited:
    return Audited(spark, tmp_path)


def test_a_broker_that_came_back_empty_fails(audited: Audited) -> None:
    end = audited.log.end
    audited.wipe()
    (report,) = audited.audit("s2")
    assert report.verdict is AuditVerdict.FAIL
    assert report.finding_counts == LOST
    assert f"ended at log offset {end}" in report.problems[0]
    (again,) = audited.audit_again()
    assert again.verdict is AuditVerdict.FAIL


def test_a_log_that_has_lost_its_end_fails(audited: Audited) -> None:
    last = sorted((audited.log.data_dir / "commitlog").iterdir())[-1]
    last.unlink()
    (report,) = audited.audit("s2")
    assert (report.verdict, report.finding_counts) == (AuditVerdict.FAIL, LOST)


def test_a_broker_that_came_back_empty_and_has_grown_since_fails(audited: Audited) -> None:
    """Its log is longer than what was audited, and is another one."""
    end = audited.log.end
    audited.wipe()
    audited.log.now_ms += 1_000
    while audited.log.end <= 2 * end:
        healthy(audited.log)
    (report,) = audited.audit("s2")
    assert (report.verdict, report.finding_counts) == (AuditVerdict.FAIL, {"another log": 1})
    assert "is not the one that was audited" in report.problems[0]


def test_an_older_snapshot_that_is_found_later_is_no_loss(audited: Audited) -> None:
    """One that was made before those that were audited."""
    folder = audited.folder / "snapshots"
    old = LogWriter(audited.folder / "before")
    old.send("m0")
    old.save_offsets()
    healthy(audited.log)
    export(old.data_dir, audited.folder / "kept" / "s0", "s0")
    audited.audit("s2")
    made_ms = (folder / "s2" / "manifest.json").read_text()
    text = (audited.folder / "kept" / "s0" / "manifest.json").read_text()
    shutil.copytree(audited.folder / "kept" / "s0", folder / "s0")
    (folder / "s0" / "manifest.json").write_text(dated(text, before=made_ms))
    assert audited.audit_again() == []


def dated(text: str, *, before: str) -> str:
    """A manifest that was made a second before another one."""
    import json

    fields = json.loads(text)
    fields["taken_ms"] = json.loads(before)["taken_ms"] - 1_000
    return json.dumps(fields)
