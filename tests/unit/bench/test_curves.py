"""Curves by how much there is: what a report means, the table, the page."""

import pytest

from compare.page import put
from curves.command import CURVES, PAGE, parser
from curves.point import CurvePoint
from curves.report import svg, table

POINTS = [CurvePoint(100, 4_000, 100, 9.5, 90), CurvePoint(1_048_576, 500, 1_500, None, 0)]


def test_each_point_is_told_beside_the_first() -> None:
    lines = table("bytes of a body", POINTS).splitlines()
    assert lines[0].startswith("| bytes of a body | messages/s |")
    assert lines[2] == "| 100 | 4,000 | 100 | 1.00 | 9.50 | 90.0 |"
    assert lines[3] == "| 1,048,576 | 500 | 1,500 | 15.00 | – | 0 |"


def test_the_same_points_make_the_same_picture() -> None:
    assert svg("bytes of a body", POINTS) == svg("bytes of a body", POINTS)
    assert "by bytes of a body" in svg("bytes of a body", POINTS)


def test_a_table_takes_the_place_of_the_one_before() -> None:
    page = "a\n<!-- size: begin -->\nold\n<!-- size: end -->\nb\n"
    assert put(page, "size", "new") == "a\n<!-- size: begin -->\n\nnew\n\n<!-- size: end -->\nb\n"
    with pytest.raises(ValueError, match="unpack"):
        put(page, "topics", "new")


@pytest.mark.parametrize("name", CURVES)
def test_the_page_has_a_place_and_a_picture_for_each_curve(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert put(text, name, "new") != text
    assert f"(curve-{name}.svg)" in text
    assert PAGE.with_name(f"curve-{name}.svg").is_file()


@pytest.mark.parametrize("name", CURVES)
def test_the_values_of_a_curve_grow(name: str) -> None:
    values = CURVES[name].values
    assert list(values) == sorted(set(values))
    assert name in parser().parse_args([]).only
