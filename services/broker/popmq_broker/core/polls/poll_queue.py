"""Polls of one group and topic that wait, found by what arrived; the oldest first.

A poll is a number here, a larger one for a later poll. Nothing scans: a poll stands in the list of
all and, by its filter, in one list per tag's hash or in the list of those that may want anything.
"""

from collections import OrderedDict
from collections.abc import Iterable

from popmq_broker.core.filters.filter import Filter, TagFilter

_Line = OrderedDict[int, None]


class PollQueue:
    def __init__(self) -> None:
        self._all: _Line = OrderedDict()
        self._any: _Line = OrderedDict()
        """Those whose filter cannot be told from a hash."""
        self._by_code: dict[int, _Line] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, poll: int) -> bool:
        return poll in self._all

    def polls(self) -> list[int]:
        return list(self._all)

    def add(self, poll: int, wanted: Filter, *, first: bool = False) -> None:
        """`first`: it waited before and was woken for nothing, so it keeps its place."""
        self._all[poll] = None
        if first:
            self._all.move_to_end(poll, last=False)
        if not isinstance(wanted, TagFilter):
            _put(self._any, poll, first=first)
            return
        for code in wanted.codes:
            _put(self._by_code.setdefault(code, OrderedDict()), poll, first=first)

    def remove(self, poll: int, wanted: Filter) -> None:
        del self._all[poll]
        if not isinstance(wanted, TagFilter):
            del self._any[poll]
            return
        for code in wanted.codes:
            line = self._by_code[code]
            del line[poll]
            if not line:
                del self._by_code[code]

    def oldest(self, codes: Iterable[int] | None) -> int | None:
        """The poll to wake for messages with these hashes; for None: the oldest of all."""
        if codes is None:
            return next(iter(self._all), None)
        heads = [next(iter(self._any))] if self._any else []
        if self._by_code:
            lines = (self._by_code[code] for code in codes if code in self._by_code)
            heads += [next(iter(line)) for line in lines]
        return min(heads, default=None)


def _put(line: _Line, poll: int, *, first: bool) -> None:
    line[poll] = None
    if first:
        line.move_to_end(poll, last=False)
