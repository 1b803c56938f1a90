"""One report of all brokers: made by `audit`, made again without Spark, and what it says."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from harness.audit import LONG_MS, healthy
from harness.log_writer import GROUP, TOPIC, LogWriter
from pyspark.sql import SparkSession

from popmq_pipelines.__main__ import main
from popmq_pipelines.jobs.audit_brokers import CRASHED, audit_brokers
from popmq_pipelines.jobs.reconcile import GRACE_MS
from popmq_pipelines.snapshot.columns import AUDIT_TABLES
from popmq_pipelines.tables import session

pytestmark = [
    pytest.mark.pipelines,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("few_rows"),
]
Audit = Callable[[], int]


def logs_of(folder: Path) -> tuple[LogWriter, LogWriter]:
    """Of two brokers with the same topic and group, whose owners the first one knows."""
    found = (LogWriter(folder / "broker-a"), LogWriter(folder / "broker-b"))
    found[0].owner("topic", TOPIC, "old")
    found[0].owner("topic", TOPIC, "shop")
    found[0].owner("group", GROUP, "money")
    for log in found:
        healthy(log)
    return found


@pytest.fixture
def logs(tmp_path: Path) -> tuple[LogWriter, LogWriter]:
    return logs_of(tmp_path)


@pytest.fixture(scope="module")
def once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one audit of both leaves."""
    folder = tmp_path_factory.mktemp("once")
    dirs = [log.data_dir for log in logs_of(folder)]
    (folder / "audit").mkdir()
    spark.conf.set(session.LITTLE, str(session.LITTLE_ROWS))
    code = audit_brokers(dirs, folder / "audit", lambda _: spark, grace_ms=GRACE_MS, skew_ms=0)
    spark.conf.set(session.LITTLE, "0")
    assert code == 0
    return folder / "audit"


@pytest.fixture
def audited(once: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(once, tmp_path / "audit"))


@pytest.fixture
def audit(spark: SparkSession, tmp_path: Path, logs: tuple[LogWriter, LogWriter]) -> Audit:
    (tmp_path / "audit").mkdir()

    def run() -> int:
        dirs = [log.data_dir for log in logs]
        return audit_brokers(
            dirs, tmp_path / "audit", lambda _: spark, grace_ms=GRACE_MS, skew_ms=0
        )

    return run


def told(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "audit/cluster/cluster.json").read_text())
    return found


@pytest.mark.usefixtures("audited")
def test_two_healthy_brokers(tmp_path: Path) -> None:
    report = told(tmp_path)
    assert (report["verdict"], report["problems"], report["steps"]) == ("PASS", [], [])
    assert [one["looked_at"][0] for one in report["coverage"]] == [0, 0]
    orders = {row["topic"]: row for row in report["groups"]}[TOPIC]
    assert (orders["stored"], orders["owner"]) == (12, "money")
    wanted = {"acked": 8, "in_flight": 2, "retried": 2}
    assert {name: count for name, count in orders["counts"].items() if count} == wanted
    owners = {row["owner"]: row for row in report["owners"]}
    assert set(owners) == {"shop", "money", ""}  # nobody's is the topic `clock`
    assert owners["shop"]["stored"] == 12
    assert owners["shop"]["stored_bytes"] > 12 * 100
    assert owners["money"]["counts"]["acked"] == 8
    attempts = {(row["span"], row["attempt"]): row for row in report["times"]}
    assert attempts["store to ack", 1]["message_count"] == 8
    assert attempts["born to store", 0]["max_ms"] == 0
    page = (tmp_path / "audit/cluster/report.html").read_text()
    assert "This is the first report." in page


def test_the_second_report_tells_what_is_new_and_what_to_do(
    audit: Audit, logs: tuple[LogWriter, LogWriter], tmp_path: Path
) -> None:
    assert audit() == 0
    held = logs[1].pop(logs[1].send("held"))
    logs[1].pass_time(LONG_MS)
    logs[1].save_offsets()
    assert audit() == 1
    report = told(tmp_path)
    assert report["verdict"] == "FAIL"
    assert report["changes"][:3] == [
        "The verdict was PASS and is FAIL.",
        "broker-b: PASS before, FAIL now.",
        f"2 new: lease overdue, {TOPIC}, {GROUP}.",
    ]
    (step,) = report["steps"]
    assert step[1] == ["lease overdue"]
    with open(tmp_path / "audit/cluster/findings.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["broker"], row["kind"], row["owner"]) for row in rows] == [
        ("broker-b", "lease overdue", "money")
    ] * 2
    assert str(held.offsets[0]) in {row["queue_offset"] for row in rows}
    page = (tmp_path / "audit/cluster/report.html").read_text()
    assert "lease overdue" in page
    assert 'href="findings.csv"' in page


def test_it_is_made_again_without_spark(
    audited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = told(tmp_path)
    capsys.readouterr()
    assert main(["cluster", "--out", str(audited), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == told(tmp_path)
    assert (report["before_ms"], report["changes"]) == (before["made_ms"], [])
    for name in ("verdict", "coverage", "owners", "topics", "groups", "times", "minutes"):
        assert report[name] == before[name], name
    assert main(["cluster", "--out", str(audited)]) == 0
    assert "PASS: all brokers." in capsys.readouterr().out


def test_a_broker_whose_audit_cannot_be_read_makes_it_incomplete(
    audited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (audited / "broker-a/report/report.json").write_text("{")
    assert main(["cluster", "--out", str(audited)]) == 4
    assert "broker-a: " in capsys.readouterr().out
    assert [one["broker"] for one in told(tmp_path)["coverage"]] == ["broker-b"]


def test_without_an_audit_there_is_nothing_to_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", "--out", str(tmp_path)]) == 2
    assert "popmq-pipelines audit --out" in capsys.readouterr().err


def test_a_lake_has_all_rows_of_both_audits(audited: Path, tmp_path: Path) -> None:
    assert main(["lake", "--out", str(audited), "--into", str(tmp_path / "lake")]) == 0
    for table in AUDIT_TABLES:
        files = audited.glob(f"*/report/{table}/snapshot_id=*/*.parquet")
        wanted = sum(pq.read_metadata(file).num_rows for file in files)
        found = DeltaTable(str(tmp_path / "lake" / table)).to_pyarrow_table()
        assert found.num_rows == wanted, table
    states = DeltaTable(str(tmp_path / "lake/recon_message_state")).to_pyarrow_table()
    assert set(states.column("broker").to_pylist()) == {"broker-a", "broker-b"}
    assert states.num_rows > 0


def test_a_report_that_crashes_is_no_verdict(audit: Audit, tmp_path: Path) -> None:
    (tmp_path / "audit/cluster/report.html").mkdir(parents=True)  # no file can replace it
    assert audit() == CRASHED
