"""The Markdown page, and the bars of the picture."""

import pytest
from unit.bench.made import record, report

from compare import plot
from compare.record import Record, RowRun
from compare.report import document, number, table, times
from compare.results import summarize, verdicts


def page(made: Record) -> str:
    summary = summarize(made)
    return document(made, summary, verdicts(summary))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.1234, "0.12"),
        (12.34, "12.3"),
        (123.4, "123"),
        (12345.0, "12,300"),
        (999.6, "1000"),
    ],
)
def test_numbers_keep_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_ratios() -> None:
    assert (times(2.0), times(None)) == ("2.00×", "–")


def test_a_table_has_its_numbers_to_the_right() -> None:
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"


def test_a_pair_is_shown_side_by_side() -> None:
    text = page(record({"popmq": [2000.0], "rocketmq": [1000.0]}))
    assert "## Separate processes, sync flush" in text
    assert "| send, 16 in flight | 2,000 | 1,000 | 2.00× | 300 | 300 | 1.00× | 2.00 |" in text
    assert "| send, 16 in flight, rocketmq | 100 | 50.0 | 200 | 2 % |" in text
    assert "| start to first confirmed send, s | 1.00 | 10.0 | 0.10× |" in text
    assert "| send, 16 in flight: throughput (separate processes) | ≥ 2× | 2.00× | met |" in text
    assert "CPU (separate processes) | ≤ 0.5× | 1.00× | **not met** |" in text
    assert "## Remarks" not in text


def test_a_system_without_its_peer_is_shown_alone() -> None:
    text = page(record({"popmq-standalone": [2000.0]}))
    assert "## PopMQ, standalone, sync flush" in text
    assert "## One process" not in text


def test_remarks_tell_noise_losses_errors_and_failures() -> None:
    made = record({"popmq": [1000.0]})
    bad = report(other_cpu_percent=30.0, missing=5)
    bad["errors"] = {"VIOLATION": {"count": 6, "example": "x"}}
    made.rows = [
        RowRun("popmq", "sync", 1, "send-16", bad),
        RowRun("popmq", "sync", 1, "send-1", None, "no answer"),
    ]
    text = page(made)
    for part in ("used 30 % of a core", "5 missing", "6 × VIOLATION", "Failed: ", "no answer"):
        assert part in text


def test_a_row_one_side_lacks_is_a_dash() -> None:
    made = record({"popmq": [1000.0], "rocketmq": [1000.0]})
    made.rows = made.rows[:1]
    assert "| send, 16 in flight | 1,000 | – | – |" in page(made)


def test_the_picture_is_text_in_the_pages_own_colour() -> None:
    measured = {"popmq": [2000.0], "rocketmq": [1000.0], "popmq-compiled": [3000.0]}
    shown = plot.panels(summarize(record(measured)))
    assert [[(bars.name, bars.values) for bars in panel.sides] for panel in shown] == [
        [
            ("PopMQ", [rate]),
            ("PopMQ, compiled", [compiled_rate]),
            ("Apache RocketMQ", [their_rate]),
        ]
        for rate, compiled_rate, their_rate in ((2000.0, 3000.0, 1000.0), (300.0, 300.0, 300.0))
    ]
    picture = plot.svg(shown)
    assert "2,000" in picture
    assert "currentColor" in picture
    assert plot.INK not in picture
    assert picture == plot.svg(shown)
    assert plot.panels(summarize(record({"popmq": [2000.0]}))) == []
