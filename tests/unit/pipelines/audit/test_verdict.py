"""Never green by absence."""

import pytest

from popmq_pipelines.audit.verdict import AuditVerdict, judge


@pytest.mark.parametrize(
    ("problems", "finding_count", "verdict", "exit_code"),
    [
        ([], 0, AuditVerdict.PASS, 0),
        ([], 1, AuditVerdict.FAIL, 1),
        (["a file is missing"], 0, AuditVerdict.INCOMPLETE, 4),
        (["a file is missing"], 1, AuditVerdict.INCOMPLETE, 4),
    ],
)
def test_the_verdicts(
    problems: list[str], finding_count: int, verdict: AuditVerdict, exit_code: int
) -> None:
    assert judge(problems, finding_count) is verdict
    assert verdict.exit_code == exit_code
