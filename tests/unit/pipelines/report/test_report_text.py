"""The report names what is wrong, where, and the command that shows more."""

from pathlib import Path
from typing import Any

from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.report.report_text import text

SNAPSHOT = Path("snap dir")


def found(queue_offset: int, **changed: Any) -> dict[str, Any]:
    return {
        "kind": "lease overdue",
        "topic": "%RETRY%billing_orders",
        "consumer_group": "billing",
        "queue_id": 3,
        "queue_offset": queue_offset,
        "offset_count": 1,
        "generation": 2,
        "pop_time_ms": 1_700_000_000_000,
        "due_ms": 1_700_000_010_000,
        "log_offset": 4_711,
        **changed,
    }


def report(findings: list[dict[str, Any]], count: int) -> Report:
    return Report(
        snapshot_id="s1",
        verdict=AuditVerdict.FAIL,
        as_of_ms=1_700_000_100_000,
        log_start=0,
        log_end=9_999,
        lease_states={"acked": 12, "overdue": count},
        finding_counts={"lease overdue": count},
        findings=findings,
    )


def test_pass_is_short() -> None:
    passed = Report(
        snapshot_id="s1",
        verdict=AuditVerdict.PASS,
        as_of_ms=1_700_000_100_000,
        log_start=0,
        log_end=9_999,
        lease_states={"acked": 12},
    )
    assert text(passed, SNAPSHOT).splitlines() == [
        "PASS: snapshot s1",
        "  as of 2023-11-14 22:15:00 UTC, log offsets 0 to 9999",
        "          12  leases acked",
    ]


def test_incomplete_says_why() -> None:
    missing = Report(
        snapshot_id="s1", verdict=AuditVerdict.INCOMPLETE, problems=["pop_acks.parquet is missing"]
    )
    assert text(missing, SNAPSHOT) == "INCOMPLETE: snapshot s1\n  pop_acks.parquet is missing"


def test_fail_lists_the_offsets_and_how_to_look_at_one() -> None:
    told = text(report([found(17), found(18, generation=None)], 2), SNAPSHOT).splitlines()
    row = next(line for line in told if " 17 " in line)
    assert row.split() == [
        *("lease", "overdue", "%RETRY%billing_orders", "billing", "3", "17", "1", "2"),
        *("2023-11-14", "22:13:30", "UTC", "4711"),
    ]
    assert told[-1].endswith(
        "show --snapshot 'snap dir' --topic %RETRY%billing_orders --queue 3 --offset 17"
    )


def test_the_example_is_a_finding_of_a_group(tmp_path: Path) -> None:
    told = text(report([found(5, consumer_group=None), found(6)], 2), tmp_path)
    assert told.endswith("--offset 6")
    assert text(report([found(5, consumer_group=None)], 1), tmp_path).endswith("--offset 5")


def test_many_findings_are_cut_and_counted() -> None:
    told = text(report([found(n) for n in range(1_000)], 4_321), SNAPSHOT)
    assert "20 of 4321" in told
    assert len(told.splitlines()) < 40


def test_a_due_time_no_calendar_has() -> None:
    assert f"{1 << 60} ms" in text(report([found(1, due_ms=1 << 60)], 1), SNAPSHOT)
