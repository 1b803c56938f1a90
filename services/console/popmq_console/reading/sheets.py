"""Long lists: filtered, sorted and cut into pages here, so that a browser gets one page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

PAGE_ROWS: Final = 50
PAGE_MAX: Final = 1_000_000
QUERY_CHARS_MAX: Final = 256
R = TypeVar("R")
Column = Callable[[R], Any]
"""What a row is sorted by; None: not known, and always at the end."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address says."""

    query: str
    sort: str
    descending: bool
    page: int
    """From 1 on."""


@dataclass(frozen=True, slots=True)
class Sheet(Generic[R]):
    rows: list[R]
    asked: Asked
    total: int
    """Rows of all pages."""
    unfiltered: int

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // PAGE_ROWS))

    @property
    def first(self) -> int:
        """The number of the first row shown; 0: there is none."""
        return (self.asked.page - 1) * PAGE_ROWS + 1 if self.rows else 0

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1 if self.rows else 0


def asked(parameters: Mapping[str, str], columns: Sequence[str], default: str) -> Asked:
    """`columns`: names that may be sorted by; `default`: one of them, `-` before it: largest
    first. What is none of them counts as the default."""
    sort = parameters.get("sort", default)
    if sort.removeprefix("-") not in columns:
        sort = default
    page = parameters.get("page", "1")
    number = int(page) if page.isascii() and page.isdigit() and len(page) <= 7 else 1
    return Asked(
        query=parameters.get("q", "")[:QUERY_CHARS_MAX].strip(),
        sort=sort.removeprefix("-"),
        descending=sort.startswith("-"),
        page=min(max(1, number), PAGE_MAX),
    )


def sheet(
    rows: Sequence[R], asked: Asked, columns: Mapping[str, Column[R]], name: Callable[[R], str]
) -> Sheet[R]:
    """`name`: what the query is searched in, without regard to case."""
    query = asked.query.lower()
    found = [row for row in rows if query in name(row).lower()] if query else list(rows)
    value = columns[asked.sort]
    known = [row for row in found if value(row) is not None]
    known.sort(key=name)
    known.sort(key=value, reverse=asked.descending)
    ordered = known + [row for row in found if value(row) is None]
    pages = max(1, -(-len(ordered) // PAGE_ROWS))
    page = min(asked.page, pages)
    shown = ordered[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    now = Asked(asked.query, asked.sort, asked.descending, page)
    return Sheet(shown, now, len(found), len(rows))
