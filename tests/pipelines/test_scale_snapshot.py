"""The snapshot that `make audit-scale` measures with: whole, as this version writes it, and sound.
All checks must look at it, or the figures say less than they seem to."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from audit_scale import snapshot
from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.jobs.reconcile import GRACE_MS, reconcile
from popmq_pipelines.tables import opened_snapshot

pytestmark = [pytest.mark.pipelines, pytest.mark.timeout(600)]


def test_the_snapshot_of_the_benchmark_is_sound(spark: SparkSession, tmp_path: Path) -> None:
    snapshot.write(tmp_path / "s1", 1_000)
    opened = opened_snapshot.open_snapshot(tmp_path / "s1")
    assert opened.problems == ()
    assert opened_snapshot.told_from(opened) == 0  # so skips, order and timers are looked at too
    report = reconcile(spark, opened, tmp_path / "out", grace_ms=GRACE_MS)
    assert (report.verdict, report.lease_states) == (AuditVerdict.PASS, {"acked": 1_024})
