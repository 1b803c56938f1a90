"""What Prometheus is told of an audit."""

from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from unit.pipelines.report.test_report_pages import failed

from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.report.gauges import FIGURES, SCHEDULE, schedule_text, text, write


def samples(told: str) -> dict[tuple[str, str], float]:
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(told)
        for sample in family.samples
    }


def test_a_failed_audit() -> None:
    found = samples(text(failed(broker='b"1\\', watermark=9_999), 1_700_000_200))
    assert found["popmq_audit_verdict", 'b"1\\,FAIL'] == 1
    assert found["popmq_audit_verdict", 'b"1\\,PASS'] == 0
    assert found["popmq_audit_findings", 'b"1\\,lease overdue,,'] == 2
    assert found["popmq_audit_messages", 'b"1\\,acked'] == 9_005
    assert found["popmq_audit_as_of_seconds", 'b"1\\'] == 1_700_000_100
    assert found["popmq_audit_ran_seconds", 'b"1\\'] == 1_700_000_200
    assert {name for name, _ in found} == set(FIGURES)


def test_findings_are_told_by_topic_and_group_and_their_sum_is_that_of_the_kind() -> None:
    places = [
        {"kind": "lease overdue", "topic": "a", "consumer_group": "g", "finding_count": 5},
        {"kind": "message missing", "topic": "b", "consumer_group": "", "finding_count": 1},
    ]
    counts = {"lease overdue": 7, "message missing": 1}
    told = replace(failed(), finding_counts=counts, finding_places=places, broker="x")
    found = samples(text(told, 1))
    assert {labels: value for (name, labels), value in found.items() if "findings" in name} == {
        "x,lease overdue,a,g": 5,
        "x,lease overdue,,": 2,
        "x,message missing,b,": 1,
    }


def test_one_that_could_not_be_made_is_not_green(tmp_path: Path) -> None:
    path = tmp_path / "audit.prom"
    write(path, text(replace(failed(), verdict=AuditVerdict.PASS), 1))
    write(path, text(Report(snapshot_id="s", verdict=AuditVerdict.INCOMPLETE, broker="b"), 2))
    found = samples(path.read_text())
    assert found["popmq_audit_verdict", "b,INCOMPLETE"] == 1
    assert found["popmq_audit_verdict", "b,PASS"] == 0
    assert list(tmp_path.iterdir()) == [path]


def test_a_schedule() -> None:
    assert samples(schedule_text(600, None)) == {("popmq_audit_every_seconds", ""): 600}
    told = samples(schedule_text(600, 4))
    assert told["popmq_audit_exit_code", ""] == 4
    assert {name for name, _ in told} == set(SCHEDULE)
