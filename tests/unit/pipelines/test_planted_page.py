"""docs/audit.md tells of each planted fault, and of each kind of finding."""

from pathlib import Path

from planted import FAULTS
from planted.page import IN_FILES, IN_LOGS, IN_ROWS, LIES, LOST, written

PAGE = Path(__file__).parents[3] / "docs" / "audit.md"
FAULTS_MIN = 60


def test_the_page_has_the_table_as_it_is() -> None:
    """Failing: PYTHONPATH=tests python -m planted.page docs/audit.md"""
    assert written(PAGE.read_text()) == PAGE.read_text()


def test_there_are_so_many_and_none_twice() -> None:
    says = [fault.says for fault in FAULTS]
    says += [one.says for group in (IN_ROWS, IN_LOGS, IN_FILES, LOST, LIES) for one in group]
    assert len(set(says)) == len(says) >= FAULTS_MIN


def test_each_kind_that_is_found_is_explained() -> None:
    explained = {
        name
        for line in PAGE.read_text().split("<!-- planted")[0].splitlines()
        if line.startswith("| ")
        for name in line.split("|")[1].strip().split(", ")
    }
    found = {one.kind for fault in FAULTS for one in fault.expected}
    assert found - explained - {"one id", "two bodies"} <= {"one id, two bodies"}
    assert {"one id", "two bodies"} <= explained
