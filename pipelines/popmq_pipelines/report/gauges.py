"""A report as Prometheus reads it, in a file for the node exporter's textfile collector.

A file is replaced at once. `popmq_audit_verdict` is 1 for the verdict that holds and 0 for the
others, so that an alert can ask for PASS and for the age of the audit, and never sees nothing.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from popmq_pipelines.audit.summary import COUNTED
from popmq_pipelines.audit.verdict import AuditVerdict, Report

FIGURES: Final[Mapping[str, str]] = {
    "popmq_audit_verdict": "1 for the verdict of the last audit, 0 for the others",
    "popmq_audit_as_of_seconds": "the time that the last audit judges, since 1970",
    "popmq_audit_ran_seconds": "when the last audit gave its verdict, since 1970",
    "popmq_audit_findings": "findings by kind, topic and group; none when there are none",
    "popmq_audit_messages": "messages, once per group, by where they stand",
    "popmq_audit_watermark_bytes": "the log offset up to which everything was compared",
}
"""Name → what it says. All are gauges."""

SCHEDULE: Final[Mapping[str, str]] = {
    "popmq_audit_every_seconds": "from the beginning of one audit to that of the next",
    "popmq_audit_exit_code": "of the last run: 0 PASS, 1 FAIL, 4 INCOMPLETE, else it did not run",
}
"""The same of a schedule."""


def text(report: Report, ran_s: float) -> str:
    """`ran_s`: when it gave its verdict, since 1970."""
    lines = []
    for name, about in FIGURES.items():
        samples = [*_SAMPLES[name](report, ran_s)]
        if samples:
            lines += _family(name, about, samples)
    return "\n".join(lines) + "\n"


def schedule_text(every_s: float, exit_code: int | None) -> str:
    """`exit_code`: of the last run; None: there was none yet."""
    values = dict(zip(SCHEDULE, (every_s, exit_code), strict=True))
    lines = []
    for name, value in values.items():
        if value is not None:
            lines += _family(name, SCHEDULE[name], [({}, value)])
    return "\n".join(lines) + "\n"


def write(path: Path, told: str) -> None:
    fresh = path.with_name(f".{path.name}.tmp")
    fresh.write_text(told)
    os.replace(fresh, path)


def _family(
    name: str, about: str, samples: Sequence[tuple[Mapping[str, str], int | float]]
) -> list[str]:
    told = [f"{name}{{{_labels(labels)}}} {value}" for labels, value in samples]
    return [f"# HELP {name} {about}", f"# TYPE {name} gauge", *told]


_Samples = Iterator[tuple[dict[str, str], int | float]]


def _verdict(report: Report, _: float) -> _Samples:
    for verdict in AuditVerdict:
        yield {"broker": report.broker, "verdict": verdict.value}, int(verdict is report.verdict)


def _as_of(report: Report, _: float) -> _Samples:
    if report.as_of_ms is not None:
        yield {"broker": report.broker}, report.as_of_ms / 1_000


def _ran(report: Report, ran_s: float) -> _Samples:
    yield {"broker": report.broker}, ran_s


def _findings(report: Report, _: float) -> _Samples:
    """What is not among the first places has neither topic nor group: a sum by kind tells all."""
    left = Counter(report.finding_counts)
    for place in report.finding_places:
        kind, count = place["kind"], int(place["finding_count"])
        left[kind] -= count
        group = place["consumer_group"]
        yield _found_at(report, kind, place["topic"], group), count
    for kind, count in sorted(left.items()):
        if count > 0:
            yield _found_at(report, kind, "", ""), count


def _found_at(report: Report, kind: str, topic: str, group: str) -> dict[str, str]:
    return {"broker": report.broker, "kind": kind, "topic": topic, "group": group}


def _messages(report: Report, _: float) -> _Samples:
    if report.balance:
        for state in (*COUNTED, "not_leased"):
            count = sum(int(row[state]) for row in report.balance)
            yield {"broker": report.broker, "state": state}, count


def _watermark(report: Report, _: float) -> _Samples:
    if report.watermark is not None:
        yield {"broker": report.broker}, report.watermark


_SAMPLES: Final = {
    "popmq_audit_verdict": _verdict,
    "popmq_audit_as_of_seconds": _as_of,
    "popmq_audit_ran_seconds": _ran,
    "popmq_audit_findings": _findings,
    "popmq_audit_messages": _messages,
    "popmq_audit_watermark_bytes": _watermark,
}


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
