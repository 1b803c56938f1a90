"""The report as Markdown: for a ticket, a chat, a build's summary."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from popmq_pipelines.audit.verdict import Report
from popmq_pipelines.report.report_text import (
    HEADINGS,
    ROWS_MAX,
    STATES,
    cells,
    command,
    spoken_time,
)


def document(report: Report, snapshot: Path) -> str:
    """`snapshot`: where it lies, for the commands that the document names."""
    parts = [f"# {report.verdict}: snapshot {report.snapshot_id}"]
    if report.as_of_ms is not None:
        span = ""
        if report.log_end is not None:
            span = f", log offsets {report.log_start:,} to {report.log_end:,}"
        parts.append(f"As of {spoken_time(report.as_of_ms)}{span}.")
    if report.problems:
        parts.append("\n".join(f"- {problem}" for problem in report.problems))
    if report.findings:
        parts += _findings(report, snapshot)
    if report.balance:
        parts += ["## Balance", _balance(report.balance)]
    repeats = [[why, f"{count:,}"] for why, count in report.again.items() if count]
    if repeats:
        parts += ["## Handed out again", _table(["why", "times"], repeats)]
    if report.signature:
        parts.append(f"Signature of the tables: `{report.signature}`")
    return "\n\n".join(parts) + "\n"


def _findings(report: Report, snapshot: Path) -> list[str]:
    counts = "\n".join(f"- {count:,} {kind}" for kind, count in report.finding_counts.items())
    shown = report.findings[:ROWS_MAX]
    known = [command(found, snapshot) for found in shown]
    rows = [
        [*cells(found), f"`{asked}`" if asked else ""]
        for found, asked in zip(shown, known, strict=True)
    ]
    total = sum(report.finding_counts.values())
    parts = ["## Findings", counts, _table([*HEADINGS.values(), "what is known of it"], rows)]
    if total > len(shown):
        parts.append(f"{len(shown)} of {total:,}.")
    return parts


def _balance(balance: Sequence[Mapping[str, Any]]) -> str:
    columns = ("topic", "consumer_group", "stored", *STATES)
    heads = [name.replace("consumer_", "").replace("_", " ") for name in columns]
    return _table(heads, [[str(row[name]) for name in columns] for row in balance])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    told = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in told)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
