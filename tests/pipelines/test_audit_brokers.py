"""The audit of several brokers' directories, as Compose runs it: nobody is passed over."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.audit import healthy
from harness.log_writer import LogWriter
from pyspark.sql import SparkSession

from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.jobs.audit_brokers import CRASHED, audit_brokers
from popmq_pipelines.jobs.reconcile import GRACE_MS
from popmq_pipelines.report import last_report

pytestmark = [
    pytest.mark.pipelines,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("few_rows"),
]
Audit = Callable[..., int]


@pytest.fixture
def audit(spark: SparkSession, tmp_path: Path) -> Audit:
    """Of these brokers' directories; returns the exit code."""
    (tmp_path / "audit").mkdir()

    def run(*brokers: str) -> int:
        dirs = [tmp_path / broker for broker in brokers]
        return audit_brokers(
            dirs, tmp_path / "audit", lambda _: spark, grace_ms=GRACE_MS, skew_ms=0
        )

    return run


def broker(tmp_path: Path, name: str) -> LogWriter:
    log = LogWriter(tmp_path / name)
    healthy(log)
    return log


def last(tmp_path: Path, name: str) -> Report:
    report, _ = last_report.load(tmp_path / "audit" / name / "report")
    return report


def figure(tmp_path: Path, name: str, verdict: str) -> str:
    lines = (tmp_path / "audit" / f"{name}.prom").read_text().splitlines()
    (found,) = [line for line in lines if f'verdict="{verdict}"' in line]
    return found.rpartition(" ")[2]


def test_one_of_two_that_cannot_be_read_is_incomplete(audit: Audit, tmp_path: Path) -> None:
    """Its last PASS is not what is told of it."""
    broker(tmp_path, "a")
    broker(tmp_path, "b")
    assert audit("a", "b") == 0
    assert figure(tmp_path, "b", "PASS") == "1"
    snapshots = list((tmp_path / "audit/a/snapshots").iterdir())
    shutil.rmtree(tmp_path / "b")
    assert audit("a", "b") == AuditVerdict.INCOMPLETE.exit_code
    assert "b cannot be read" in last(tmp_path, "b").problems[0]
    assert last(tmp_path, "a").verdict is AuditVerdict.PASS
    assert (figure(tmp_path, "b", "PASS"), figure(tmp_path, "b", "INCOMPLETE")) == ("0", "1")
    (newest,) = (tmp_path / "audit/a/snapshots").iterdir()
    assert newest not in snapshots
    assert (tmp_path / "audit/a/report.html").is_file()


def test_one_that_is_not_asked_about_any_more_is_incomplete(audit: Audit, tmp_path: Path) -> None:
    broker(tmp_path, "a")
    assert audit("a") == 0
    broker(tmp_path, "b")
    assert audit("b") == AuditVerdict.INCOMPLETE.exit_code
    assert "a was audited before" in last(tmp_path, "a").problems[0]


def test_a_loss_is_told_before_what_could_not_be_read(audit: Audit, tmp_path: Path) -> None:
    log = broker(tmp_path, "a")
    assert audit("a") == 0
    shutil.rmtree(log.data_dir)
    LogWriter(log.data_dir)
    assert audit("a", "nowhere") == AuditVerdict.FAIL.exit_code
    assert last(tmp_path, "a").finding_counts == {"log went back": 1}


def test_a_crash_of_one_audit_is_no_verdict_and_stops_no_other(
    audit: Audit, tmp_path: Path
) -> None:
    broker(tmp_path, "a")
    broker(tmp_path, "b")
    assert audit("a", "b") == 0
    book = tmp_path / "audit/a/report/ledger/ledger.json"
    told = json.loads(book.read_text())
    told["epochs"][0]["number"] = "none"
    book.write_text(json.dumps(told))
    assert audit("a", "b") == CRASHED
    assert figure(tmp_path, "a", "PASS") == "0"
    assert figure(tmp_path, "b", "PASS") == "1"
