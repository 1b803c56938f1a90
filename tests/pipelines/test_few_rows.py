"""Few rows are judged in one task and a few jobs, and what is said of them is the same."""

from pathlib import Path

import pytest
from harness.audit_histories import FAULTS, World
from pyspark.sql import SparkSession

from popmq_pipelines.audit.verdict import Report
from popmq_pipelines.jobs.reconcile import GRACE_MS, reconcile
from popmq_pipelines.snapshot.columns import AUDIT_TABLES
from popmq_pipelines.tables import opened_snapshot

pytestmark = [pytest.mark.pipelines, pytest.mark.timeout(600)]
STAGES_MAX = 75
"""Of one audit, some of them left out by Spark itself; several times as many where rows are
spread."""


def stages(spark: SparkSession) -> int:
    """Begun so far."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextStageId())


def tables(out: Path) -> dict[str, bytes]:
    names = sorted(AUDIT_TABLES)
    files = [file for name in names for file in sorted((out / name).rglob("*.parquet"))]
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


def test_the_same_bytes_in_a_quarter_of_the_stages(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Two snapshots of histories with faults of each kind; the second opens epochs of the first."""
    world = World(11, 2 * len(FAULTS))
    world.live(200)
    world.log.cut(tmp_path / "s1")
    world.plant(FAULTS)
    world.live(200)
    world.log.cut(tmp_path / "s2", goes_on=tmp_path / "s1")

    def audit(out: Path, name: str) -> Report:
        snapshot = opened_snapshot.open_next(tmp_path / name, {})
        return reconcile(spark, snapshot, out, grace_ms=GRACE_MS)

    begun = stages(spark)
    spread = [audit(tmp_path / "spread", "s1")]
    print(f"\n{stages(spark) - begun} stages where rows are spread")
    spread.append(audit(tmp_path / "spread", "s2"))
    request.getfixturevalue("few_rows")
    before = stages(spark)
    few = [audit(tmp_path / "few", "s1")]
    between = stages(spark)
    few.append(audit(tmp_path / "few", "s2"))
    print(f"\n{between - before} and {stages(spark) - between} stages")
    assert few == spread
    assert few[1].finding_counts != {}
    assert tables(tmp_path / "few") == tables(tmp_path / "spread")
    assert between - before <= STAGES_MAX
    assert stages(spark) - between <= 2 * STAGES_MAX  # it reads two epochs
    assert list((tmp_path / "few").glob(".*")) == []
