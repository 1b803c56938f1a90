"""The cluster's report in a terminal: the verdict, what to do, what changed, and sums by owner."""

from collections.abc import Iterator, Sequence

from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.cluster.cluster_page import MEANING
from popmq_pipelines.cluster.cluster_report import ClusterReport, OwnerSums
from popmq_pipelines.cluster.words import (
    bytes_told,
    covered,
    ms_told,
    never_looked_at,
    owner_told,
)
from popmq_pipelines.report.report_text import spoken_time


def text(report: ClusterReport) -> str:
    return "\n".join(_lines(report))


def _lines(report: ClusterReport) -> Iterator[str]:
    yield f"{report.verdict}: all brokers. {MEANING[report.verdict]}"
    yield from (f"  {problem}" for problem in report.problems)
    yield ""
    rows = [["audit of", "verdict", "looked at", "never looked at", "as of", "findings"]]
    rows += [
        [
            one.broker,
            one.verdict.value,
            covered(one),
            never_looked_at(one),
            "–" if one.as_of_ms is None else spoken_time(one.as_of_ms),
            f"{one.findings:,}",
        ]
        for one in report.coverage
    ]
    yield from _padded(rows)
    if report.verdict is not AuditVerdict.PASS and report.steps:
        yield from ("", "What to do:")
        yield from (f"  {step.what} ({', '.join(step.because)})" for step in report.steps)
    if report.before_ms is not None:
        yield from ("", f"Since {spoken_time(report.before_ms)}:")
        yield from (f"  {change}" for change in report.changes or ["nothing changed"])
    if report.owners:
        yield ""
        yield from _padded(_owners(report.owners))


def _owners(owners: Sequence[OwnerSums]) -> list[list[str]]:
    rows = [["owner", "stored", "bytes", "a second", "acked", "ready", "dead", "findings", "p99"]]
    for row in owners:
        acked, ready, dead = (f"{row.counts.get(name, 0):,}" for name in ("acked", "ready", "dead"))
        told = [owner_told(row.owner), f"{row.stored:,}", bytes_told(row.stored_bytes)]
        told += [f"{row.rate_per_s:,.1f}", acked, ready, dead, f"{row.findings:,}"]
        rows.append([*told, ms_told(row.store_to_ack.p99_ms) if row.store_to_ack else "–"])
    return rows


def _padded(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {line}".rstrip()
