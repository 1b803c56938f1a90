"""Each fault of docs/audit.md, planted in a snapshot of a real broker with its checksums made
right: found, at its place, and nothing else. The same snapshot without faults: nothing is found."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from planted import FAULTS
from planted.planting import Fault, Planting, Tenant
from pyspark.sql import SparkSession

from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.jobs.reconcile import GRACE_MS, reconcile
from popmq_pipelines.tables import opened_snapshot

pytestmark = [
    pytest.mark.pipelines,
    pytest.mark.timeout(1_800),
    pytest.mark.usefixtures("few_rows"),
]
Found = tuple[str, str, int, int]
"""Kind, topic, queue offset, how many offsets."""


def audit(spark: SparkSession, snapshot: Path, out: Path) -> Report:
    return reconcile(spark, opened_snapshot.open_snapshot(snapshot), out, grace_ms=GRACE_MS)


def found(report: Report) -> list[Found]:
    names = ("kind", "topic", "queue_offset", "offset_count")
    return sorted(tuple(row[name] for name in names) for row in report.findings)


def expected(fault: Fault, tenant: Tenant) -> list[Found]:
    return [
        (
            one.kind,
            one.topic.format(name=tenant.name, group=tenant.group),
            one.queue_offset,
            one.count,
        )
        for one in fault.expected
    ]


def test_each_fault_is_found_at_its_place_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    driver = EngineDriver(tmp_path / "broker", segment_bytes=1 << 20)
    tenants = {}
    for fault in FAULTS:
        tenants[fault.name] = tenant = Tenant(
            driver, fault.name, fifo=fault.fifo, max_attempts=fault.max_attempts
        )
        fault.live(tenant)
    driver.advance(2 * GRACE_MS)
    quiet = Tenant(driver, "quiet")
    quiet.send()
    driver.stop()
    driver.loop.close()
    export(driver.data_dir, tmp_path / "clean")
    shutil.copytree(tmp_path / "clean", tmp_path / "planted")
    clean = audit(spark, tmp_path / "clean", tmp_path / "out-clean")
    assert (clean.verdict, found(clean)) == (AuditVerdict.PASS, [])

    planting = Planting(tmp_path / "planted")
    for fault in FAULTS:
        fault.plant(planting, tenants[fault.name])
    planting.write()
    report = audit(spark, tmp_path / "planted", tmp_path / "out-planted")
    wanted = sorted(one for fault in FAULTS for one in expected(fault, tenants[fault.name]))
    lacking = Counter(wanted) - Counter(found(report))
    surplus = Counter(found(report)) - Counter(wanted)
    assert (lacking, surplus) == (Counter(), Counter())
    assert report.verdict is AuditVerdict.FAIL
