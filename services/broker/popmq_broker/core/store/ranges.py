"""A set of offsets as ranges that do not touch each other."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Range(NamedTuple):
    start: int
    end: int
    """The first offset behind it."""


class Ranges:
    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in ranges:
            self.add(start, end)

    def __repr__(self) -> str:
        return f"<Ranges {', '.join(f'{start}–{end}' for start, end in self)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment] # it changes

    def __iter__(self) -> Iterator[Range]:
        return map(Range, self._starts, self._ends)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    @property
    def run_count(self) -> int:
        return len(self._starts)

    @property
    def count(self) -> int:
        """Of offsets."""
        return sum(self._ends) - sum(self._starts)

    def end_of(self, offset: int) -> int:
        """The end of the range that holds `offset`; `offset` itself when none does."""
        at = bisect_right(self._starts, offset) - 1
        return max(offset, self._ends[at]) if at >= 0 else offset

    def within(self, start: int, end: int) -> Iterator[Range]:
        """What of them lies in `start` … `end` − 1."""
        at = bisect_right(self._ends, start)
        while at < len(self._starts) and self._starts[at] < end:
            yield Range(max(start, self._starts[at]), min(end, self._ends[at]))
            at += 1

    def count_between(self, start: int, end: int) -> int:
        """Of offsets in `start` … `end` − 1."""
        return sum(last - first for first, last in self.within(start, end))

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        low = bisect_left(self._ends, start)  # the first that touches it
        high = bisect_right(self._starts, end)
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high] = [start]
        self._ends[low:high] = [end]

    def remove(self, start: int, end: int) -> None:
        low = bisect_right(self._ends, start)
        high = bisect_left(self._starts, end)
        if low >= high or start >= end:
            return
        first, last = self._starts[low], self._ends[high - 1]
        left = [Range(first, start)] if first < start else []
        right = [Range(end, last)] if end < last else []
        self._starts[low:high] = [one.start for one in (*left, *right)]
        self._ends[low:high] = [one.end for one in (*left, *right)]
