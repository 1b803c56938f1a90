"""Pictures of dashboards: what is told of a line, and that an empty panel is named."""

from pathlib import Path

import pytest
from board_figures import Board, Drawn, Line, Span, amount, legend
from picture import draw

SPAN = Span(0.0, 600.0)


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (0.0, "short", "0"),
        (1234.0, "short", "1.23 k"),
        (15.0, "cps", "15/s"),
        (0.231, "percentunit", "23.1 %"),
        (0.0, "s", "0 s"),
        (0.0004, "s", "400 µs"),
        (0.02, "s", "20 ms"),
        (250.0, "s", "250 s"),
        (2400.0, "s", "40 min"),
        (3 * 1024.0, "Bps", "3 KiB/s"),
        (100.0 * (1 << 20), "bytes", "100 MiB"),
    ],
)
def test_an_amount_is_short(value: float, unit: str, told: str) -> None:
    assert amount(value, unit) == told


def test_a_legend_has_the_labels_of_its_line() -> None:
    assert legend("{{group}} {{topic}}", {"group": "billing", "topic": "orders"}) == (
        "billing orders"
    )
    assert legend("{{missing}} p99", {}) == "p99"


def test_a_panel_without_data_is_drawn_and_named(tmp_path: Path) -> None:
    points = [(float(at), float(at % 7)) for at in range(0, 600, 5)]
    many = [Line(f"line {number}", points) for number in range(9)]
    panels = [
        Drawn("nothing", "timeseries", "s", 0, 0, 12, 8, []),
        Drawn("many", "timeseries", "bytes", 12, 0, 12, 8, many),
        Drawn("numbers", "stat", "short", 0, 8, 24, 4, many),
    ]
    for form in ("png", "svg"):
        assert draw([Board("all", "All", SPAN, panels)], tmp_path, form) == ["All: nothing"]
        assert (tmp_path / f"all.{form}").stat().st_size > 1_000
