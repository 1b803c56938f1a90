"""Are long lists filtered, sorted and cut as the address says?"""

from typing import NamedTuple

import pytest

from popmq_console.reading.sheets import PAGE_ROWS, Asked, asked, sheet


class Row(NamedTuple):
    name: str
    size: int | None = None


COLUMNS = {"name": lambda row: row.name, "size": lambda row: row.size}


def names(rows: list[Row], parameters: dict[str, str], default: str = "name") -> list[str]:
    wanted = asked(parameters, list(COLUMNS), default)
    return [row.name for row in sheet(rows, wanted, COLUMNS, lambda row: row.name).rows]


def test_what_is_not_known_is_at_the_end_either_way() -> None:
    rows = [Row("a", 1), Row("b"), Row("c", 3), Row("d", 0)]
    assert names(rows, {"sort": "size"}) == ["d", "a", "c", "b"]
    assert names(rows, {"sort": "-size"}) == ["c", "a", "d", "b"]


def test_equal_rows_are_in_the_order_of_their_names() -> None:
    assert names([Row("b", 1), Row("a", 1)], {"sort": "-size"}) == ["a", "b"]


def test_a_filter_does_not_care_for_case() -> None:
    assert names([Row("Orders"), Row("parcels")], {"q": "ORD"}) == ["Orders"]


def test_pages() -> None:
    rows = [Row(f"{number:04}") for number in range(2 * PAGE_ROWS + 1)]
    wanted = asked({"page": "3"}, list(COLUMNS), "name")
    found = sheet(rows, wanted, COLUMNS, lambda row: row.name)
    assert [row.name for row in found.rows] == [f"{2 * PAGE_ROWS:04}"]
    assert (found.pages, found.first, found.last, found.total) == (3, 101, 101, 101)
    empty = sheet([], wanted, COLUMNS, lambda row: row.name)
    assert (empty.pages, empty.first, empty.last, empty.asked.page) == (1, 0, 0, 1)


@pytest.mark.parametrize("page", ["0", "-1", "x", "²", "", "99999999", "1e3"])
def test_a_page_that_is_none_is_the_first_or_the_last(page: str) -> None:
    rows = [Row(f"{number:04}") for number in range(PAGE_ROWS + 1)]
    wanted = asked({"page": page}, list(COLUMNS), "name")
    assert sheet(rows, wanted, COLUMNS, lambda row: row.name).rows


def test_a_column_that_is_none_counts_as_the_default() -> None:
    assert asked({"sort": "__class__"}, list(COLUMNS), "-size") == Asked("", "size", True, 1)
