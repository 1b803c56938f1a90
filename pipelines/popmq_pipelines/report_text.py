"""A report for people: the verdict, what was counted, the first findings and where to look."""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from popmq_pipelines.verdict import FINDINGS_SHOWN_MAX, Report, Verdict

ROWS_MAX: Final = 20
_HEADINGS: Final = {
    "kind": "finding",
    "topic": "topic",
    "consumer_group": "group",
    "queue_id": "queue",
    "queue_offset": "offset",
    "offset_count": "count",
    "generation": "gen",
    "due_ms": "due",
    "log_offset": "log offset",
}


def text(report: Report, snapshot: Path) -> str:
    told = [f"{report.verdict}: snapshot {report.snapshot_id}"]
    if report.as_of_ms is not None:
        span = f"log offsets {report.log_start} to {report.log_end}"
        told.append(f"  as of {_time(report.as_of_ms)}, {span}")
    told += [f"  {problem}" for problem in report.problems]
    told += [f"  {count:>10}  leases {state}" for state, count in report.lease_states.items()]
    if report.verdict is Verdict.FAIL:
        told += _findings(report, snapshot)
    return "\n".join(told)


def _findings(report: Report, snapshot: Path) -> list[str]:
    told = [""]
    told += [f"  {count:>10}  {kind}" for kind, count in report.finding_counts.items()]
    shown = report.findings[:ROWS_MAX]
    cells = [list(_HEADINGS.values()), *(_cells(found) for found in shown)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_HEADINGS))]
    told.append("")
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        told.append("  " + "  ".join(padded).rstrip())
    total = sum(report.finding_counts.values())
    told.append("")
    if total > len(shown):
        told.append(
            f"  {len(shown)} of {total}; --json has up to {FINDINGS_SHOWN_MAX:,} and all columns."
        )
    first = next((found for found in shown if found["consumer_group"]), shown[0])
    told.append("  What the log says of one of them:")
    told.append(
        f"    python -m popmq_pipelines show --snapshot {shlex.quote(str(snapshot))} "
        f"--topic {shlex.quote(first['topic'])} --queue {first['queue_id']} "
        f"--offset {first['queue_offset']}"
    )
    return told


def _cells(found: Mapping[str, Any]) -> list[str]:
    return [
        _time(found[name]) if name == "due_ms" and found[name] is not None else _cell(found[name])
        for name in _HEADINGS
    ]


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def _time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # a lease of a thousand years is possible
        return f"{ms} ms"
