"""Random lives of a real broker with everything in it: nothing is found, in snapshots that go on
from each other and in one of all. AUDIT_SEEDS="3 4 5" and AUDIT_LIVES=40 choose others."""

import os
from pathlib import Path
from typing import Any

import pytest
from harness import exports
from harness.broker import EngineDriver
from harness.wide_lives import Lives
from pyspark.sql import SparkSession

from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.jobs.backfill import backfill
from popmq_pipelines.jobs.reconcile import GRACE_MS, reconcile
from popmq_pipelines.tables import opened_snapshot

pytestmark = [
    pytest.mark.pipelines,
    pytest.mark.timeout(3_600),
    pytest.mark.usefixtures("few_rows"),
]
SEEDS = [int(seed) for seed in os.environ.get("AUDIT_SEEDS", "1 2").split()]
LIVES = int(os.environ.get("AUDIT_LIVES", "12"))
SNAPSHOTS = 3


@pytest.mark.parametrize("seed", SEEDS)
def test_no_life_is_accused(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}, {LIVES} lives")
    settings: dict[str, Any] = {"segment_bytes": 64 << 10}
    if seed % 2:
        settings |= {"retention_ms": 700_000, "transaction_age_ms_max": 30_000}
    driver = EngineDriver(tmp_path / "broker", export_dir=str(tmp_path / "snapshots"), **settings)
    lives = Lives(driver, seed, LIVES)
    for number in range(SNAPSHOTS):
        lives.go_on(20)
        lives.write_positions()
        if number % 2:
            driver.restart()
        lives.go_on(15)
        driver.retain()
        lives.go_on(5)
        lives.crash()
        lives.go_on(10)
        finished = exports.export(driver)
        assert finished.failure == "", finished.failure
    lives.settle(2 * GRACE_MS)
    exports.export(driver)
    (place,) = (tmp_path / "snapshots").iterdir()
    reports = backfill(spark, place, tmp_path / "out", since=None, until=None, grace_ms=GRACE_MS)
    for report in reports:
        assert (report.verdict, report.findings) == (AuditVerdict.PASS, []), report.problems
    driver.stop()
    export(driver.data_dir, tmp_path / "whole")
    whole = reconcile(
        spark,
        opened_snapshot.open_snapshot(tmp_path / "whole"),
        tmp_path / "out-whole",
        grace_ms=GRACE_MS,
    )
    assert (whole.verdict, whole.findings) == (AuditVerdict.PASS, []), whole.problems
    print(whole.lease_states)
    driver.loop.close()
