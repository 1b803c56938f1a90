"""What the rounds of two clients come to."""

from pathlib import Path

import pytest

from sdk_compare import report
from sdk_compare.sides import Row

ROOT = Path(__file__).resolve().parents[3]


def rows(*rates: int) -> list[Row]:
    return [Row(rate * 2, 2.0, rate * 2 * 10e-6) for rate in rates]


def test_the_best_way_of_a_kind_goes_on() -> None:
    tried = {
        "send, 1 thread": Row(10, 1.0, 1.0),
        "send_async": Row(90, 3.0, 1.0),
        "receive and ack": Row(500, 1.0, 1.0),
    }
    assert report.fastest(tried, "send") == "send_async"
    assert report.fastest(tried, "receive") == "receive and ack"


def test_ratios_are_of_rounds_not_of_medians() -> None:
    found = report.ratio("send", ("a", rows(1_000, 2_000, 3_000)), ("b", rows(100, 100, 300)))
    assert (found.rate, found.lowest, found.highest) == (10.0, 10.0, 20.0)
    assert found.reached
    assert found.cpu == pytest.approx(1.0)


def test_nine_times_is_not_ten_times() -> None:
    found = report.ratio("send", ("a", rows(999, 999, 999)), ("b", rows(100, 100, 100)))
    assert not found.reached


def test_the_table_tells_medians_and_the_spread() -> None:
    seen = report.seen("popmq", {"send": rows(1_000, 5_000, 2_000)})
    text = report.table({"send, 1 thread": Row(0, 1.0, 1.0)}, seen, [])
    assert "| popmq | send | 2,000 | 1,000 to 5,000 | 10.0 |" in text
    assert "| send, 1 thread | 0 | 1,000,000 |" in text


def test_it_is_written_between_its_marks_alone() -> None:
    page = f"before\n{report.BEGIN}old\n{report.END}after\n"
    assert report.written_into(page, "new") == f"before\n{report.BEGIN}\nnew\n{report.END}after\n"
    with pytest.raises(ValueError, match="no place"):
        report.written_into("a page", "new")
    report.written_into((ROOT / "docs" / "compare-python-clients.md").read_text(), "")
