"""Reports as popmq-pipelines writes them, and files that are none."""

from pathlib import Path

import pytest

from popmq_console.reading.audit_reports import FINDINGS_SHOWN_MAX, audit_reports
from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.report.last_report import save


def report(broker: str, **more: object) -> Report:
    return Report(snapshot_id="s", broker=broker, verdict=AuditVerdict.PASS, **more)  # type: ignore[arg-type]


def finding(offset: int) -> dict[str, object]:
    return {
        "kind": "stored twice",
        "topic": "t",
        "consumer_group": None,
        "queue_id": 3,
        "queue_offset": offset,
        "offset_count": 1,
        "generation": 0,
        "due_ms": None,
        "log_offset": None,
        "message_id": "ID",
    }


def test_a_folder_for_each_broker_and_one_alone(tmp_path: Path) -> None:
    for name in ("broker-b", "broker-a"):
        save(tmp_path / name / "report", report(name), tmp_path)
    assert [one.broker for one in audit_reports(tmp_path)] == ["broker-a", "broker-b"]
    (alone,) = audit_reports(tmp_path / "broker-a" / "report")
    assert alone.broker == "broker-a"


def test_what_a_report_says(tmp_path: Path) -> None:
    told = report(
        "a",
        as_of_ms=17,
        log_start=0,
        log_end=9,
        lease_states={"acked": 5},
        finding_counts={"stored twice": 300},
        findings=[finding(offset) for offset in range(300)],
        problems=["no news"],
    )
    save(tmp_path, told, tmp_path)
    (one,) = audit_reports(tmp_path)
    assert (one.verdict, one.as_of_ms, one.log_end, one.found) == ("PASS", 17, 9, 300)
    assert one.leases == {"acked": 5}
    assert one.problems == ("no news",)
    assert len(one.findings) == FINDINGS_SHOWN_MAX
    first = one.findings[0]
    assert (first.group, first.queue_id, first.offset, first.message_id) == ("", "3", "0", "ID")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"report": 1}', '{"report": {"verdict": "PASS"}}', "[" * 100_000]
)
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "report.json").write_text(text)
    (one,) = audit_reports(tmp_path)
    assert (one.broker, one.verdict, one.tone) == ("b", "not readable", "warn")
    assert one.problems


def test_no_folder(tmp_path: Path) -> None:
    assert audit_reports(tmp_path) == []
    with pytest.raises(OSError, match="is no folder"):
        audit_reports(tmp_path / "gone")
