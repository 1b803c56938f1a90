"""A report as Prometheus reads it, in a file for the node exporter's textfile collector.

The file is replaced at once. `popmq_audit_verdict` is 1 for the verdict that holds and 0 for the
others, so that an alert can ask for PASS and for the age of the audit, and never sees nothing.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from popmq_pipelines.transforms.summary import COUNTED
from popmq_pipelines.verdict import Report, Verdict

FIGURES: Final[Mapping[str, str]] = {
    "popmq_audit_verdict": "1 for the verdict of the last audit, 0 for the others",
    "popmq_audit_as_of_seconds": "the time that the last audit judges, since 1970",
    "popmq_audit_findings": "findings by kind; none when there are none",
    "popmq_audit_messages": "messages, once per group, by where they stand",
    "popmq_audit_watermark_bytes": "the log offset up to which everything was compared",
}
"""Name → what it says. All are gauges."""


def text(report: Report) -> str:
    lines = []
    for name, about in FIGURES.items():
        samples = [*_SAMPLES[name](report)]
        if samples:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"]
            lines += [f"{name}{{{_labels(labels)}}} {value}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def write(path: Path, report: Report) -> None:
    fresh = path.with_name(f".{path.name}.tmp")
    fresh.write_text(text(report))
    os.replace(fresh, path)


_Samples = Iterator[tuple[dict[str, str], int | float]]


def _verdict(report: Report) -> _Samples:
    for verdict in Verdict:
        yield {"broker": report.broker, "verdict": verdict.value}, int(verdict is report.verdict)


def _as_of(report: Report) -> _Samples:
    if report.as_of_ms is not None:
        yield {"broker": report.broker}, report.as_of_ms / 1_000


def _findings(report: Report) -> _Samples:
    for kind, count in sorted(report.finding_counts.items()):
        yield {"broker": report.broker, "kind": kind}, count


def _messages(report: Report) -> _Samples:
    if report.balance:
        for state in (*COUNTED, "not_leased"):
            count = sum(int(row[state]) for row in report.balance)
            yield {"broker": report.broker, "state": state}, count


def _watermark(report: Report) -> _Samples:
    if report.watermark is not None:
        yield {"broker": report.broker}, report.watermark


_SAMPLES: Final = {
    "popmq_audit_verdict": _verdict,
    "popmq_audit_as_of_seconds": _as_of,
    "popmq_audit_findings": _findings,
    "popmq_audit_messages": _messages,
    "popmq_audit_watermark_bytes": _watermark,
}


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
