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


def publish(report: Report, snapshot: Path, places: ReportTargets, now_s: float) -> int:
    """Prints it as well; returns the exit code. `now_s`: since 1970."""
    if places.html is not None:
        places.html.write_text(report_html.page(report, snapshot))
    if places.markdown is not None:
        places.markdown.write_text(report_markdown.document(report, snapshot))
    if places.prometheus is not None:
        gauges.write(places.prometheus, gauges.text(report, now_s))
    if places.out is not None:
        last_report.save(places.out, report, snapshot)
    if places.as_json:
        print(json.dumps(asdict(report)))
    else:
        print(report_text.text(report, snapshot), flush=True)
    return report.verdict.exit_code
