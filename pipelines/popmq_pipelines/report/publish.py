"""A report, written wherever it was asked for."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from popmq_pipelines.audit.verdict import Report
from popmq_pipelines.report import gauges, last_report, report_html, report_markdown, report_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTargets:
    """None: not there."""

    out: Path | None = None
    """The audit's directory: the report is remembered there, to be shown again."""
    html: Path | None = None
    markdown: Path | None = None
    prometheus: Path | None = None
    as_json: bool = False
    """Printed as JSON."""


def publish(report: Report, snapshot: Path, targets: ReportTargets, now_s: float) -> int:
    """Prints it as well; returns the exit code. `now_s`: since 1970."""
    if targets.html is not None:
        targets.html.write_text(report_html.page(report, snapshot))
    if targets.markdown is not None:
        targets.markdown.write_text(report_markdown.document(report, snapshot))
    if targets.prometheus is not None:
        gauges.write(targets.prometheus, gauges.text(report, now_s))
    if targets.out is not None:
        last_report.save(targets.out, report, snapshot)
    if targets.as_json:
        print(json.dumps(asdict(report)))
    else:
        print(report_text.text(report, snapshot), flush=True)
    return report.verdict.exit_code
