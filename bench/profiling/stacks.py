"""Folded stacks, as py-spy writes them raw: which functions have how much of the samples.

A line is `outermost;…;innermost COUNT`, a frame `function (file:line)`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from compare.report import table

FUNCTION_COLUMNS = 90


@dataclass(frozen=True)
class Share:
    """A function's part of all samples, 0 … 1."""

    function: str
    own: float
    """It was the innermost; C code that it called counts as its own."""
    total: float
    """It was anywhere on the stack."""


def shares(lines: Iterable[str]) -> list[Share]:
    """Most own time first; a function that calls itself counts once a stack."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for frames, count in _stacks(lines):
        own[frames[-1]] += count
        for frame in set(frames):
            total[frame] += count
    everything = own.total()
    found = [Share(name, own[name] / everything, total[name] / everything) for name in total]
    return sorted(found, key=lambda share: (-share.own, -share.total, share.function))


def samples(lines: Iterable[str]) -> int:
    """All together."""
    return sum(count for _, count in _stacks(lines))


def _stacks(lines: Iterable[str]) -> Iterator[tuple[list[str], int]]:
    for line in lines:
        stack, _, count = line.rstrip().rpartition(" ")
        if stack and count.isdigit():
            yield stack.split(";"), int(count)


def top(found: Sequence[Share], count: int) -> str:
    """A Markdown table of the first functions, with the sum of what they had so far."""
    rows, sum_own = [], 0.0
    for share in found[:count]:
        sum_own += share.own
        percents = [f"{part * 100:.1f} %" for part in (share.own, sum_own, share.total)]
        rows.append([f"`{share.function[:FUNCTION_COLUMNS]}`", *percents])
    return table(["function", "self", "sum", "with callees"], rows)
