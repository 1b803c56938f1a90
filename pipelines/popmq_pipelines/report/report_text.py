"""A report for people: the verdict, what was counted, the first findings and where to look."""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from popmq_pipelines.audit.verdict import FINDINGS_SHOWN_MAX, Report

STATES: Final[Mapping[str, tuple[str, str]]] = {
    "acked": ("acked", "good"),
    "in_flight": ("leased, in their time", "calm"),
    "not_leased": ("ready, or not for this group", "calm"),
    "retried": ("copied to the retry topic", "calm"),
    "dead": ("dead letters", "calm"),
    "voided": ("set aside by a reset", "calm"),
    "overdue": ("overdue: not revived in time", "bad"),
    "uncopied": ("ended without the copy", "bad"),
}
"""A column of recon_balance → what it means, and whether it may be."""

ROWS_MAX: Final = 20
HEADINGS: Final = {
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
        told.append(f"  as of {spoken_time(report.as_of_ms)}")
    if report.log_end is not None:
        told[-1] += f", log offsets {report.log_start} to {report.log_end}"
    if len(report.judged) > 1:
        told.append(f"  {len(report.judged)} snapshots' messages were looked at")
    told += [f"  {problem}" for problem in report.problems]
    told += [f"  {count:>10}  leases {state}" for state, count in report.lease_states.items()]
    if report.findings:
        told += _findings(report, snapshot)
    return "\n".join(told)


def _findings(report: Report, snapshot: Path) -> list[str]:
    told = [""]
    told += [f"  {count:>10}  {kind}" for kind, count in report.finding_counts.items()]
    shown = report.findings[:ROWS_MAX]
    rows = [list(HEADINGS.values()), *map(cells, shown)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    told.append("")
    for row in rows:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        told.append("  " + "  ".join(padded).rstrip())
    total = sum(report.finding_counts.values())
    told.append("")
    if total > len(shown):
        told.append(
            f"  {len(shown)} of {total}; --json and --html have up to {FINDINGS_SHOWN_MAX:,}, "
            "each with its command."
        )
    first = next((found for found in shown if found["consumer_group"]), shown[0])
    asked, logged = explain_command(first), show_command(first, snapshot)
    if asked:
        told += ["  What the broker says of one of them:", f"    {asked}"]
    if logged:
        told += ["  What the log says of one of them:", f"    {logged}"]
    return told


def command(found: Mapping[str, Any], snapshot: Path) -> str:
    """What tells most about a finding: the broker, where it has an id to be asked for. Empty: it
    is of no message."""
    return explain_command(found) or show_command(found, snapshot) or ""


def explain_command(found: Mapping[str, Any]) -> str | None:
    """Asks the broker what happened to the message; None: nothing is known that it could be asked
    for, as of a message that is missing."""
    message_id = found.get("message_id")
    if not message_id:
        return None
    group = found["consumer_group"]
    asked = f"popmq explain {shlex.quote(message_id)}"
    return f"{asked} --group {shlex.quote(group)}" if group else asked


def show_command(found: Mapping[str, Any], snapshot: Path) -> str | None:
    """What a person types to see all that the log says of a finding's first offset; None: it is of
    no place in a queue."""
    if found["queue_id"] is None:
        return None
    return (
        f"popmq-pipelines show --snapshot {shlex.quote(str(snapshot))} "
        f"--topic {shlex.quote(found['topic'])} --queue {found['queue_id']} "
        f"--offset {found['queue_offset']}"
    )


def cells(found: Mapping[str, Any]) -> list[str]:
    """A finding in the order of `HEADINGS`."""
    return [
        spoken_time(found[name])
        if name == "due_ms" and found[name] is not None
        else _cell(found[name])
        for name in HEADINGS
    ]


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def spoken_time(ms: int) -> str:
    """In UTC, as a person writes it."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # a lease of a thousand years is possible
        return f"{ms} ms"
