"""A schedule that finds no new snapshot says so; the last verdict is not repeated for ever."""

from pathlib import Path

import pytest
from harness.log_writer import LogWriter

from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.jobs.backfill import too_old


@pytest.mark.parametrize(
    ("age_s", "max_age_s", "told"),
    [(100, 0, False), (100, 200, False), (300, 200, True)],
)
def test_the_newest_snapshot_counts(
    tmp_path: Path, age_s: float, max_age_s: float, told: bool
) -> None:
    log = LogWriter(tmp_path / "data")
    log.send("m0")
    export(log.data_dir, tmp_path / "snapshots" / "s1")
    newest = export(log.data_dir, tmp_path / "snapshots" / "s2", "s2")
    now_s = newest.taken_ms / 1000 + age_s
    report = too_old(tmp_path / "snapshots", tmp_path / "out", max_age_s, now_s)
    assert (report is not None) == told
    if report is not None:
        assert (report.verdict, report.snapshot_id) == (AuditVerdict.INCOMPLETE, "s2")
        assert "300 s ago, 200 s are allowed" in report.problems[0]
