"""Never green by absence."""

import pytest

from popmq_pipelines.audit.verdict import Verdict, judge


@pytest.mark.parametrize(
    ("problems", "finding_count", "verdict", "exit_code"),
    [
        ([], 0, Verdict.PASS, 0),
        ([], 1, Verdict.FAIL, 1),
        (["a file is missing"], 0, Verdict.INCOMPLETE, 4),
        (["a file is missing"], 1, Verdict.INCOMPLETE, 4),
    ],
)
def test_the_verdicts(
    problems: list[str], finding_count: int, verdict: Verdict, exit_code: int
) -> None:
    assert judge(problems, finding_count) is verdict
    assert verdict.exit_code == exit_code
