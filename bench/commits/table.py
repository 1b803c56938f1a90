"""docs/performance/commits.md: a line for each comparison, and what it says of one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compare.report import number, times
from compare.results import RowSummary, row_ratio
from compare.workloads import ROWS

NAMED_RATIO: Final = 1.05
"""A row whose CPU time per message grew by more is named."""


@dataclass(frozen=True, slots=True)
class Change:
    """A row of the benchmark, now beside before."""

    row: str
    cpu_us: float
    """Per message, all servers, now."""
    cpu_ratio: float
    spread: float
    """Between the quartiles of the pairs' ratios."""
    throughput_ratio: float

    @property
    def is_named(self) -> bool:
        return self.cpu_ratio > NAMED_RATIO


def changes(pairs: Mapping[str, tuple[RowSummary, RowSummary]]) -> list[Change]:
    """Row → now, before."""
    return [_change(row, now, before) for row, (now, before) in pairs.items()]


def _change(row: str, now: RowSummary, before: RowSummary) -> Change:
    shared = sorted(now.by_round.keys() & before.by_round.keys())
    ratios = sorted(
        now.by_round[at].server_cpu_us / before.by_round[at].server_cpu_us for at in shared
    )
    quarter = len(ratios) // 4
    return Change(
        row,
        now.server_cpu_us,
        row_ratio(now, before, "CPU") or 0.0,
        ratios[-1 - quarter] - ratios[quarter],
        row_ratio(now, before, "throughput") or 0.0,
    )


def text(found: Sequence[Change]) -> str:
    """For people."""
    width = max(len(ROWS[one.row].title) for one in found)
    lines = [
        f"  {ROWS[one.row].title:<{width}}  {number(one.cpu_us):>7} µs"
        f"  CPU {times(one.cpu_ratio)} (±{one.spread / 2:.2f})"
        f"  throughput {times(one.throughput_ratio)}{'  SLOWER' if one.is_named else ''}"
        for one in found
    ]
    return "\n".join(lines)


def line(found: Sequence[Change], *, date: str, commit: str, before: str, machine: str) -> str:
    """Of the table in docs/performance/commits.md."""
    by_row = {one.row: one for one in found}
    cells = [_cell(by_row[name]) if name in by_row else "–" for name in ROWS]
    return f"| {' | '.join([date, commit, before, machine, *cells])} |\n"


def _cell(one: Change) -> str:
    ratio = times(one.cpu_ratio)
    shown = f"**{ratio}**" if one.is_named else ratio
    return f"{number(one.cpu_us)} {shown} ({one.spread:.2f})"
