"""The counts of clients as a part of the audit of all brokers: a report of its own beside theirs.

It stands under the name `both ends` where theirs have the broker's, so pages, figures and alerts
have it as they have the others. There is none as long as no client counts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from popmq_pipelines.audit.verdict import PLACES_SHOWN_MAX, AuditVerdict, Report
from popmq_pipelines.jobs import balance_counts
from popmq_pipelines.report.report_text import HEADINGS
from popmq_pipelines.tables import opened_snapshot
from popmq_pipelines.tables.opened_snapshot import OpenedSnapshot

FOLDER: Final = "both-ends"
"""Beside the folders of brokers."""
NAME: Final = "both ends"
TOLD_MAX: Final = 20
"""Findings of which client and minute are told in words."""


def audit_both_ends(
    spark: SparkSession, snapshots: Sequence[Path], key: bytes | None, *, skew_ms: int
) -> Report | None:
    """`snapshots`: the newest of every broker. None: no client has reported anything."""
    opened = [opened_snapshot.open_snapshot(place, key) for place in snapshots]
    if not any(map(_has_reports, opened)):
        return None
    found = balance_counts.balance_counts(spark, opened, skew_ms=skew_ms)
    places = Counter(
        (row["kind"], row["topic"], row.get("consumer_group") or "") for row in found.findings
    )
    return Report(
        snapshot_id=", ".join(one.id for one in opened),
        broker=NAME,
        verdict=found.verdict,
        problems=[*found.problems, *balance_counts.told_findings(found)[:TOLD_MAX]],
        as_of_ms=min(one.whole.as_of_ms for one in opened) if _are_whole(opened) else None,
        finding_counts=dict(Counter(row["kind"] for row in found.findings)),
        finding_places=[
            {"kind": kind, "topic": topic, "consumer_group": group, "finding_count": count}
            for (kind, topic, group), count in places.most_common(PLACES_SHOWN_MAX)
        ],
        findings=[_finding(row) for row in found.findings],
    )


def not_read(why: str) -> Report:
    """What is told when a broker cannot be read: what it has would be missing from the balance."""
    return Report(snapshot_id="none", broker=NAME, verdict=AuditVerdict.INCOMPLETE, problems=[why])


def _has_reports(snapshot: OpenedSnapshot) -> bool:
    manifest = snapshot.manifest
    return manifest is not None and bool(manifest.files.get("client_reports", {}).get("rows"))


def _are_whole(opened: Sequence[OpenedSnapshot]) -> bool:
    return not any(one.problems for one in opened)


def _finding(row: Mapping[str, Any]) -> dict[str, Any]:
    """As brokers' audits have them. It is of a minute, so it has no place in a queue."""
    nothing = dict.fromkeys([*HEADINGS, "pop_time_ms", "message_id"])
    told = {"kind": row["kind"], "topic": row["topic"], "offset_count": row["finding_count"]}
    return {**nothing, **told, "consumer_group": row.get("consumer_group")}
