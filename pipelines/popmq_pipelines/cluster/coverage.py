"""Which offsets of a broker's log were looked at, and which never.

The ledger says what the audit has looked at since it began. What an audit before it had seen, and
what retention deleted in between, is in the report before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.cluster.audited_broker import AuditedBroker

Span = list[int]
"""From a log offset to the one behind the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    broker: str
    verdict: AuditVerdict
    looked_at: Span | None
    """None: the broker was never audited."""
    never: list[Span]
    """Before the end of what was looked at."""
    as_of_ms: int | None
    snapshots: int
    problems: list[str]
    findings: int


def coverage(audited: AuditedBroker, before: Mapping[str, Any] | None) -> Coverage:
    """`before`: the same of the report before, as JSON."""
    report, epochs = audited.report, audited.ledger.epochs
    looked_at, never = None, []
    if epochs:
        start, end = epochs[0].log_from, audited.ledger.watermark
        known = before and before["looked_at"]
        if before and known and known[1] <= end:
            never = [*before["never"]]
            if start > known[1]:  # the audit was begun anew, and something was deleted meanwhile
                never.append([known[1], start])
            start = min(start, known[0])
        elif start:
            never = [[0, start]]
        looked_at = [start, end]
    return Coverage(
        broker=audited.name,
        verdict=report.verdict,
        looked_at=looked_at,
        never=never,
        as_of_ms=report.as_of_ms if report.as_of_ms is not None else _last_ms(audited),
        snapshots=len(epochs),
        problems=list(report.problems),
        findings=sum(report.finding_counts.values()),
    )


def _last_ms(audited: AuditedBroker) -> int | None:
    newest = audited.ledger.newest
    return newest.as_of_ms if newest else None
